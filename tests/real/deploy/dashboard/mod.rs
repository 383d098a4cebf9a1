//! Dashboard and alerts: made from one source, every query answered by a real Prometheus that a real Collector fed, and the way
//! from a bucket's exemplar to the request's trace.

mod questions;
mod render;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::deploy;
use crate::attached::serve_requests;
use crate::needs::part;
use crate::program::{Program, eventually, free_address};
use crate::support::agent::Agent;
use crate::support::container::Podman;
use crate::support::jaeger::Jaeger;
use crate::support::{folder, http};

/// Where the agent and the Collector listen.
struct Places {
    otlp: SocketAddr,
    prometheus: SocketAddr,
    page: SocketAddr,
}

pub(crate) fn is_answered_from_real_data() -> Result<()> {
    let queries = render::dashboard(&deploy("dashboards"))?;
    let rules: Value = serde_yaml::from_str(&fs::read_to_string(deploy("dashboards/alerts.yaml"))?)?;
    let rules: Vec<&Value> = rules["groups"][0]["rules"].as_array().context("no rules")?.iter().collect();

    let folder = folder()?;
    let at = folder.path();
    let places = Places { otlp: free_address()?, prometheus: free_address()?, page: free_address()? };
    let mut jaeger = Jaeger::start(at)?;
    let prometheus = prometheus(at, &places)?;
    let mut collector = collector(at, &places, &jaeger)?;
    let mut podman = Podman::start(at)?;
    let mut agent = Agent::start(at, &config(&places))?;
    let port = free_address()?;
    let script = format!(
        "PORT={} OTEL_EXPORTER_OTLP_ENDPOINT=http://{} OTEL_BSP_SCHEDULE_DELAY=500 exec /traced_service",
        port.port(),
        places.otlp
    );
    let container = serve_requests(&mut podman, port, &script, &["--env", "OTEL_SERVICE_NAME=shop-web"])?;
    let result = (|| {
        for query in &queries {
            has_data(&places, query)?;
        }
        for rule in &rules {
            let left = rule["expr"].as_str().and_then(|expr| expr.rsplit_once(" > ")).context("no bound")?.0;
            // the only loss that a healthy agent has
            has_data(&places, &left.replace("reason!=\"rate_limited\"", "reason!=\"\""))?;
        }
        println!("  {} queries and {} rules answered", queries.len(), rules.len());
        questions::are_answered(&places, &mut jaeger, port)?;
        is_pending(&places, "ContainerThrottled")?;
        leads_to_a_trace(&places, &mut jaeger)
    })();
    result.with_context(|| format!("{}\n{}\n{}", agent.output(), collector.output(), prometheus.output()))?;
    agent.stop()?;
    podman.remove(&container)?;
    collector.stop(rustix::process::Signal::TERM)?;
    Ok(())
}

fn prometheus(at: &Path, places: &Places) -> Result<Program> {
    let (config, rules) = (at.join("prometheus.yaml"), deploy("dashboards/alerts.yaml"));
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{}']
scrape_configs: [{{job_name: agent, static_configs: [{{targets: ['{}']}}]}}]
",
        rules.display(),
        places.page
    );
    fs::write(&config, text)?;
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", at.join("prometheus").display()));
    command.arg(format!("--web.listen-address={}", places.prometheus));
    command.args(["--web.enable-remote-write-receiver", "--enable-feature=exemplar-storage"]);
    let mut program = Program::start("prometheus", &mut command, at)?;
    program.listens(places.prometheus)?;
    program.says("Server is ready")?;
    Ok(program)
}

