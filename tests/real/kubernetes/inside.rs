//! The agent inside the cluster: on every node with the host's pids, and beside an application with its pod's alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{config, has, is_named, resource, workloads};
use crate::support::cluster::{Cluster, containers};

/// The same binary as a DaemonSet with the host's pids: what it says of a container is what the host's agent says.
pub(super) fn on_every_node(cluster: &Cluster, at: &Path, output: &Path) -> Result<()> {
    let own = at.join("pod.json");
    let file = at.join("pod-agent.yaml");
    let kubernetes = "source: kubelet, endpoint: 'https://10.9.8.7:10250', insecure_skip_verify: true";
    fs::write(&file, config(cluster, kubernetes, &own).replace("{sched: {", "{sched: {root_path: /host, "))?;
    let binary = Path::new(env!("CARGO_BIN_EXE_schedscope"));
    cluster.apply(&workloads::daemon_set(binary, &file, at)?)?;
    let pod = &cluster.pods_with_ids("shop-", 3)?[0];
    let (_, id) = containers(pod).pop().context("no container")?;
    let says = || cluster.kubectl(&["logs", "daemonset/schedscope"]).unwrap_or_default();
    let theirs = resource(&own, &id, "k8s.deployment.name").with_context(says)?;
    let ours = resource(output, &id, "k8s.deployment.name")?;
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differ: Vec<_> = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key)).collect();
    ensure!(differ.is_empty(), "they differ in {differ:?}: host {ours:?}, pod {theirs:?}");
    // its own container is a container too, under its own name
    let pods = cluster.pods_with_ids("schedscope-", 1)?;
    is_named(&own, &pods[0], &[("k8s.daemonset.name", "schedscope")]).with_context(says)?;
    cluster.kubectl(&["delete", "daemonset", "schedscope", "--wait=false"])?;
    Ok(())
}

/// It sees its own pod, and of a neighbour neither id nor name, though neighbours have the CPU.
pub(super) fn beside_an_application(cluster: &Cluster, at: &Path) -> Result<()> {
    let (own, file) = (at.join("sidecar.json"), at.join("sidecar.yaml"));
    fs::write(
        &file,
        format!(
            "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{preset: everything}}}}}}
processors:
  container: {{runtimes: [], kubernetes: {{source: downward}}}}
  sched_metrics: {{}}
  sched_spans: {{window: 1s}}
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}
",
            own.display()
        ),
    )?;
    cluster.apply(&workloads::with_sidecar(Path::new(env!("CARGO_BIN_EXE_schedscope")), &file, at)?)?;
    let says = || cluster.kubectl(&["logs", "guarded", "-c", "agent"]).unwrap_or_default();
    let pod = &cluster.pods_with_ids("guarded", 1)?[0];
    for (name, id) in containers(pod) {
        let found = resource(&own, &id, "k8s.pod.name").with_context(says)?;
        let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
        has(&found, &[("k8s.pod.name", "guarded"), ("k8s.namespace.name", "default"), ("k8s.pod.uid", uid)])
            .with_context(|| name)?;
    }
    ensure!(says().contains("everything else is `other`"), "{}", says());
    std::thread::sleep(std::time::Duration::from_secs(3));
    let told = fs::read_to_string(&own)?;
    ensure!(told.contains("sched.wait") && told.contains("\"other\""), "no wait names the others");
    for neighbour in cluster.pods()?.iter().filter(|other| other["metadata"]["uid"] != pod["metadata"]["uid"]) {
        for (_, id) in containers(neighbour).iter().filter(|(_, id)| !id.is_empty()) {
            ensure!(!told.contains(id), "a neighbour's container {id} is told");
        }
    }
    for process in ["kube-apiserver", "kubelet", "containerd", "etcd"] {
        ensure!(!told.contains(process), "{process} of the host is told");
    }
    cluster.kubectl(&["delete", "pod", "guarded", "--force", "--grace-period=0"])?;
    Ok(())
}
