//! Batches in, traces out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;

use super::*;
use crate::model::{
    BlockState, BootNs, CgroupKey, ClockOffset, Culprit, CulpritKind, Cycle, HostFacts, LossReason, Owner, OwnerKind,
    ProcessKey, Reasons, Resource, RunEnd, SchedBatch, Task,
};
use crate::telemetry::Telemetry;

const KEY: CgroupKey = CgroupKey { id: 7, serial: 1 };
const MS: u64 = 1_000_000;

fn processor(yaml: &str) -> SchedSpans {
    let body = crate::config::Body::from_yaml("processors::sched_spans", yaml).unwrap();
    let context = BuildContext { id: "sched_spans".into(), telemetry: Telemetry::default(), version: "0" };
    SchedSpans::new(body.decode().unwrap(), &context)
}

fn owner() -> Arc<Owner> {
    let mut resource = Resource::new();
    resource.set("container.id", "c");
    Arc::new(Owner {
        key: "c".into(),
        kind: OwnerKind::Container,
        display_name: "web".into(),
        resource: Arc::new(resource),
        provisional: false,
    })
}

fn cycle(tid: u32, end_ms: u64, run_ms: u64, wait_ms: u64) -> Cycle {
    let process = ProcessKey { pid: tid, start: BootNs(1) };
    Cycle {
        task: Arc::new(Task {
            tid,
            process,
            start: BootNs(1),
            comm: "web-worker-12".into(),
            cgroup: KEY,
            ..Task::default()
        }),
        cgroup: KEY,
        cpu: 1,
        end: BootNs(end_ms * MS),
        run_ns: run_ms * MS,
        run_end: RunEnd::Preempted,
        wait_ns: Some(wait_ms * MS),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: Some(0),
        block_state: BlockState::Unknown,
        waker: None,
        reasons: Reasons::WAIT,
        culprits: vec![Culprit { kind: CulpritKind::Idle, ns: wait_ms * MS }],
    }
}

fn batch(until_ms: u64, cycles: Vec<Cycle>) -> SchedBatch {
    SchedBatch {
        facts: Arc::new(HostFacts { boot_id: "boot".into(), throttle_source: "kernel", ..HostFacts::default() }),
        offset: ClockOffset { wall_minus_boot_ns: 0 },
        delivered_until: BootNs(until_ms * MS),
        cycles,
        owners: HashMap::from([(KEY, owner())]),
        ..SchedBatch::default()
    }
}

fn spans(spans: &mut SchedSpans, batch: SchedBatch) -> Vec<Span> {
    let mut out = Outbox::default();
    spans.process(Data::Sched(Arc::new(batch)), &mut out);
    let all = out.drain().flat_map(|data| match data {
        Data::Traces(resources) => resources,
        _ => Vec::new(),
    });
    all.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

/// Check that a window comes out once, whole, root first, three levels deep, with unique ids.
#[test]
fn one_trace() {
    let mut processor = processor("{}");
    assert!(spans(&mut processor, batch(9_000, vec![cycle(5, 2_000, 3, 2), cycle(5, 2_010, 4, 2)])).is_empty());
    let all = spans(&mut processor, batch(10_600, Vec::new()));
    let names: Vec<&str> = all.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["sched.window", "sched.thread web-worker-#", "sched.wait", "sched.run", "sched.wait", "sched.run"]
    );
    assert_eq!((all[0].start_time_unix_nano, all[0].end_time_unix_nano), (0, 10_000 * MS));
    assert!(all[0].parent_span_id.is_empty());
    assert_eq!(all[1].parent_span_id, all[0].span_id);
    assert!(all[2..].iter().all(|span| span.parent_span_id == all[1].span_id && span.trace_id == all[0].trace_id));
    assert_eq!(all.iter().map(|span| &span.span_id).collect::<HashSet<_>>().len(), all.len());
    assert!(spans(&mut processor, batch(30_000, Vec::new())).is_empty());
}

/// Check that skewed stamps of two CPUs give neither overlap nor inversion.
#[test]
fn no_overlap() {
    let mut processor = processor("{}");
    let skewed = Cycle { end: BootNs(2_000 * MS + 100), ..cycle(5, 2_000, 3, 2) };
    spans(&mut processor, batch(3_000, vec![cycle(5, 2_000, 3, 2), skewed]));
    let all = spans(&mut processor, batch(11_000, Vec::new()));
    let mut last = 0;
    for span in &all[2..] {
        assert!(span.start_time_unix_nano >= last && span.end_time_unix_nano > span.start_time_unix_nano);
        last = span.end_time_unix_nano;
    }
}

/// Check that the bound holds, that the most interesting stay, and that what is cut is counted.
#[test]
fn bounded() {
    let mut processor = processor("max_spans_per_trace: 10");
    let mut cycles: Vec<Cycle> = (0..20).map(|n| cycle(5, 1000 + n * 10, 3, 2)).collect();
    cycles[7].reasons = Reasons::THROTTLE;
    spans(&mut processor, batch(3_000, cycles));
    let all = spans(&mut processor, batch(11_000, Vec::new()));
    assert_eq!(all.len(), 10);
    let kept = all
        .iter()
        .filter(|span| span.start_time_unix_nano == (1070 - 3) * MS || span.end_time_unix_nano == (1070 - 3) * MS);
    assert_eq!(kept.count(), 2, "the throttled cycle stays");
    let dropped = all[0].attributes.iter().any(|kv| kv.key == "linux.sched.dropped_intervals");
    assert!(dropped);
}

/// Check that a loss marks its window, and only that one.
#[test]
fn incomplete() {
    let mut processor = processor("{}");
    let mut lossy = batch(2_000, vec![cycle(5, 1_500, 3, 2)]);
    lossy.losses.add(LossReason::RingFull, 3);
    spans(&mut processor, lossy);
    let complete = |all: &[Span]| {
        let found = all[0].attributes.iter().find(|kv| kv.key == "linux.sched.window.complete").unwrap().clone();
        format!("{:?}", found.value).contains("true")
    };
    assert!(!complete(&spans(&mut processor, batch(11_000, vec![cycle(5, 10_500, 3, 2)]))));
    assert!(complete(&spans(&mut processor, batch(21_000, Vec::new()))));
}
