//! A real cluster: every pod under its own names, whoever is asked, and what is said where that is forbidden or away.

mod beside;
mod chart;
mod inside;
mod workloads;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::{Map, Value};

use crate::program::eventually;
use crate::support::agent::Agent;
use crate::support::cluster::{Cluster, containers};
use crate::support::collector::points_in;
use crate::support::folder;

/// An agent that writes metrics to a file, with this `kubernetes` section.
fn config(cluster: &Cluster, kubernetes: &str, output: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}}}
processors:
  container:
    runtimes: {{containerd: {{endpoint: 'unix://{}'}}}}
    labels: [app]
    kubernetes: {{node: node1, {kubernetes}}}
  sched_metrics:
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}
",
        cluster.file("containerd.sock").display(),
        output.display()
    )
}

const KUBELET: &str =
    "source: kubelet, endpoint: 'https://10.9.8.7:10250', insecure_skip_verify: true, auth: token_file";

/// The Resource of a container in an agent's output, once it has that key.
fn resource(output: &Path, id: &str, key: &str) -> Result<Map<String, Value>> {
    eventually(&format!("{key} of {id}"), Duration::from_secs(30), || {
        let points = points_in(output)?;
        let of_it = points.into_iter().rfind(|point| {
            point.resource.get("container.id").is_some_and(|found| found == id) && point.resource.contains_key(key)
        });
        Ok(of_it.map(|point| point.resource))
    })
}

fn has(resource: &Map<String, Value>, pairs: &[(&str, &str)]) -> Result<()> {
    for (key, value) in pairs {
        ensure!(resource.get(*key).is_some_and(|got| got == value), "{key} is not {value}: {resource:?}");
    }
    Ok(())
}

/// Every container of a pod is in the output under the pod's names, its workload's among them.
fn is_named(output: &Path, pod: &Value, workload: &[(&str, &str)]) -> Result<()> {
    are_named(output, pod, containers(pod), workload)
}

/// The same of the container that runs: an agent that came later never saw the others.
fn running_is_named(output: &Path, pod: &Value, workload: &[(&str, &str)]) -> Result<()> {
    are_named(output, pod, containers(pod).pop(), workload)
}

fn are_named(
    output: &Path,
    pod: &Value,
    containers: impl IntoIterator<Item = (String, String)>,
    workload: &[(&str, &str)],
) -> Result<()> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text(&pod["metadata"]["name"]), text(&pod["metadata"]["namespace"]));
    for (container, id) in containers {
        let found = resource(output, &id, "k8s.container.name").with_context(|| format!("{name}/{container}"))?;
        has(
            &found,
            &[
                ("k8s.pod.name", &name),
                ("k8s.namespace.name", &namespace),
                ("k8s.container.name", &container),
                ("k8s.node.name", "node1"),
            ],
        )?;
        has(&found, workload)?;
        if pod["metadata"]["annotations"]["kubernetes.io/config.hash"].is_null() {
            has(&found, &[("k8s.pod.uid", &text(&pod["metadata"]["uid"]))])?;
        }
    }
    Ok(())
}

/// A step of the test, told while it runs.
fn step<T>(what: &str, does: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = std::time::Instant::now();
    let done = does().with_context(|| what.to_owned());
    println!("  {what}: {:.1} s", begin.elapsed().as_secs_f64());
    done
}

pub(crate) fn pods_are_named() -> Result<()> {
    let folder = folder()?;
    let at = folder.path();
    let cluster = step("the cluster starts", || Cluster::start(at))?;
    cluster.apply(workloads::RIGHTS)?;
    let token = at.join("token");
    fs::write(&token, cluster.token("agent")?)?;
    let output = at.join("host.json");
    let by_kubelet = config(&cluster, &format!("{KUBELET}, token_file: '{}'", token.display()), &output);
    let mut agent = Agent::start_as("host-agent", cluster.network(), at, &by_kubelet)?;
    agent.says("names of pods are there, from the kubelet")?;

    let result = each_pod(&cluster, &output)
        .and_then(|()| step("a docker and a podman container beside", || beside::docker_and_podman(&cluster, at)))
        .and_then(|()| step("k8s_attributes finds the same", || beside::k8s_attributes(&cluster, at, &output)))
        .and_then(|()| step("an agent in a pod gives the same", || inside::on_every_node(&cluster, at, &output)))
        .and_then(|()| step("an agent beside an application", || inside::beside_an_application(&cluster, at)))
        .and_then(|()| step("the chart renders the manifests", chart::renders_the_manifests))
        .and_then(|()| step("the chart", || chart::is_installed(&cluster, at)))
        .and_then(|()| step("a label is renamed, the kubelet restarts", || changes(&cluster, &output)))
        .and_then(|()| step("a token is withdrawn and rotated", || rotation(&cluster, &token, &mut agent)))
        .and_then(|()| step("rights are missing", || forbidden(&cluster, at)))
        .and_then(|()| step("the API server is away", || away(&cluster, at)));
    result.with_context(|| agent.output())?;
    agent.stop()?;
    step("the cluster ends", || {
        drop(cluster);
        Ok(())
    })
}