/// The compose file's: metrics to Prometheus, traces to Jaeger and, in Tempo's place, to the same one.
fn collector(at: &Path, places: &Places, jaeger: &Jaeger) -> Result<Program> {
    let mut command = Command::new(part("collector").map_err(anyhow::Error::msg)?);
    command.arg("--config").arg(deploy("compose/collector.yaml"));
    command.args(["--set", "service::telemetry::metrics::level=none"]);
    let addresses = [
        ("OTLP_GRPC", places.otlp),
        ("OTLP_HTTP", free_address()?),
        ("JAEGER", jaeger.grpc),
        ("TEMPO", jaeger.grpc),
        ("PROMETHEUS", places.prometheus),
    ];
    command.envs(addresses.map(|(name, address)| (name, address.to_string())));
    let mut program = Program::start("metrics-collector", &mut command, at)?;
    program.says("Everything is ready")?;
    Ok(program)
}

/// With a second exporter that reaches nobody, and fewer spans than there are.
fn config(places: &Places) -> String {
    let (host, port) = (places.page.ip(), places.page.port());
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, starvation: 100ms, select: {{rate_per_cgroup: 20}}}}}}
processors: {{container: {{}}, sched_spans: {{window: 2s}}, sched_metrics: {{}}, batch: {{}}}}
exporters:
  otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}
  otlp_grpc/nobody: {{endpoint: '127.0.0.1:1', tls: {{insecure: true}}, retry_on_failure: {{enabled: false}}}}
service:
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: {host}, port: {port}}}}}}}}}]}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics, batch], exporters: [otlp_grpc, otlp_grpc/nobody]}}
    traces: {{receivers: [sched], processors: [container, sched_spans, batch], exporters: [otlp_grpc]}}
",
        places.otlp
    )
}

fn ask(places: &Places, path: &str) -> Result<Value> {
    let answer: Value = serde_json::from_str(&http::ask(places.prometheus, "GET", path, "")?)?;
    ensure!(answer["status"] == "success", "{path}: {answer}");
    Ok(answer["data"].clone())
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A number comes back, not only an empty answer.
fn has_data(places: &Places, query: &str) -> Result<()> {
    let path = format!("/api/v1/query?query={}", encode(query));
    eventually(&format!("an answer to {query}"), Duration::from_secs(30), || {
        let data = ask(places, &path)?;
        let found = data["result"].as_array().into_iter().flatten().any(|series| series["value"][1] != "NaN");
        Ok(found.then_some(()))
    })
}

/// The container of a fifth of a CPU is over the bound; the alert waits for its five minutes.
fn is_pending(places: &Places, name: &str) -> Result<()> {
    eventually(&format!("{name} pending"), Duration::from_secs(10), || {
        let data = ask(places, "/api/v1/rules")?;
        let rules = data["groups"][0]["rules"].as_array().context("no rules")?.clone();
        ensure!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        Ok(rules.iter().any(|rule| rule["name"] == name && rule["state"] == "pending").then_some(()))
    })
}

/// An exemplar of a bucket of waits names a trace that Jaeger has, with what it suffered.
fn leads_to_a_trace(places: &Places, jaeger: &mut Jaeger) -> Result<()> {
    let buckets = encode("{__name__=~\"linux_sched_(wait|throttle)_duration_seconds_bucket\"}");
    let path = format!("/api/v1/query_exemplars?query={buckets}&start=0&end=9999999999");
    let count = eventually("a request by an exemplar", Duration::from_secs(30), || {
        let data = ask(places, &path)?;
        let series = data.as_array().into_iter().flatten();
        let exemplars = series.flat_map(|series| series["exemplars"].as_array().into_iter().flatten());
        let ids: BTreeSet<String> =
            exemplars.filter_map(|one| Some(one["labels"]["trace_id"].as_str()?.to_owned())).collect();
        let spans = jaeger.spans("shop-web")?;
        let named: Vec<_> = spans.iter().filter(|span| ids.contains(&span.trace_id)).collect();
        let whole = ["GET /checkout", "sched."].iter().all(|name| named.iter().any(|span| span.name.starts_with(name)));
        Ok(whole.then_some(ids.len()))
    })?;
    println!("  {count} traces named by exemplars; Jaeger has the request and its intervals");
    Ok(())
}
