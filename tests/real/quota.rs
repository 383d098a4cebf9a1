//! The main job, end to end: a container with a quota and a busy loop, seen from where its data arrives.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::program::eventually;
use crate::support::agent::{Agent, Protocol, to_collector_and_jaeger};
use crate::support::collector::{Collector, Point};
use crate::support::container::{Accounts, Container, Podman};
use crate::support::jaeger::Jaeger;
use crate::support::span::{self, Span};
use crate::support::{close, folder};

pub(crate) fn arrives_whole_over_grpc() -> Result<()> {
    arrives_whole(Protocol::Grpc)
}

pub(crate) fn arrives_whole_over_http() -> Result<()> {
    arrives_whole(Protocol::Http)
}

/// Loops against its quota until told to stop, then sleeps, so that the kernel's counters stand still while they are read.
const BUSY_THEN_ASLEEP: &str = "while [ ! -e /shared/stop ]; do :; done; sleep 1000";

fn arrives_whole(protocol: Protocol) -> Result<()> {
    let folder = folder()?;
    let mut collector = Collector::start(folder.path())?;
    let mut jaeger = Jaeger::start(folder.path())?;
    let mut podman = Podman::start(folder.path())?;
    let mut agent = Agent::start(folder.path(), &to_collector_and_jaeger(protocol, &collector, &jaeger))?;

    let container = podman.run("limited", 0.2, BUSY_THEN_ASLEEP, &[])?;
    std::thread::sleep(Duration::from_secs(8));
    fs::write(podman.work("limited").join("stop"), "")?;
    // the last collection and window that hold something of it
    std::thread::sleep(Duration::from_secs(4));
    let truth = container.accounts()?;
    let status = agent.stop().with_context(|| agent.output())?;
    let is_whole = status.success() && agent.output().contains("none left behind");
    ensure!(is_whole, "the agent ended with {status}:\n{}", agent.output());

    let answer = traces_agree(&mut jaeger, &container, &truth);
    collector.stop()?;
    answer
        .and_then(|()| spans_at_the_collector_agree(&collector, &container, &truth))
        .and_then(|()| metrics_agree(&collector, &container, &truth))
        .with_context(|| format!("the kernel says {truth:?}; the agent said:\n{}", agent.output()))?;
    podman.remove(&container)
}

fn is_of(resource: &serde_json::Map<String, serde_json::Value>, container: &Container) -> bool {
    resource.get("container.id").is_some_and(|id| id == &container.id)
}

fn metrics_agree(collector: &Collector, container: &Container, truth: &Accounts) -> Result<()> {
    let all = collector.points()?;
    let points: Vec<&Point> = all.iter().filter(|point| is_of(&point.resource, container)).collect();
    ensure!(!points.is_empty(), "no point of the container among {}", all.len());
    let last = |state: &str| {
        let of_state = points.iter().filter(|point| {
            point.metric == "linux.sched.time"
                && point.attributes.get("linux.sched.state").is_some_and(|it| it == state)
        });
        of_state.max_by_key(|point| point.time_ns).map_or(0.0, |point| point.value)
    };
    let (running, waiting, throttled) = (last("running") + last("stolen"), last("waiting"), last("throttled"));
    close("running of the cgroup's CPU usage", running, truth.running, 0.01, 0.0)?;
    close("waiting and throttled of the tasks' run delay", waiting + throttled, truth.run_delay, 0.01, 0.002)?;
    close("throttled of the cgroup's cpu.stat", throttled, truth.throttled, 0.05, 0.0)?;

    let switches = |kind: &str| {
        let of_kind = points.iter().filter(|point| {
            point.metric == "process.context_switches"
                && point.attributes.get("process.context_switch.type").is_some_and(|it| it == kind)
        });
        of_kind.max_by_key(|point| point.time_ns).map_or(0.0, |point| point.value)
    };
    // those of the runtime's own process before it became the container's count for another cgroup
    close("involuntary switches", switches("involuntary"), truth.involuntary as f64, 0.05, 10.0)?;
    close("voluntary switches", switches("voluntary"), truth.voluntary as f64, 0.05, 20.0)?;
    never_goes_back(&points)?;
    is_named(points[0])?;
    let throttles = points.iter().filter(|point| point.metric == "linux.sched.throttle.duration");
    let throttles = throttles.max_by_key(|point| point.time_ns).context("no linux.sched.throttle.duration")?;
    ensure!(throttles.unit == "s" && throttles.count > 30, "about ten throttled stays a second: {throttles:?}");
    close("the throttle histogram's sum", throttles.value, truth.throttled, 0.05, 0.0)
}

