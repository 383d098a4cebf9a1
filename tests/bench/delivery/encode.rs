//! From our model to the compressed bytes of OTLP requests, on one thread, by its CPU time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::model::BlockState;
use schedscope::model::{
    BootNs, CgroupFacts, CgroupKey, CgroupTotals, ClockOffset, Collection, Culprit, CulpritKind, Cycle, HostFacts,
    Owner, OwnerKind, ProcessKey, Reasons, Resource, RunEnd, SchedBatch, SchedState, Task,
};
use schedscope::pipeline::client::{deflate, payload};
use schedscope::pipeline::{BuildContext, Data, Outbox, Processor};
use schedscope::telemetry::Telemetry;

/// Containers in a batch.
const CONTAINERS: u64 = 20;
/// Cycles of each in a window: three spans or so each, below the bound of a trace.
const CYCLES: u64 = 500;
/// Windows measured, after one that is not.
const WINDOWS: u64 = 20;
const SECOND_NS: u64 = 1_000_000_000;

pub(crate) fn spans() -> Result<String> {
    measure("spans", "sched_spans", window)
}

pub(crate) fn points() -> Result<String> {
    measure("metric points", "sched_metrics", collection)
}

/// The spans of a window, as an application of the outage and of forwarding would send them.
pub(crate) fn sample() -> Result<Data> {
    let mut processor = processor("sched_spans")?;
    let mut out = Outbox::default();
    for at in 0..3 {
        processor.process(window(at), &mut out);
    }
    let traces = out.drain().find(|data| data.items() > 0);
    traces.context("no spans came out")
}

fn processor(kind: &str) -> Result<Box<dyn Processor>> {
    let factory = COMPONENTS.processors.iter().find(|factory| factory.name == kind).context("no such processor")?;
    let context = BuildContext::new(kind.into(), Telemetry::default(), "0");
    let body = Body::from_yaml(kind, "{}").map_err(|problems| anyhow::anyhow!("{problems}"))?;
    (factory.build)(&body, &context).map_err(|problems| anyhow::anyhow!("{problems}"))
}

/// Seconds of each step for all items.
#[derive(Default)]
struct Steps {
    convert: Duration,
    encode: Duration,
    compress: Duration,
    items: usize,
    bytes: usize,
    compressed: usize,
}

