//! Inside the application's own trace: a service that publishes its threads' active spans, under a quota, seen in
//! Jaeger as its reader sees it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::program::eventually;
use crate::support::agent::Agent;
use crate::support::container::{Container, Podman};
use crate::support::jaeger::Jaeger;
use crate::support::span::Span;
use crate::support::{folder, http};

/// Requests that are asked for; each wants 60 ms of a fifth of a CPU and sleeps 12 ms between.
pub(crate) const REQUESTS: usize = 8;
/// Jaeger's times are whole microseconds.
const GRAIN_NS: u64 = 2_000;

pub(crate) fn a_request_tells_what_it_suffered() -> Result<()> {
    let folder = folder()?;
    let mut jaeger = Jaeger::start(folder.path())?;
    let mut podman = Podman::start(folder.path())?;
    let page = crate::program::free_address()?;
    let mut agent = Agent::start(folder.path(), &to_jaeger(&jaeger, page.port()))?;
    let port = crate::program::free_address()?;
    let script = format!(
        "PORT={} OTEL_EXPORTER_OTLP_ENDPOINT=http://{} OTEL_BSP_SCHEDULE_DELAY=500 exec /traced_service",
        port.port(),
        jaeger.grpc
    );
    // found at its first cycles, at the latest with the second look
    let container = serve_requests(&mut podman, port, &script, &[])?;
    std::thread::sleep(Duration::from_secs(2));
    let counters = http::ask(page, "GET", "/metrics", "")?;
    let lost: Vec<&str> = counters.lines().filter(|line| line.contains("_lost{")).collect();
    agent.stop()?;
    let spans = jaeger.spans("shop-web")?;
    podman.remove(&container)?;
    judge(&spans).with_context(|| format!("the agent said:\n{}\n{}", agent.output(), lost.join("\n")))
}

/// Runs the example in a container of a fifth of a CPU, waits until it answers and may be known, and asks for
/// [`REQUESTS`].
pub(crate) fn serve_requests(podman: &mut Podman, port: SocketAddr, script: &str, more: &[&str]) -> Result<Container> {
    let service = service()?;
    let mount = format!("{}:/traced_service:ro", service.display());
    let mut options = vec!["--network=host", "-v", &mount];
    // its shared libraries are the host's
    for library in ["/lib:/lib:ro", "/lib64:/lib64:ro", "/usr/lib:/usr/lib:ro"] {
        options.extend(["-v", library]);
    }
    options.extend(more);
    let container = podman.run("shop", 0.2, script, &options)?;
    eventually("an answer of the service", Duration::from_secs(20), || {
        Ok(http::ask(port, "GET", "/checkout?cpu_ms=2&sleep_ms=1", "").ok())
    })?;
    std::thread::sleep(Duration::from_secs(2));
    for _ in 0..REQUESTS {
        http::ask(port, "GET", "/checkout?cpu_ms=60&sleep_ms=12", "")?;
    }
    Ok(container)
}

fn to_jaeger(jaeger: &Jaeger, page: u16) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{rate_per_cgroup: 0}}}}}}
processors: {{container: {{}}, sched_spans: {{window: 2s}}, batch: {{}}}}
exporters: {{otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}}}
service:
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {page}}}}}}}}}]}}}}
  pipelines:
    traces: {{receivers: [sched], processors: [container, sched_spans, batch], exporters: [otlp_grpc]}}
",
        jaeger.grpc
    )
}

/// The example, which `cargo test` builds beside the tests.
pub(crate) fn service() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("a test binary lies in target/*/deps")?;
    let service = target.join("examples/traced_service");
    ensure!(service.exists(), "{} is missing: cargo build --example traced_service", service.display());
    let symbols = std::process::Command::new("nm").arg("-D").arg(&service).output()?;
    let shown = String::from_utf8_lossy(&symbols.stdout).contains("otel_thread_ctx_v1");
    ensure!(shown, "{} does not show its thread contexts: a stale build script?", service.display());
    Ok(service)
}

/// The requests of more than so many seconds, each with its trace; fails where some are missing.
pub(crate) fn requests(spans: &[Span], seconds: f64) -> Result<Vec<(&Span, Vec<&Span>)>> {
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(&span.trace_id).or_default().push(span);
    }
    let requests: Vec<(&Span, Vec<&Span>)> = traces
        .into_values()
        .filter_map(|trace| Some((*trace.iter().find(|span| span.name == "GET /checkout")?, trace)))
        .filter(|(request, _)| request.seconds() > seconds)
        .collect();
    ensure!(requests.len() >= REQUESTS, "{} of {REQUESTS} requests came to Jaeger", requests.len());
    Ok(requests)
}

fn judge(spans: &[Span]) -> Result<()> {
    let requests = requests(spans, 0.03)?;
    let (mut throttled, mut told, mut asked) = (0, 0, 0);
    for (request, trace) in &requests {
        let query = trace.iter().find(|span| span.name == "SELECT orders").context("a request without its query")?;
        for span in trace.iter().filter(|span| span.name.starts_with("sched.")) {
            let parent = [*request, *query].into_iter().find(|parent| parent.span_id == span.parent_id);
            ensure!(parent.is_some(), "an interval under nothing: {span:?}");
            ensure!(span.resource["service.name"] == "shop-web", "under another service: {span:?}");
            ensure!(span.attributes["linux.sched.context.source"] == "thread_context", "no source: {span:?}");
        }
        let sum = |name: &str, under: &Span| -> f64 {
            let of = trace.iter().filter(|span| span.name == name && span.parent_id == under.span_id);
            of.map(|span| span.seconds()).sum()
        };
        let slept = sum("sched.block", query);
        ensure!(slept >= 0.0115, "the query slept 12 ms, {slept} s are told of {trace:#?}");
        throttled += usize::from(sum("sched.throttle", request) > 0.03);
        let (parts, whole) = covers(request, trace)?;
        told += parts;
        asked += whole;
    }
    // the rest is the way to the thread that works and back, on threads that have no span then
    ensure!(told * 4 > asked * 3, "only {told} of {asked} ns of the requests are told");
    ensure!(throttled >= REQUESTS / 2, "{throttled} of {} requests say that their quota was used up", requests.len());
    println!("  {} requests, {throttled} of them throttled, every interval under its span", requests.len());
    Ok(())
}

/// How much of a request is told, and its length, ns; fails where intervals overlap.
pub(crate) fn covers(request: &Span, trace: &[&Span]) -> Result<(u64, u64)> {
    let mut parts: Vec<(u64, u64)> = trace
        .iter()
        .filter(|span| span.name.starts_with("sched."))
        .map(|span| (span.start_ns.max(request.start_ns), span.end_ns.min(request.end_ns)))
        .filter(|(start, end)| start < end)
        .collect();
    parts.sort_unstable();
    let (mut told, mut at) = (0, 0);
    for (start, end) in parts {
        ensure!(start + GRAIN_NS >= at, "intervals overlap at {start} by {} ns: {trace:#?}", at - start);
        told += end - start.max(at);
        at = end;
    }
    let whole = request.end_ns - request.start_ns;
    println!(
        "  a request of {:.1} ms, {:.1} % of it told",
        request.seconds() * 1e3,
        told as f64 / whole as f64 * 100.0
    );
    Ok((told, whole))
}
