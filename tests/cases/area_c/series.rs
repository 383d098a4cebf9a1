//! Points and spans as the processors make them from batches of the receiver.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use schedscope::config::Body;
use schedscope::model::{
    BlockState, BootNs, CgroupFacts, CgroupKey, CgroupTotals, ClockOffset, Collection, Cycle, Histogram, HostFacts,
    Owner, OwnerKind, ProcessKey, Reasons, Resource, RunEnd, SchedBatch, SchedState, Task, histogram::BOUNDS_NS,
};
use schedscope::pipeline::{BuildContext, Data, Outbox, Processor};
use schedscope::processors::{sched_metrics, sched_spans};
use schedscope::telemetry::Telemetry;
use serde_json::{Value, json};

use super::{check, count, holds, text};

const SECOND: u64 = 1_000_000_000;
/// The wall time of the cases' zero.
const WALL: i64 = 1_767_225_600_000_000_000;

fn context(id: &str) -> BuildContext {
    BuildContext::new(id.into(), Telemetry::default(), "0")
}

fn metrics(yaml: &str) -> Result<Box<dyn Processor>, String> {
    let body = Body::from_yaml("processors::sched_metrics", yaml).map_err(|error| error.to_string())?;
    (sched_metrics::FACTORY.build)(&body, &context("sched_metrics")).map_err(|error| error.to_string())
}

fn spans(yaml: &str) -> Result<Box<dyn Processor>, String> {
    let body = Body::from_yaml("processors::sched_spans", yaml).map_err(|error| error.to_string())?;
    (sched_spans::FACTORY.build)(&body, &context("sched_spans")).map_err(|error| error.to_string())
}

fn key(number: u64) -> CgroupKey {
    CgroupKey { id: number, serial: 1 }
}

fn owner(number: u64) -> Arc<Owner> {
    let mut resource = Resource::new();
    resource.set("container.id", format!("c{number}"));
    Arc::new(Owner {
        key: format!("c{number}").into(),
        kind: OwnerKind::Container,
        display_name: "c".into(),
        resource: Arc::new(resource),
        provisional: false,
    })
}

/// A batch of so many containers, without cycles or totals.
fn batch(containers: u64, since_ns: u64) -> SchedBatch {
    SchedBatch {
        facts: Arc::new(HostFacts {
            boot_id: "boot".into(),
            throttle_source: "kernel",
            since: BootNs(since_ns),
            ..HostFacts::default()
        }),
        offset: ClockOffset { wall_minus_boot_ns: WALL },
        cgroups: (0..containers).map(|number| (key(number), CgroupFacts::default())).collect(),
        owners: (0..containers).map(|number| (key(number), owner(number))).collect::<HashMap<_, _>>(),
        ..SchedBatch::default()
    }
}

fn collection(at_s: u64, since_s: u64, run_s: u64) -> SchedBatch {
    let mut totals = CgroupTotals { threads: 1, ..CgroupTotals::default() };
    totals.times.set(SchedState::Running, run_s * SECOND);
    let at = BootNs(at_s * SECOND);
    let collection = Collection { at, cgroups: vec![(key(0), totals)], ..Collection::default() };
    SchedBatch { collection: Some(collection), delivered_until: at, ..batch(1, since_s * SECOND) }
}

fn give(processor: &mut dyn Processor, batch: SchedBatch) -> Vec<Data> {
    let mut out = Outbox::default();
    processor.process(Data::Sched(Arc::new(batch)), &mut out);
    out.drain().collect()
}

fn resource_metrics(data: Vec<Data>) -> Vec<ResourceMetrics> {
    let only = |data| if let Data::Metrics(resources) = data { resources } else { Vec::new() };
    data.into_iter().flat_map(only).collect()
}

/// Start, time (s after the cases' zero) and value of the running seconds; raw times beside them.
fn points(resources: &[ResourceMetrics]) -> Vec<(Value, u64, u64)> {
    let seconds = |ns: u64| (i128::from(ns) - i128::from(WALL)) as f64 / 1e9;
    let mut found = Vec::new();
    for metric in resources.iter().flat_map(|one| &one.scope_metrics).flat_map(|scope| &scope.metrics) {
        let Some(metric::Data::Sum(sum)) = metric.data.as_ref().filter(|_| metric.name == "linux.sched.time") else {
            continue;
        };
        for point in &sum.data_points {
            let Some(number_data_point::Value::AsDouble(value)) = point.value else { continue };
            let (start, time) = (point.start_time_unix_nano, point.time_unix_nano);
            found.push((json!({"start": seconds(start), "time": seconds(time), "value": value}), start, time));
        }
    }
    found
}