/// A counter's series neither falls nor changes its start.
fn never_goes_back(points: &[&Point]) -> Result<()> {
    let counters = ["linux.sched.time", "process.context_switches", "linux.sched.contention.time"];
    for (at, point) in points.iter().enumerate().filter(|(_, point)| counters.contains(&point.metric.as_str())) {
        let same = |other: &&&Point| {
            other.metric == point.metric && other.attributes == point.attributes && other.resource == point.resource
        };
        if let Some(before) = points[..at].iter().rfind(same) {
            ensure!(before.value <= point.value, "went back: {before:?} then {point:?}");
            ensure!(before.start_ns == point.start_ns && before.time_ns < point.time_ns, "{before:?} then {point:?}");
        }
    }
    Ok(())
}

fn is_named(point: &Point) -> Result<()> {
    let resource = &point.resource;
    for key in ["service.name", "host.name", "host.id", "container.runtime.name"] {
        ensure!(resource.contains_key(key), "no {key} in {resource:?}");
    }
    ensure!(resource["container.runtime.name"] == "podman", "{resource:?}");
    ensure!(!resource.contains_key("process.pid"), "metrics are per container: {resource:?}");
    Ok(())
}

fn spans_at_the_collector_agree(collector: &Collector, container: &Container, truth: &Accounts) -> Result<()> {
    let spans: Vec<Span> = collector.spans()?.into_iter().filter(|span| is_of(&span.resource, container)).collect();
    ensure!(!spans.is_empty(), "the Collector has no span of the container");
    span::is_well_formed(&spans, 0)?;
    throttled_agrees("at the Collector", &spans, container, truth)
}

fn traces_agree(jaeger: &mut Jaeger, container: &Container, truth: &Accounts) -> Result<()> {
    let spans = eventually("the container's traces in Jaeger", Duration::from_secs(10), || {
        let mut found = Vec::new();
        for service in jaeger.services()? {
            found.extend(jaeger.spans(&service)?.into_iter().filter(|span| is_of(&span.resource, container)));
        }
        found.sort_by(|left, right| (&left.trace_id, &left.span_id).cmp(&(&right.trace_id, &right.span_id)));
        found.dedup_by(|left, right| left.trace_id == right.trace_id && left.span_id == right.span_id);
        let whole = span::total(&found, "sched.throttle") >= truth.throttled * 0.9;
        Ok(whole.then_some(found))
    })?;
    for service in jaeger.services()? {
        // it compares the bounds of a parent and a child only where they name no common `ip`, whatever their host
        let warnings: Vec<String> =
            jaeger.warnings(&service)?.into_iter().filter(|warning| !warning.contains("clock skew")).collect();
        ensure!(warnings.is_empty(), "Jaeger warns: {warnings:?}");
    }
    span::is_well_formed(&spans, 1000)?;
    throttled_agrees("in Jaeger", &spans, container, truth)
}

fn throttled_agrees(place: &str, spans: &[Span], container: &Container, truth: &Accounts) -> Result<()> {
    let what = format!("sched.throttle {place} of the cgroup's cpu.stat");
    close(&what, span::total(spans, "sched.throttle"), truth.throttled, 0.05, 0.0)?;
    let ran = span::total(spans, "sched.run");
    ensure!(ran > truth.running * 0.5, "the selected cycles' runs hold {ran} s of {} s", truth.running);
    let thread =
        spans.iter().find(|span| span.name.starts_with("sched.thread sh")).context("no thread span of `sh`")?;
    let run = spans.iter().find(|span| span.parent_id == thread.span_id).context("no interval of `sh`")?;
    ensure!(run.resource.get("process.pid").is_some_and(|pid| pid == container.pid), "not {container:?}: {run:?}");
    Ok(())
}
