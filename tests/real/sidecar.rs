//! The agent in a container of a pod, in a cgroup namespace of its own: it sees no cgroup of the host's by files, began after the
//! application, and still tells the pod's containers and no neighbour.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cgroup::{Cgroup, container_id};
use crate::program::eventually;
use crate::support::agent::Agent;
use crate::support::collector::points_in;
use crate::support::folder;

const POD: &str = "4f1c0d6e-2b7a-4d52-9c55-0a6b1c2d3e4f";
const BUSY: &str = "while :; do :; done";
/// Enters a cgroup, and in the namespaces that it makes its own part of the hierarchy is mounted at most.
const ENTER: &str = "echo 0 >\"$0/cgroup.procs\" && exec unshare --cgroup --mount \
    sh -c 'umount -R -l /sys/fs/cgroup/cpu 2>/dev/null || umount -R -l /sys/fs/cgroup
    [ ! -d \"$0\" ] || mount -t cgroup -o cpu none \"$0\" || mount -t cgroup2 none \"$0\" && exec \"$@\"' \"$@\"";

pub(crate) fn sees_its_pod_from_inside() -> Result<()> {
    sees_its_pod(true)?;
    sees_its_pod(false)
}

fn sees_its_pod(is_mounted: bool) -> Result<()> {
    let folder = folder()?;
    let output = folder.path().join("metrics.json");
    let part = folder.path().join("part");
    if is_mounted {
        fs::create_dir(&part)?;
    }
    let ids = [1, 2, 3].map(container_id);
    let in_pod = |id: &str| Cgroup::make(&format!("/sidecar-pods/pod{POD}/{id}"));
    let (mut application, own) = (in_pod(&ids[0])?, in_pod(&ids[1])?);
    let mut neighbour = Cgroup::docker(&ids[2])?;
    application.run(BUSY)?;
    neighbour.run(BUSY)?;
    let mut inside = Command::new("sh");
    inside.args(["-c", ENTER]).arg(&own.path).arg(&part);
    let mut agent = Agent::start_as("sidecar", inside, folder.path(), &config(&output))?;
    agent.says(&format!("scope is /sidecar-pods/pod{POD} and below"))?;
    for id in &ids[..2] {
        eventually(&format!("points of {id}"), Duration::from_secs(30), || {
            let found = points_in(&output)?.into_iter().rfind(|point| {
                let is = |key: &str, value: &str| point.resource.get(key).is_some_and(|found| found == value);
                is("container.id", id) && is("k8s.pod.uid", POD)
            });
            Ok(found)
        })
        .with_context(|| agent.output())?;
    }
    let told = fs::read_to_string(&output)?;
    ensure!(!told.contains(&ids[2]), "the neighbour {} is told", ids[2]);
    agent.stop()?;
    Ok(())
}

fn config(output: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, scope: pod}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_metrics: {{}}}}
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}
",
        output.display()
    )
}