pub fn temporality(case: &Value, expect: &Value) -> Result<(), String> {
    let yaml = format!("{{temporality: {}}}", text(case, "temporality"));
    let mut since = count(case, "agent_start");
    let mut processor = metrics(&yaml)?;
    let some = json!([[10, 3], [20, 2]]);
    let steps = case.get("increments").unwrap_or(&some).as_array().ok_or("no increments")?;
    let (mut total, mut got) = (0, Vec::new());
    for step in steps {
        if let Some(restart) = step.as_str().and_then(|word| word.strip_prefix("restart@")) {
            since = restart.parse().map_err(|_| "no time of restart")?;
            processor = metrics(&yaml)?;
            total = 0;
            continue;
        }
        let number = |at: usize| step.get(at).and_then(Value::as_u64).unwrap_or(0);
        total += number(1);
        got.extend(points(&resource_metrics(give(processor.as_mut(), collection(number(0), since, total)))));
    }
    if expect.get("every_point").is_some()
        && let Some((point, ..)) = got.iter().find(|(_, start, time)| *start == 0 || *time == 0 || start > time)
    {
        return Err(format!("bad times: {point}"));
    }
    let wanted = expect.get("points").and_then(Value::as_array).cloned().unwrap_or_default();
    for (at, wanted) in wanted.iter().enumerate() {
        check(wanted, got.get(at).map_or(&Value::Null, |(point, ..)| point))?;
    }
    if let Some(third) = expect.get("third") {
        check(third, &got.get(2).map_or_else(|| json!("absent"), |(point, ..)| point.clone()))?;
    }
    if got.is_empty() { Err("no points".to_owned()) } else { Ok(()) }
}

pub fn histogram(case: &Value, expect: &Value) -> Result<(), String> {
    if let Some(bounds) = case.get("config_bounds") {
        // Bounds are fixed here: none are taken, and the error says so.
        let told = metrics(&json!({"bounds": bounds}).to_string()).err().ok_or("the bounds are taken")?;
        let words = expect.get("config_error").and_then(Value::as_array).into_iter().flatten();
        let missing = words.filter_map(Value::as_str).find(|word| !told.contains(word));
        return missing.map_or(Ok(()), |word| Err(format!("`{word}` is not in: {told}")));
    }
    let numbers = |value: Option<&Value>| -> Vec<f64> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let bounds = match numbers(case.get("bounds")) {
        bounds if bounds.is_empty() => numbers(expect.get("explicit_bounds")),
        bounds => bounds,
    };
    let values = numbers(case.get("values").or_else(|| case.get("values_behind")));
    if bounds.is_empty() || values.is_empty() || bounds.len() > BOUNDS_NS.len() {
        return Err("no bounds or values that can be mapped".to_owned());
    }
    // The cases' bounds stand for ours in order: equal stays equal, between stays between.
    let mut histogram = Histogram::default();
    for value in &values {
        let at = bounds.partition_point(|bound| bound < value);
        let equal = bounds.get(at).is_some_and(|bound| bound == value);
        let below = at.checked_sub(1).and_then(|at| BOUNDS_NS.get(at)).copied().unwrap_or(0);
        let ours = if equal { BOUNDS_NS.get(at).copied().unwrap_or(u64::MAX) } else { below + 1 };
        histogram.record(ours);
    }
    let (inside, over) = histogram.buckets.split_at(bounds.len());
    let mut counts = inside.to_vec();
    counts.push(over.iter().sum());
    let mut expect = expect.clone();
    if let Some(expect) = expect.as_object_mut() {
        expect.remove("note");
    }
    check(&expect, &json!({"bucket_counts": counts, "count": histogram.count(), "explicit_bounds": bounds}))
}

fn cycle(tid: u32, end_ns: u64, run_ns: u64) -> Cycle {
    let process = ProcessKey { pid: tid, start: BootNs(1) };
    Cycle {
        task: Arc::new(Task { tid, process, start: BootNs(1), comm: "web".into(), cgroup: key(0), ..Task::default() }),
        cgroup: key(0),
        cpu: 0,
        end: BootNs(end_ns),
        run_ns,
        run_end: RunEnd::Preempted,
        wait_ns: Some(run_ns),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: Some(0),
        block_state: BlockState::Unknown,
        waker: None,
        context: None,
        reasons: Reasons::WAIT,
        culprits: Arc::default(),
    }
}

