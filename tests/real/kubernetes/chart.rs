//! The Helm chart on a real cluster: installed, upgraded, rolled back, refused its rights, beside an application, uninstalled;
//! and the plain manifests, which are what it renders.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::{Map, Value};

use super::{has, step};
use crate::needs::part;
use crate::program::{Program, eventually, free_address};
use crate::support::cluster::{Cluster, IMAGE, containers};
use crate::support::collector::{Point, points_in};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/deploy/helm/schedscope");
const APPLICATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sidecar_chart");
/// Rendered from the chart: the file, and the values.
const MANIFESTS: &[(&str, &[&str])] = &[
    (
        "config/deploy/kubernetes/daemonset.yaml",
        &["--set=otlp.endpoint=collector.observability:4317,otlp.insecure=true"],
    ),
    ("config/deploy/kubernetes/table.yaml", &["--set=kubernetes.source=none"]),
];
/// The image that the test makes; pods have the node's network, for this cluster has no other.
const OURS: &str =
    "image.repository=docker.io/library/schedscope,image.tag=test,image.pullPolicy=Never,hostNetwork=true";
const AGENT_IMAGE: &str = "docker.io/library/schedscope:test";
/// What a release must not leave behind.
const KINDS: &str = "daemonsets,deployments,pods,configmaps,secrets,serviceaccounts,clusterroles,clusterrolebindings";

pub(super) fn is_installed(cluster: &Cluster, at: &Path) -> Result<()> {
    let grpc = free_address()?.to_string();
    let mut collector = receiver(cluster, at, &grpc)?;
    let output = at.join("chart.json");
    cluster.import(AGENT_IMAGE, Path::new(env!("CARGO_BIN_EXE_schedscope")))?;
    let values =
        format!("{OURS},otlp.endpoint={grpc},otlp.insecure=true,config.receivers.sched.collection_interval=1s");
    cluster.helm(&["install", "chart", CHART, "-n", "charted", "--create-namespace", "--set", &values])?;
    let result = (|| {
        step("  installed, with the API server's list", || is_named(cluster, &output, "the API server"))?;
        ensure!(rules(cluster)? == "[list watch] [pods]", "{}", rules(cluster)?);
        let kubelet = "kubernetes.source=kubelet,kubernetes.insecureSkipVerify=true";
        cluster.helm(&["upgrade", "chart", CHART, "-n", "charted", "--reuse-values", "--set", kubelet])?;
        step("  upgraded to the kubelet's", || is_named(cluster, &output, "the kubelet"))?;
        ensure!(rules(cluster)? == "[get] [nodes/pods]", "{}", rules(cluster)?);
        cluster.helm(&["rollback", "chart", "1", "-n", "charted"])?;
        step("  rolled back", || is_named(cluster, &output, "the API server"))?;
        step("  without its rule", || is_refused(cluster))
    })();
    result.with_context(|| says(cluster))?;
    cluster.helm(&["uninstall", "chart", "-n", "charted", "--wait"])?;
    step("  uninstalled", || nothing_is_left(cluster, "chart"))?;
    step("  beside an application", || beside_an_application(cluster, at, &output, &grpc))?;
    collector.stop(Signal::TERM)?;
    Ok(())
}

