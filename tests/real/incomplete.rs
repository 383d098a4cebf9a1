//! Windows with forced loss, read back from Jaeger: each says that it is incomplete, and of what.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cgroup::{Cgroup, container_id};
use crate::support::agent::Agent;
use crate::support::folder;
use crate::support::jaeger::Jaeger;
use crate::support::span::Span;

/// Switches all the time.
const STORM: &str = "while :; do /bin/true | /bin/true; done";

pub(crate) fn windows_say_so() -> Result<()> {
    let folder = folder()?;
    let mut jaeger = Jaeger::start(folder.path())?;
    let mut agent = Agent::start(folder.path(), &config(&jaeger))?;
    let id = container_id(11);
    let mut container = Cgroup::docker(&id)?;
    for _ in 0..3 {
        container.run(STORM)?;
    }
    std::thread::sleep(Duration::from_secs(5));
    drop(container);
    std::thread::sleep(Duration::from_secs(2));
    agent.stop()?;
    let mut roots: Vec<Span> = Vec::new();
    for service in jaeger.services()? {
        let of_container = |span: &Span| span.resource.get("container.id").is_some_and(|it| it == &id);
        let found = jaeger.spans(&service)?.into_iter().filter(|span| span.name == "sched.window");
        roots.extend(found.filter(of_container));
    }
    let say = |root: &&Span| {
        let lost = root.attributes.get("linux.sched.records.lost.ring_full");
        root.attributes["linux.sched.window.complete"] == false && lost.is_some_and(|count| count.as_i64() > Some(0))
    };
    let incomplete = roots.iter().filter(say).count();
    println!("  {incomplete} of {} windows say that records were lost", roots.len());
    ensure!(incomplete > 0, "none of {roots:#?} says it");
    ensure!(agent.output().contains("ring_full"), "the log does not say it: {}", agent.output());
    Ok(())
}

/// A ring of one page, and everything is to go through it.
fn config(jaeger: &Jaeger) -> String {
    format!(
        "receivers:
  sched:
    collection_interval: 1s
    overhead_limit: 100%
    ring_bytes: 4096
    select: {{preset: everything, rate_per_cgroup: 0, rate_total: 0}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_spans: {{window: 1s}}, batch: {{}}}}
exporters: {{otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [sched], processors: [container, sched_spans, batch], exporters: [otlp_grpc]}}}}
",
        jaeger.grpc
    )
}
