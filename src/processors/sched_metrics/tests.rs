//! Series over several collections.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::metrics::v1::{Exemplar, metric};

use super::*;
use crate::model::{
    BlockState, BootNs, CgroupFacts, CgroupKey, CgroupTotals, ClockOffset, Collection, Context, ContextSource, Cycle,
    HostFacts, Reasons, RunEnd, SchedState, Task,
};
use crate::telemetry::Telemetry;

const KEY: CgroupKey = CgroupKey { id: 7, serial: 1 };

pub(super) fn processor(yaml: &str) -> SchedMetrics {
    let body = crate::config::Body::from_yaml("processors::sched_metrics", yaml).unwrap();
    let context = BuildContext::new("sched_metrics".into(), Telemetry::default(), "0");
    SchedMetrics::new(body.decode().unwrap(), &context)
}

fn owner(name: &str) -> Arc<Owner> {
    let mut resource = Resource::new();
    resource.set("container.id", name);
    Arc::new(Owner {
        key: "c".into(),
        kind: OwnerKind::Container,
        display_name: name.into(),
        resource: Arc::new(resource),
        provisional: false,
    })
}

fn batch(at: u64, run_ns: u64, gone: bool, owner: &Arc<Owner>) -> Data {
    let mut totals = CgroupTotals { voluntary: run_ns, threads: 1, ..CgroupTotals::default() };
    totals.times.set(SchedState::Running, run_ns);
    totals.wait.record(1000);
    Data::Sched(Arc::new(SchedBatch {
        facts: Arc::new(HostFacts { since: BootNs(1), throttle_source: "kernel", ..HostFacts::default() }),
        offset: ClockOffset { wall_minus_boot_ns: 1000 },
        collection: Some(Collection { at: BootNs(at), cgroups: vec![(KEY, totals)], ..Collection::default() }),
        cgroups: HashMap::from([(KEY, CgroupFacts { path: None, gone })]),
        owners: HashMap::from([(KEY, Arc::clone(owner))]),
        ..SchedBatch::default()
    }))
}

/// What comes out of one batch.
fn made(metrics: &mut SchedMetrics, data: Data) -> Vec<Metric> {
    let mut out = Outbox::default();
    metrics.process(data, &mut out);
    let all = out.drain().flat_map(|data| match data {
        Data::Metrics(resources) => resources,
        _ => Vec::new(),
    });
    all.flat_map(|resource| resource.scope_metrics).flat_map(|scope| scope.metrics).collect()
}

/// Start, time and running seconds of every point of the container.
fn running(metrics: &mut SchedMetrics, data: Data) -> Vec<(u64, u64, Option<f64>)> {
    let mut found = Vec::new();
    for metric in made(metrics, data).into_iter().filter(|metric| metric.name == "linux.sched.time") {
        let Some(metric::Data::Sum(sum)) = metric.data else { continue };
        found.extend(sum.data_points.iter().map(|point| {
            let value = point.value.map(|value| match value {
                Number::AsDouble(seconds) => seconds,
                Number::AsInt(_) => f64::NAN,
            });
            (point.start_time_unix_nano, point.time_unix_nano, value)
        }));
    }
    found
}

/// Check that cumulative points keep their start and delta points touch.
#[test]
fn temporality() {
    let owner = owner("c");
    let mut cumulative = processor("{}");
    assert_eq!(running(&mut cumulative, batch(10, 3_000_000_000, false, &owner)), [(1001, 1010, Some(3.0))]);
    assert_eq!(running(&mut cumulative, batch(20, 5_000_000_000, false, &owner)), [(1001, 1020, Some(5.0))]);
    let mut delta = processor("temporality: delta");
    assert_eq!(running(&mut delta, batch(10, 3_000_000_000, false, &owner)), [(1001, 1010, Some(3.0))]);
    assert_eq!(running(&mut delta, batch(20, 5_000_000_000, false, &owner)), [(1010, 1020, Some(2.0))]);
}