/// A Collector in the cluster's network, which writes what it gets.
fn receiver(cluster: &Cluster, at: &Path, grpc: &str) -> Result<Program> {
    let file = at.join("chart-collector.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{grpc}'}}}}}}}}
exporters: {{file: {{path: '{}/chart.json'}}, file/traces: {{path: '{}/chart-traces.json'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [file]}}
    traces: {{receivers: [otlp], exporters: [file/traces]}}
",
        at.display(),
        at.display()
    );
    fs::write(&file, text)?;
    let mut command = cluster.network();
    command.arg(part("collector").map_err(anyhow::Error::msg)?).arg("--config").arg(&file);
    let mut collector = Program::start("chart-collector", &mut command, at)?;
    collector.says("Everything is ready")?;
    Ok(collector)
}

/// Its pods are ready and have the names from there, and new points of a pod's container carry them.
fn is_named(cluster: &Cluster, output: &Path, source: &str) -> Result<()> {
    cluster.kubectl(&["-n", "charted", "rollout", "status", "daemonset/chart-schedscope", "--timeout=60s"])?;
    eventually("the names", Duration::from_secs(20), || {
        Ok(says(cluster).contains(&format!("names of pods are there, from {source}")).then_some(()))
    })?;
    let pod = &cluster.pods_with_ids("shop-", 3)?[0];
    let (_, id) = containers(pod).pop().context("no container")?;
    let found = since(now_ns()?, output, &id, "k8s.deployment.name")?;
    let name = pod["metadata"]["name"].as_str().context("no name")?;
    has(&found, &[("k8s.pod.name", name), ("k8s.container.name", "web"), ("k8s.deployment.name", "shop")])
}

fn says(cluster: &Cluster) -> String {
    cluster
        .kubectl(&["-n", "charted", "logs", "daemonset/chart-schedscope"])
        .unwrap_or_else(|error| format!("{error:#}"))
}

/// Verbs and resources of the only rule.
fn rules(cluster: &Cluster) -> Result<String> {
    let jsonpath = "jsonpath={range .rules[*]}{.verbs} {.resources}{end}";
    let rules = cluster.kubectl(&["get", "clusterrole", "charted-chart-schedscope", "-o", jsonpath])?;
    Ok(rules.replace(['"', '\\'], "").replace(',', " "))
}

/// Without the chart's rule it says once which one it is, and goes on with what it has.
fn is_refused(cluster: &Cluster) -> Result<()> {
    let more = "rbac.create=false,podAnnotations.rights=none";
    cluster.helm(&["upgrade", "chart", CHART, "-n", "charted", "--reuse-values", "--set", more])?;
    cluster.kubectl(&["-n", "charted", "rollout", "status", "daemonset/chart-schedscope", "--timeout=60s"])?;
    let rule = "its service account needs a ClusterRole with";
    eventually("the refusal", Duration::from_secs(20), || Ok(says(cluster).contains(rule).then_some(())))?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(says(cluster).matches(rule).count() == 1, "not told once");
    Ok(())
}

/// An application's chart that includes ours: its pod is told by the agent in it, and no neighbour by that agent.
fn beside_an_application(cluster: &Cluster, at: &Path, output: &Path, grpc: &str) -> Result<()> {
    let chart = at.join("application");
    copy(Path::new(APPLICATION), &chart)?;
    copy(Path::new(CHART), &chart.join("charts/schedscope"))?;
    let ours: Vec<String> = OURS.split(',').take(3).map(|value| format!("schedscope.{value}")).collect();
    let values = format!(
        "{},image={IMAGE},hostNetwork=true,schedscope.otlp.endpoint={grpc},schedscope.config.receivers.sched.collection_interval=1s",
        ours.join(",")
    );
    let chart = chart.display().to_string();
    let begin_ns = now_ns()?;
    cluster.helm(&["install", "beside", &chart, "-n", "applied", "--create-namespace", "--set", &values])?;
    cluster.kubectl(&["-n", "applied", "rollout", "status", "deployment/beside-shop", "--timeout=60s"])?;
    let pod = &cluster.pods_with_ids("beside-shop", 1)?[0];
    let all = containers(pod);
    let own: Vec<&str> = all.iter().map(|(_, id)| id.as_str()).collect();
    let name = pod["metadata"]["name"].as_str().context("no name")?;
    let (_, id) = all.iter().find(|(name, _)| name == "shop").context("no container")?;
    has(&since(begin_ns, output, id, "k8s.pod.name")?, &[("k8s.pod.name", name), ("k8s.namespace.name", "applied")])?;
    let ids = points_in(output)?.into_iter().filter(|point| point.time_ns > begin_ns).map(|point| id_of(&point));
    let told: BTreeSet<String> = ids.filter(|id| !id.is_empty() && !own.contains(&id.as_str())).collect();
    // beside its containers a pod has a sandbox, which the API server does not list
    let pods = cluster.pods()?;
    let of_others = pods.iter().filter(|other| other["metadata"]["name"] != name).flat_map(containers);
    for (_, neighbour) in of_others {
        ensure!(!told.contains(&neighbour), "the neighbour {neighbour} is told");
    }
    cluster.helm(&["uninstall", "beside", "-n", "applied", "--wait"])?;
    nothing_is_left(cluster, "beside")
}

/// The Resource of a container's points since then, once it has that key.
fn since(begin_ns: u64, output: &Path, id: &str, key: &str) -> Result<Map<String, Value>> {
    eventually(&format!("new points of {id}"), Duration::from_secs(30), || {
        let found = points_in(output)?
            .into_iter()
            .rfind(|point| point.time_ns > begin_ns && id_of(point) == id && point.resource.contains_key(key));
        Ok(found.map(|point| point.resource))
    })
}

fn id_of(point: &Point) -> String {
    point.resource.get("container.id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn now_ns() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

fn nothing_is_left(cluster: &Cluster, release: &str) -> Result<()> {
    let label = format!("app.kubernetes.io/instance={release}");
    let of_helm = format!("owner=helm,name={release}");
    eventually("an empty cluster", Duration::from_secs(30), || {
        let left = [&label, &of_helm].map(|label| {
            cluster
                .kubectl(&["get", KINDS, "--all-namespaces", "-l", label, "-o", "name"])
                .unwrap_or_else(|_| "?".into())
        });
        Ok(left.iter().all(|names| names.is_empty()).then_some(()))
    })
}

/// The plain manifests are what the chart renders; with UPDATE set they are written anew. Unknown values are refused.
pub(super) fn renders_the_manifests() -> Result<()> {
    let helm = part("helm").map_err(anyhow::Error::msg)?;
    let template = |values: &[&str]| -> Result<std::process::Output> {
        let fixed = ["template", "schedscope", CHART, "--namespace", "schedscope", "--kube-version", "1.34.0"];
        Ok(Command::new(&helm).args(fixed).args(values).output()?)
    };
    for (file, values) in MANIFESTS {
        let output = template(values)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let head =
            format!("# helm template schedscope config/deploy/helm/schedscope -n schedscope {}\n", values.join(" "));
        let text = head + &String::from_utf8(output.stdout)?;
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &text)?;
        }
        ensure!(
            fs::read_to_string(&path).is_ok_and(|there| there == text),
            "{file} is not what the chart renders: UPDATE=1"
        );
    }
    for mistake in ["otlp.endpont=a", "mode=both", "kubernetes.source=kublet", "config.reciever.sched=null"] {
        let output = template(&["--set", mistake])?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && error.contains("schema"), "{mistake} is taken: {error}");
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no parent")?)?;
    let status = Command::new("cp").arg("-r").args([from, to]).status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}
