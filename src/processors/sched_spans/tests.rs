//! Batches in, traces out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;

use super::*;
use crate::model::{
    BlockState, BootNs, CgroupKey, ClockOffset, Context, ContextSource, Culprit, CulpritKind, Cycle, HostFacts,
    LossReason, Owner, OwnerKind, ProcessKey, Reasons, Resource, RunEnd, SchedBatch, Task,
};
use crate::telemetry::Telemetry;

const KEY: CgroupKey = CgroupKey { id: 7, serial: 1 };
const MS: u64 = 1_000_000;

fn processor(yaml: &str) -> SchedSpans {
    let body = crate::config::Body::from_yaml("processors::sched_spans", yaml).unwrap();
    let context = BuildContext::new("sched_spans".into(), Telemetry::default(), "0");
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
        context: None,
        reasons: Reasons::WAIT,
        culprits: [Culprit { kind: CulpritKind::Idle, ns: wait_ms * MS }].into(),
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

fn linked(with_neighbour: bool) -> Vec<Span> {
    const OTHER: CgroupKey = CgroupKey { id: 8, serial: 1 };
    let neighbour = Arc::new(Owner { key: "n".into(), display_name: "batch".into(), ..Owner::clone(&owner()) });
    let had_it = CulpritKind::Task { tid: 9, comm: "burn".into(), cgroup: OTHER };
    let victim = Cycle { culprits: [Culprit { kind: had_it, ns: 5 * MS }].into(), ..cycle(1, 500, 10, 5) };
    let mut cycles = vec![victim];
    if with_neighbour {
        cycles.push(Cycle { cgroup: OTHER, ..cycle(9, 490, 10, 5) });
    }
    let mut all = batch(11_000, cycles);
    all.owners.insert(OTHER, neighbour);
    spans(&mut processor("links: true"), all)
}

/// Check that a wait leads to the trace of the neighbour that had the CPU, and not to one that is not there.
#[test]
fn links() {
    let all = linked(true);
    let of = |span: &Span| span.links.iter().map(|link| (link.trace_id.clone(), link.span_id.clone())).collect();
    let links: Vec<(Vec<u8>, Vec<u8>)> = all.iter().flat_map(|span| -> Vec<_> { of(span) }).collect();
    let roots = all.iter().filter(|span| span.name == "sched.window");
    let roots: Vec<(Vec<u8>, Vec<u8>)> = roots.map(|span| (span.trace_id.clone(), span.span_id.clone())).collect();
    let wait = all.iter().find(|span| !span.links.is_empty()).unwrap();
    assert!(links.len() == 1 && roots.len() == 2 && roots.contains(&links[0]) && wait.name == "sched.wait");
    assert_ne!(wait.trace_id, links[0].0);
    assert!(linked(false).iter().all(|span| span.links.is_empty()));
}

fn under_a_span(cycle: Cycle, flags: u8, covers_run: bool) -> Cycle {
    let source = ContextSource::ThreadContext;
    let context = Context { trace_id: [7; 16], span_id: [9; 8], flags, covers_run, source };
    Cycle { context: Some(context), ..cycle }
}

/// Check that an interval goes to the span it suffered in, at once, and is not told twice.
#[test]
fn attached_to_the_application() {
    let mut processor = processor("{}");
    let cycles = vec![
        under_a_span(cycle(5, 2_000, 3, 2), 1, true),
        under_a_span(cycle(5, 2_010, 3, 2), 1, false),
        under_a_span(cycle(5, 2_020, 3, 2), 0, true),
    ];
    let at_once = spans(&mut processor, batch(2_100, cycles));
    let told: Vec<(&str, u64)> =
        at_once.iter().map(|span| (span.name.as_str(), span.end_time_unix_nano / MS)).collect();
    assert_eq!(told, [("sched.wait", 1_997), ("sched.run", 2_000), ("sched.wait", 2_007)]);
    for span in &at_once {
        assert_eq!((span.trace_id.as_slice(), span.parent_span_id.as_slice()), (&[7_u8; 16][..], &[9_u8; 8][..]));
        assert_eq!(span.flags, 1);
        let has = |key: &str| span.attributes.iter().any(|kv| kv.key == key);
        assert!(has("linux.sched.context.source"));
        assert_eq!(has("linux.sched.context.assumed"), span.name == "sched.run");
    }
    let window = spans(&mut processor, batch(11_000, Vec::new()));
    // the run between two spans, and what belongs to a trace that nobody records
    let names: Vec<&str> = window.iter().skip(2).map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["sched.run", "sched.wait", "sched.run"]);
}

/// Check that a user who wants only traces of our own gets all of it there.
#[test]
fn attached_only_where_asked_for() {
    let mut processor = processor("attach: []");
    assert!(!processor.wants().contexts);
    let cycles = vec![under_a_span(cycle(5, 2_000, 3, 2), 1, true)];
    assert!(spans(&mut processor, batch(2_100, cycles)).is_empty());
    assert_eq!(spans(&mut processor, batch(11_000, Vec::new())).len(), 4);
}
