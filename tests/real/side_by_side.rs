//! A docker and a podman container side by side: each under its own name in one output.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::program::eventually;
use crate::support::agent::Agent;
use crate::support::collector::{Point, points_in};
use crate::support::container::Podman;
use crate::support::docker::Docker;
use crate::support::folder;

const BUSY: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; done";

pub(crate) fn docker_and_podman() -> Result<()> {
    let folder = folder()?;
    let mut podman = Podman::start(folder.path())?;
    let (_service, podman_socket) = podman.serve()?;
    let mut docker = Docker::start(folder.path())?;
    let output = folder.path().join("metrics.json");
    let config = format!(
        "receivers: {{sched: {{collection_interval: 1s}}}}
processors:
  container:
    runtimes: {{docker: {{endpoint: 'unix://{}'}}, podman: {{endpoint: 'unix://{}'}}}}
    kubernetes: {{source: none}}
    labels: [team]
  sched_metrics:
exporters: {{file: {{path: '{}'}}}}
service: {{pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}}}
",
        docker.socket().display(),
        podman_socket.display(),
        output.display()
    );
    let mut agent = Agent::start(folder.path(), &config)?;
    let in_docker = docker.run("web", BUSY)?;
    let in_podman = podman.run("mail", 0.5, BUSY, &["--label", "team=post"])?;
    let expected = [
        (in_docker.as_str(), "docker", "web", "shop/busybox", "checkout"),
        (in_podman.id.as_str(), "podman", "mail", "localhost/busybox", "post"),
    ];
    for (id, runtime, name, image, team) in expected {
        let of_it = |point: &Point| point.resource.get("container.id").is_some_and(|found| found == id);
        let named = eventually(&format!("{name} of {runtime}"), Duration::from_secs(20), || {
            let points = points_in(&output)?;
            Ok(points.into_iter().rfind(|point| of_it(point) && point.resource.contains_key("container.name")))
        })
        .with_context(|| agent.output())?;
        for (key, value) in [
            ("container.name", name),
            ("container.runtime.name", runtime),
            ("container.image.name", image),
            ("container.label.team", team),
        ] {
            ensure!(
                named.resource.get(key).is_some_and(|got| got == value),
                "{key} is not {value}: {:?}",
                named.resource
            );
        }
    }
    agent.stop().with_context(|| agent.output())?;
    fs::remove_file(&output)?;
    podman.remove(&in_podman)
}