/// Check that a removed container is sent once more and then never again.
#[test]
fn series_end() {
    let owner = owner("c");
    let mut metrics = processor("{}");
    running(&mut metrics, batch(10, 3_000_000_000, false, &owner));
    assert_eq!(running(&mut metrics, batch(20, 4_000_000_000, true, &owner)), [(1001, 1020, Some(4.0))]);
    assert!(metrics.ledger.series.is_empty());
}

/// Check that late names end the old series without a value and begin a new one from zero.
#[test]
fn late_names() {
    let mut metrics = processor("{}");
    running(&mut metrics, batch(10, 3_000_000_000, false, &owner("c")));
    let points = running(&mut metrics, batch(20, 5_000_000_000, false, &owner("named")));
    assert_eq!(points, [(1001, 1020, None), (1010, 1020, Some(2.0))]);
}

/// The exemplars of the container's waits after one more batch.
fn exemplars(metrics: &mut SchedMetrics, data: Data) -> Vec<Exemplar> {
    let waits = made(metrics, data).into_iter().filter(|metric| metric.name == "linux.sched.wait.duration");
    let points = waits.flat_map(|metric| match metric.data {
        Some(metric::Data::Histogram(of)) => of.data_points,
        _ => Vec::new(),
    });
    points.flat_map(|point| point.exemplars).collect()
}

/// A cycle that suffered inside a request, sampled or not by `flags`.
fn suffered(wait_ns: u64, flags: u8) -> Cycle {
    let source = ContextSource::ThreadContext;
    Cycle {
        task: Arc::new(Task { comm: "web".into(), ..Task::default() }),
        cgroup: KEY,
        cpu: 0,
        end: BootNs(18),
        run_ns: 3,
        run_end: RunEnd::Blocked,
        wait_ns: Some(wait_ns),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: None,
        block_state: BlockState::Unknown,
        waker: None,
        context: Some(Context { trace_id: [7; 16], span_id: [9; 8], flags, covers_run: true, source }),
        reasons: Reasons::CONTEXT,
        culprits: Arc::default(),
    }
}

/// Check that a slow bucket leads to the trace that suffered it, once.
#[test]
fn exemplars_open_a_trace() {
    let owner = owner("c");
    let mut metrics = processor("{}");
    assert!(exemplars(&mut metrics, batch(10, 3, false, &owner)).is_empty());
    let Data::Sched(mut with_cycles) = batch(20, 5, false, &owner) else { unreachable!() };
    Arc::make_mut(&mut with_cycles).cycles =
        vec![suffered(3_000, 1), suffered(4_000, 1), suffered(4_500, 0), suffered(2_000_000, 1)];
    let found = exemplars(&mut metrics, Data::Sched(with_cycles));
    let told: Vec<(u64, &[u8], &[u8])> = found
        .iter()
        .map(|exemplar| (exemplar.time_unix_nano, exemplar.trace_id.as_slice(), exemplar.span_id.as_slice()))
        .collect();
    assert_eq!(told, [(1015, &[7_u8; 16][..], &[9_u8; 8][..]); 2], "the longest of each bucket, sampled ones only");
    assert!(exemplars(&mut metrics, batch(30, 6, false, &owner)).is_empty());
}

/// Check that cycles which come before their owner's first totals are not forgotten, and late ones of what is gone are.
#[test]
fn cycles_come_before_totals() {
    let owner = owner("c");
    let mut metrics = processor("{}");
    let cycles = |cycles: Vec<Cycle>| {
        let Data::Sched(mut early) = batch(5, 1, false, &owner) else { unreachable!() };
        let change = Arc::make_mut(&mut early);
        (change.collection, change.cycles) = (None, cycles);
        Data::Sched(early)
    };
    assert!(exemplars(&mut metrics, cycles(vec![suffered(3_000, 1)])).is_empty());
    let found = exemplars(&mut metrics, batch(10, 3, true, &owner));
    assert_eq!(found.len(), 1);
    exemplars(&mut metrics, cycles(vec![suffered(3_000, 1)]));
    let Data::Sched(mut without) = batch(20, 3, true, &owner) else { unreachable!() };
    Arc::make_mut(&mut without).collection.as_mut().unwrap().cgroups.clear();
    exemplars(&mut metrics, Data::Sched(without));
    assert!(metrics.ledger.is_quiet());
}