fn each_pod(cluster: &Cluster, output: &Path) -> Result<()> {
    fs::write(cluster.file("manifests/static.yaml"), workloads::pod("static", "kube-system", workloads::BUSY))?;
    cluster.apply(workloads::DEPLOYMENT)?;
    cluster.apply(workloads::JOB)?;
    cluster.apply(&workloads::pod("web-0", "default", workloads::BUSY))?;
    step("a Deployment of three, each with an init container", || {
        let workload = [("k8s.deployment.name", "shop"), ("k8s.pod.label.app", "shop")];
        cluster.pods_with_ids("shop-", 3)?.iter().try_for_each(|pod| is_named(output, pod, &workload))
    })?;
    step("a Job of 50 ms", || {
        cluster
            .pods_with_ids("brief-", 1)?
            .iter()
            .try_for_each(|pod| is_named(output, pod, &[("k8s.job.name", "brief")]))
    })?;
    step("a static pod", || {
        cluster.pods_with_ids("static-node1", 1)?.iter().try_for_each(|pod| is_named(output, pod, &[]))
    })?;
    step("a pod under the name of a deleted one", || {
        let first = cluster.pods_with_ids("web-0", 1)?;
        is_named(output, &first[0], &[])?;
        cluster.kubectl(&["delete", "pod", "web-0", "--force", "--grace-period=0"])?;
        cluster.apply(&workloads::pod("web-0", "default", workloads::BUSY))?;
        let second = cluster.pods_with_ids("web-0", 1)?;
        ensure!(first[0]["metadata"]["uid"] != second[0]["metadata"]["uid"], "it is the same pod");
        is_named(output, &second[0], &[])
    })?;
    Ok(())
}

/// A running container keeps the label that its series began with, for backends tell series apart by it; a kubelet
/// that was killed is asked again.
fn changes(cluster: &Cluster, output: &Path) -> Result<()> {
    let pod = &cluster.pods_with_ids("web-0", 1)?[0];
    let (_, id) = containers(pod).pop().context("no container")?;
    cluster.kubectl(&["label", "pod", "web-0", "app=renamed", "--overwrite"])?;
    // longer than between two lists
    std::thread::sleep(Duration::from_secs(12));
    let points = points_in(output)?;
    let of_it = points.iter().filter(|point| point.resource.get("container.id").is_some_and(|found| *found == *id));
    let labels: BTreeSet<&str> =
        of_it.filter_map(|point| point.resource.get("k8s.pod.label.app").and_then(Value::as_str)).collect();
    ensure!(labels == BTreeSet::from(["web-0"]), "{labels:?}");
    cluster.signal("kubelet", Signal::KILL)?;
    cluster.apply(&workloads::pod("after", "default", workloads::BUSY))?;
    is_named(output, &cluster.pods_with_ids("after", 1)?[0], &[])
}

/// The token of an account is bound to a Secret, which goes.
fn rotation(cluster: &Cluster, token: &Path, agent: &mut Agent) -> Result<()> {
    cluster.kubectl(&["create", "secret", "generic", "bound"])?;
    let bound = ["create", "token", "agent", "--bound-object-kind=Secret", "--bound-object-name=bound"];
    fs::write(token, cluster.kubectl(&bound)?.trim())?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(!agent.output().contains("401"), "the bound token is refused");
    cluster.kubectl(&["delete", "secret", "bound"])?;
    agent.says("401")?;
    fs::write(token, cluster.token("agent")?)?;
    let before = agent.output().matches("from the kubelet").count();
    eventually("the new token's use", Duration::from_secs(40), || {
        Ok((agent.output().matches("from the kubelet").count() > before).then_some(()))
    })
}

fn forbidden(cluster: &Cluster, at: &Path) -> Result<()> {
    let token = at.join("powerless");
    fs::write(&token, cluster.token("default")?)?;
    let by_api = "source: api, endpoint: 'https://10.0.0.1:443', insecure_skip_verify: true, auth: token_file";
    let sources = [("forbidden-kubelet", KUBELET, "nodes/proxy"), ("forbidden-api", by_api, "resources: [pods]")];
    for (name, source, rule) in sources {
        let config = config(cluster, &format!("{source}, token_file: '{}'", token.display()), &at.join("none.json"));
        let mut agent = Agent::start_as(name, cluster.network(), at, &config)?;
        agent.says(rule)?;
        std::thread::sleep(Duration::from_secs(3));
        let told = agent.output().matches(rule).count();
        ensure!(told == 1, "told {told} times:\n{}", agent.output());
        agent.stop()?;
    }
    Ok(())
}

/// What was known stays, what is new is named when the server is back.
fn away(cluster: &Cluster, at: &Path) -> Result<()> {
    let output = at.join("api.json");
    let config = config(cluster, "source: api, auth: kubeconfig", &output);
    let mut agent = Agent::start_as("api-agent", cluster.network(), at, &config)?;
    let result = (|| {
        agent.says("names of pods are there, from the API server")?;
        let pods = cluster.pods_with_ids("shop-", 3)?;
        running_is_named(&output, &pods[0], &[("k8s.deployment.name", "shop")])?;
        let mirror = &cluster.pods_with_ids("static-node1", 1)?[0];
        let (_, id) = containers(mirror).pop().context("no container")?;
        let uid = mirror["metadata"]["uid"].as_str().unwrap_or_default();
        has(&resource(&output, &id, "k8s.pod.uid")?, &[("k8s.pod.uid", uid)])?;

        cluster.signal("kube-apiserver", Signal::STOP)?;
        std::thread::sleep(Duration::from_secs(5));
        cluster.signal("kube-apiserver", Signal::CONT)?;
        eventually("the API server", Duration::from_secs(30), || Ok(cluster.pods().ok()))?;
        cluster.apply(&workloads::pod("later", "default", workloads::BUSY))?;
        is_named(&output, &cluster.pods_with_ids("later", 1)?[0], &[])
    })();
    if result.is_err() {
        bail!("{:#}\n{}", result.err().context("no error")?, agent.output());
    }
    agent.stop()?;
    Ok(())
}