fn resource_spans(data: Vec<Data>) -> Vec<ResourceSpans> {
    let only = |data| if let Data::Traces(resources) = data { resources } else { Vec::new() };
    data.into_iter().flat_map(only).collect()
}

fn all_spans(resources: Vec<ResourceSpans>) -> Vec<Span> {
    resources.into_iter().flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans).collect()
}

/// The spans of cycles in windows of 10 s, `per_window` cycles in each.
fn windows(count: u64, per_window: u64) -> Result<Vec<Span>, String> {
    let mut processor = spans("{max_spans_per_trace: 100000}")?;
    let mut all = Vec::new();
    for window in 0..count {
        let step = 10 * SECOND / (per_window + 1);
        let at = |number: u64| window * 10 * SECOND + (number + 1) * step;
        let cycles = (0..per_window).map(|number| cycle(5 + (number % 50) as u32, at(number), step / 3)).collect();
        let until = BootNs((window + 1) * 10 * SECOND + SECOND);
        all.extend(all_spans(resource_spans(give(
            processor.as_mut(),
            SchedBatch { cycles, delivered_until: until, ..batch(1, 0) },
        ))));
    }
    Ok(all)
}

pub fn span(case: &Value, expect: &Value) -> Result<(), String> {
    if let Some(containers) = case.get("containers_with_no_activity").and_then(Value::as_u64) {
        return idle(containers, expect);
    }
    if let Some(wanted) = case.get("spans").and_then(Value::as_u64) {
        return ids(wanted, expect);
    }
    // Durations are unsigned here, so an end before its start can only come of a start before the boot.
    let mut processor = spans("{}")?;
    let until = BootNs(11 * SECOND);
    let given = SchedBatch { cycles: vec![cycle(5, 100, 101)], delivered_until: until, ..batch(1, 0) };
    let all = all_spans(resource_spans(give(processor.as_mut(), given)));
    match all.iter().find(|span| span.end_time_unix_nano < span.start_time_unix_nano) {
        Some(span) => Err(format!("{} ends before it starts; expected {expect}", span.name)),
        None => Ok(()),
    }
}

fn ids(wanted: u64, expect: &Value) -> Result<(), String> {
    let mut seen = HashSet::new();
    let (mut all, mut zero, mut wrong, mut roots) = (0, 0, 0, 0);
    let windows = windows(wanted.div_ceil(90_000), wanted.min(90_000).div_ceil(2))?;
    for span in &windows {
        all += 1;
        zero += u64::from(span.trace_id.iter().all(|byte| *byte == 0) || span.span_id.iter().all(|byte| *byte == 0));
        wrong += u64::from(span.trace_id.len() != 16 || span.span_id.len() != 8);
        roots += u64::from(span.parent_span_id.is_empty());
        wrong += u64::from(!matches!(span.parent_span_id.len(), 0 | 8));
        seen.insert(span.span_id.clone());
    }
    if all < wanted || wrong > 0 || roots == 0 {
        return Err(format!("{all} spans of {wanted}, {wrong} ids of wrong length, {roots} roots"));
    }
    let duplicates = all - seen.len() as u64;
    let got = json!({"trace_id_len": 16, "span_id_len": 8, "all_zero": zero, "duplicate_span_ids": duplicates, "root_parent": "empty"});
    check(expect, &got)
}

fn idle(containers: u64, expect: &Value) -> Result<(), String> {
    let quiet = || SchedBatch { delivered_until: BootNs(30 * SECOND), ..batch(containers, 0) };
    let traces = give(spans("{}")?.as_mut(), quiet());
    let totals = (0..containers).map(|number| (key(number), CgroupTotals::default())).collect();
    let collection = Collection { at: BootNs(30 * SECOND), cgroups: totals, ..Collection::default() };
    let points = give(metrics("{}")?.as_mut(), SchedBatch { collection: Some(collection), ..quiet() });
    let empty_requests = traces.iter().chain(&points).filter(|data| data.items() == 0).count();
    let empty_spans =
        resource_spans(traces).iter().filter(|one| one.scope_spans.iter().all(|s| s.spans.is_empty())).count();
    let empty_metrics =
        resource_metrics(points).into_iter().filter(|one| Data::Metrics(vec![one.clone()]).items() == 0).count();
    let got = json!({"empty_resource_blocks_sent": empty_spans + empty_metrics, "empty_requests_sent": empty_requests});
    if holds(expect, &got) { Ok(()) } else { check(expect, &got) }
}