fn measure(what: &str, kind: &str, input: fn(u64) -> Data) -> Result<String> {
    let mut processor = processor(kind)?;
    let mut steps = Steps::default();
    for at in 0..=WINDOWS + 1 {
        let data = input(at);
        if at == 1 {
            steps = Steps::default();
        }
        let mut out = Outbox::default();
        let begin = cpu_time();
        processor.process(data, &mut out);
        steps.convert += cpu_time().saturating_sub(begin);
        for data in out.drain() {
            let begin = cpu_time();
            let bytes = payload::encode(&data);
            let encoded = cpu_time();
            let packed = deflate::gzip(&bytes, deflate::OURS)?;
            steps.encode += encoded.saturating_sub(begin);
            steps.compress += cpu_time().saturating_sub(encoded);
            steps.items += data.items();
            steps.bytes += bytes.len();
            steps.compressed += packed.len();
        }
    }
    let rate = |time: Duration| steps.items as f64 / time.as_secs_f64() / 1e6;
    let all = steps.convert + steps.encode + steps.compress;
    Ok(format!(
        "| {what} a second and core, model to gzip | {:.2} million (to messages {:.2}, to bytes {:.2}, gzip {:.2}); {:.0} bytes \
         each, {:.0} compressed |\n",
        rate(all),
        rate(steps.convert),
        rate(steps.encode),
        rate(steps.compress),
        steps.bytes as f64 / steps.items as f64,
        steps.compressed as f64 / steps.items as f64,
    ))
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn key(container: u64) -> CgroupKey {
    CgroupKey { id: 100 + container, serial: 1 }
}

fn owners() -> HashMap<CgroupKey, Arc<Owner>> {
    let owner = |container: u64| {
        let mut resource = Resource::new();
        for (name, value) in [("container.name", "web"), ("k8s.namespace.name", "shop"), ("k8s.pod.name", "web-7d4b9c")]
        {
            resource.set(name, value);
        }
        resource.set("container.id", format!("{container:064x}").as_str());
        let resource = Arc::new(resource);
        let name = format!("web-{container}");
        Arc::new(Owner {
            key: name.as_str().into(),
            kind: OwnerKind::Container,
            display_name: name.as_str().into(),
            resource,
            provisional: false,
        })
    };
    (0..CONTAINERS).map(|container| (key(container), owner(container))).collect()
}

/// A window of ten seconds, which ends the one before.
fn window(at: u64) -> Data {
    let begin = at * 10 * SECOND_NS;
    let cycles = (0..CONTAINERS).flat_map(|container| (0..CYCLES).map(move |number| cycle(begin, container, number)));
    Data::Sched(Arc::new(SchedBatch {
        facts: Arc::new(HostFacts { boot_id: "boot".into(), throttle_source: "kernel", ..HostFacts::default() }),
        offset: ClockOffset { wall_minus_boot_ns: 1_767_225_600_000_000_000 },
        delivered_until: BootNs(begin + 9_900_000_000),
        cycles: cycles.collect(),
        owners: owners(),
        ..SchedBatch::default()
    }))
}

fn cycle(begin: u64, container: u64, number: u64) -> Cycle {
    let tid = u32::try_from(1000 + container * 10 + number % 8).unwrap_or_default();
    let process = ProcessKey { pid: tid, start: BootNs(1) };
    let task = Task {
        tid,
        process,
        start: BootNs(1),
        comm: "web-worker-12".into(),
        cgroup: key(container),
        ..Task::default()
    };
    Cycle {
        task: Arc::new(task),
        cgroup: key(container),
        cpu: u32::try_from(number % 4).unwrap_or_default(),
        end: BootNs(begin + 1_000_000 + number * 19_000_000 + number * number % 7919),
        run_ns: 2_000_000 + number * 37 % 1_000_000,
        run_end: RunEnd::Preempted,
        wait_ns: Some(1_000_000 + number * 101 % 900_000),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: Some(3_000_000),
        block_state: BlockState::Unknown,
        waker: None,
        context: None,
        reasons: Reasons::WAIT,
        culprits: [Culprit { kind: CulpritKind::Idle, ns: 500_000 }].into(),
    }
}

/// A collection of all containers' totals.
fn collection(at: u64) -> Data {
    let totals = |container: u64| {
        let mut totals = CgroupTotals { voluntary: at * 1000, threads: 8, ..CgroupTotals::default() };
        for state in [SchedState::Running, SchedState::Waiting, SchedState::Throttled] {
            totals.times.set(state, at * 1_234_567_890 + container);
        }
        for number in 0..1000 {
            totals.wait.record(1000 + number * 977 * (at + 1) % 100_000_000);
        }
        (key(container), totals)
    };
    let cgroups: Vec<_> = (0..CONTAINERS).map(totals).collect();
    let facts = |container| (key(container), CgroupFacts { path: None, gone: false });
    Data::Sched(Arc::new(SchedBatch {
        facts: Arc::new(HostFacts { since: BootNs(1), throttle_source: "kernel", ..HostFacts::default() }),
        offset: ClockOffset { wall_minus_boot_ns: 1_767_225_600_000_000_000 },
        delivered_until: BootNs((at + 1) * 10 * SECOND_NS),
        collection: Some(Collection { at: BootNs((at + 1) * 10 * SECOND_NS), cgroups, ..Collection::default() }),
        cgroups: (0..CONTAINERS).map(facts).collect(),
        owners: owners(),
        ..SchedBatch::default()
    }))
}
