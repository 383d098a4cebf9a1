//! Containers of three runtimes in one output, and the Collector's own processor on what we send.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use super::workloads::BUSY;
use super::{has, resource};
use crate::needs::part;
use crate::program::{Program, eventually, free_address};
use crate::support::agent::Agent;
use crate::support::cluster::{Cluster, containers};
use crate::support::collector::Collector;
use crate::support::container::Podman;
use crate::support::docker::Docker;
use crate::support::jaeger::Jaeger;

/// About 50 ms.
const BRIEF: &str = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";

/// A container and the attributes that it must have.
type Expected<'a> = (String, Vec<(&'a str, &'a str)>);

/// A pod, a docker and a podman container, and one of podman's that lives 50 ms: in a Collector's files and in Jaeger.
pub(super) fn docker_and_podman(cluster: &Cluster, at: &Path) -> Result<()> {
    let mut collector = Collector::start(at)?;
    let mut jaeger = Jaeger::start(at)?;
    let mut podman = Podman::start(at)?;
    let (_service, podman_socket) = podman.serve()?;
    let mut docker = Docker::start(at)?;
    let sockets =
        [("containerd", cluster.file("containerd.sock")), ("docker", docker.socket()), ("podman", podman_socket)];
    let runtimes: Vec<String> =
        sockets.iter().map(|(name, socket)| format!("{name}: {{endpoint: 'unix://{}'}}", socket.display())).collect();
    let config = format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{sample_ratio: 1, rate_per_cgroup: 20}}}}}}
processors:
  container: {{runtimes: {{{}}}, kubernetes: {{source: none}}, labels: [team]}}
  sched_metrics:
  sched_spans: {{window: 2s}}
exporters:
  otlp_grpc/collector: {{endpoint: '{}', tls: {{insecure: true}}}}
  otlp_grpc/jaeger: {{endpoint: '{}', tls: {{insecure: true}}}}
service:
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [otlp_grpc/collector]}}
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [otlp_grpc/collector, otlp_grpc/jaeger]}}
",
        runtimes.join(", "),
        collector.grpc,
        jaeger.grpc
    );
    let mut agent = Agent::start(at, &config)?;
    let pod = &cluster.pods_with_ids("shop-", 3)?[0];
    let (_, in_pod) = containers(pod).pop().context("no container")?;
    let pod_name = pod["metadata"]["name"].as_str().context("no name")?;
    let in_docker = docker.run("web", BUSY)?;
    let in_podman = podman.run("mail", 0.5, BUSY, &["--label", "team=post"])?;
    let brief = podman.run_to_end(BRIEF)?;
    let expected: [Expected<'_>; 4] = [
        (in_docker, labelled("docker", "web", "shop/busybox", "checkout")),
        (in_podman.id.clone(), labelled("podman", "mail", "localhost/busybox", "post")),
        (
            in_pod,
            vec![("container.runtime.name", "containerd"), ("k8s.pod.name", pod_name), ("k8s.container.name", "web")],
        ),
        (brief, vec![("container.runtime.name", "podman")]),
    ];
    for (id, attributes) in &expected {
        in_both(id, attributes, &collector, &mut jaeger).with_context(|| agent.output())?;
    }
    agent.stop()?;
    podman.remove(&in_podman)?;
    collector.stop()
}

fn labelled<'a>(runtime: &'a str, name: &'a str, image: &'a str, team: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("container.runtime.name", runtime),
        ("container.name", name),
        ("container.image.name", image),
        ("container.label.team", team),
    ]
}

/// Waits until points and spans of a container have come, the newest with its names, at both ends.
fn in_both(id: &str, attributes: &[(&str, &str)], collector: &Collector, jaeger: &mut Jaeger) -> Result<()> {
    let key = attributes[attributes.len() - 1].0;
    let of_it = |resource: &Map<String, Value>| {
        resource.get("container.id").is_some_and(|found| found == id) && resource.contains_key(key)
    };
    let patience = Duration::from_secs(60);
    let point = eventually(&format!("points of {id}"), patience, || {
        Ok(collector.points()?.into_iter().rfind(|point| of_it(&point.resource)))
    })?;
    has(&point.resource, attributes)?;
    let span = eventually(&format!("spans of {id} in the Collector"), patience, || {
        Ok(collector.spans()?.into_iter().rfind(|span| of_it(&span.resource)))
    })?;
    has(&span.resource, attributes)?;
    let span = eventually(&format!("spans of {id} in Jaeger"), patience, || {
        for service in jaeger.services()? {
            let found = jaeger.spans(&service)?.into_iter().rfind(|span| of_it(&span.resource));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    })?;
    has(&span.resource, attributes)
}

/// From ids alone, which is all that an agent without rights sends, `k8s_attributes` finds what we find ourselves.
pub(super) fn k8s_attributes(cluster: &Cluster, at: &Path, output: &Path) -> Result<()> {
    let (grpc, enriched) = (free_address()?, at.join("enriched.json"));
    let file = at.join("enriching.yaml");
    fs::write(
        &file,
        format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{grpc}'}}}}}}}}
processors:
  k8s_attributes:
    auth_type: kubeConfig
    filter: {{node: node1}}
    extract: {{metadata: [k8s.pod.name, k8s.namespace.name, k8s.deployment.name, k8s.container.name, k8s.node.name]}}
    pod_association:
      - sources: [{{from: resource_attribute, name: container.id}}]
      - sources: [{{from: resource_attribute, name: k8s.pod.uid}}]
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [otlp], processors: [k8s_attributes], exporters: [file]}}}}
",
            enriched.display()
        ),
    )?;
    let mut command = cluster.network();
    command.arg(part("collector").map_err(anyhow::Error::msg)?).arg("--config").arg(&file);
    let mut collector = Program::start("enriching", &mut command, at)?;
    collector.says("Everything is ready")?;
    let config = format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_metrics: {{}}}}
exporters: {{otlp_grpc: {{endpoint: '{grpc}', tls: {{insecure: true}}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [otlp_grpc]}}}}
"
    );
    let mut agent = Agent::start_as("bare-agent", cluster.network(), at, &config)?;
    for pod in cluster.pods_with_ids("shop-", 3)? {
        let (_, id) = containers(&pod).pop().context("no container")?;
        let theirs = resource(&enriched, &id, "k8s.deployment.name").with_context(|| collector.output())?;
        let ours = resource(output, &id, "k8s.deployment.name")?;
        for key in [
            "k8s.pod.name",
            "k8s.pod.uid",
            "k8s.namespace.name",
            "k8s.deployment.name",
            "k8s.container.name",
            "k8s.node.name",
        ] {
            ensure!(ours.get(key).is_some() && ours.get(key) == theirs.get(key), "{key}: {ours:?} and {theirs:?}");
        }
    }
    agent.stop()?;
    collector.stop(rustix::process::Signal::TERM)?;
    Ok(())
}
