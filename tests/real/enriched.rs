//! Spans that pass through the agent: a service under a quota names its threads, as it knows them inside its container,
//! and its requests come to Jaeger with what those threads suffered.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::attached::{REQUESTS, covers, requests, serve_requests};
use crate::support::agent::Agent;
use crate::support::container::Podman;
use crate::support::jaeger::Jaeger;
use crate::support::span::Span;
use crate::support::{folder, http};

pub(crate) fn a_request_that_passes_through_is_told() -> Result<()> {
    let folder = folder()?;
    let mut jaeger = Jaeger::start(folder.path())?;
    let mut podman = Podman::start(folder.path())?;
    let (page, entry) = (crate::program::free_address()?, crate::program::free_address()?);
    let mut agent = Agent::start(folder.path(), &through(&jaeger, page.port(), entry.port()))?;
    let port = crate::program::free_address()?;
    // its pid is 1 inside, as that of many others: the container's id tells which one is meant
    let script = format!(
        "read id < /shared/id; export OTEL_RESOURCE_ATTRIBUTES=container.id=$id
         PORT={} OTEL_EXPORTER_OTLP_ENDPOINT=http://{entry} OTEL_BSP_SCHEDULE_DELAY=500 exec /traced_service",
        port.port()
    );
    let id = podman.work("shop").join("id").display().to_string();
    // the first spans make it known, and are told nothing
    let container = serve_requests(&mut podman, port, &script, &["--cidfile", &id])?;
    std::thread::sleep(Duration::from_secs(4));
    let counters = http::ask(page, "GET", "/metrics", "")?;
    let counted: Vec<&str> =
        counters.lines().filter(|line| line.contains("enrich_") && !line.ends_with(" 0")).collect();
    agent.stop()?;
    let spans = jaeger.spans("shop-web")?;
    podman.remove(&container)?;
    judge(&spans, &container.id).with_context(|| format!("the agent said:\n{}\n{}", agent.output(), counted.join("\n")))
}

/// The service's spans through the agent; what is measured goes nowhere else but into a table.
fn through(jaeger: &Jaeger, page: u16, entry: u16) -> String {
    format!(
        "receivers:
  sched: {{collection_interval: 1s, overhead_limit: 100%}}
  otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{entry}'}}}}}}
processors: {{container: {{}}, sched_metrics: {{}}, sched_enrich: {{}}, batch: {{}}}}
exporters: {{otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}, debug: {{}}}}
service:
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {page}}}}}}}}}]}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [debug]}}
    traces: {{receivers: [otlp], processors: [sched_enrich, batch], exporters: [otlp_grpc]}}
",
        jaeger.grpc
    )
}

fn judge(spans: &[Span], container: &str) -> Result<()> {
    let requests = requests(spans, 0.05)?;
    let mut throttled = 0;
    for (request, trace) in &requests {
        let query = trace.iter().find(|span| span.name == "SELECT orders").context("a request without its query")?;
        for span in trace.iter().filter(|span| span.name.starts_with("sched.")) {
            let parent = [*request, *query].into_iter().find(|parent| parent.span_id == span.parent_id);
            let parent = parent.with_context(|| format!("an interval under nothing: {span:?}"))?;
            let inside = span.start_ns + 2_000 >= parent.start_ns && span.end_ns <= parent.end_ns + 2_000;
            ensure!(inside, "an interval outside its span: {span:?} {parent:?}");
            ensure!(span.resource["service.name"] == "shop-web", "under another service: {span:?}");
            ensure!(span.resource["container.id"] == *container, "under another Resource: {span:?}");
            ensure!(span.attributes["linux.sched.context.source"] == "otlp", "no source: {span:?}");
        }
        for span in [*request, *query] {
            closes(span)?;
        }
        let (parts, whole) = covers(request, trace)?;
        ensure!(parts * 50 >= whole * 49, "children tell {parts} of {whole} ns");
        let slept = number(query, "linux.sched.block.time")?;
        ensure!((0.0115..0.2).contains(&slept), "the query slept 12 ms, {slept} s are told of {query:?}");
        throttled += usize::from(number(request, "linux.sched.throttle.time")? > 0.03);
    }
    ensure!(throttled >= REQUESTS / 2, "{throttled} of {} requests say that their quota was used up", requests.len());
    let waits = spans.iter().filter(|span| span.name == "sched.wait" && span.seconds() > 0.001);
    let culprits = waits.map(|span| span.attributes.get("linux.sched.culprit.container.name"));
    let culprits: BTreeSet<String> = culprits.flatten().map(ToString::to_string).collect();
    println!("  who had the CPU in waits over 1 ms: {culprits:?}");
    println!("  {} requests, {throttled} of them throttled, every interval under its span", requests.len());
    Ok(())
}

fn number(span: &Span, key: &str) -> Result<f64> {
    span.attributes.get(key).and_then(serde_json::Value::as_f64).with_context(|| format!("no {key}: {span:?}"))
}

/// What its thread did is all of its time.
fn closes(span: &Span) -> Result<()> {
    ensure!(!span.attributes.contains_key("linux.sched.incomplete"), "incomplete: {span:?}");
    let parts = ["run", "wait", "throttle", "block"].map(|word| number(span, &format!("linux.sched.{word}.time")));
    let [run, wait, throttle, block] = parts;
    let (run, wait, throttle, block) = (run?, wait?, throttle?, block?);
    let (sum, length) = (run + wait + throttle + block, span.seconds());
    println!(
        "  {}: {:.2} ms: run {:.2}, wait {:.2}, throttle {:.2}, block {:.2}, off by {:.3} %",
        span.name,
        length * 1e3,
        run * 1e3,
        wait * 1e3,
        throttle * 1e3,
        block * 1e3,
        (sum - length).abs() / length * 100.0
    );
    ensure!((sum - length).abs() <= length * 0.02, "the sums make {sum} s of {length} s: {span:?}");
    Ok(())
}
