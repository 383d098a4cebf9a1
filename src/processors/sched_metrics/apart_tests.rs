//! Processes and threads told apart, over several collections.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::metrics::v1::metric;

use super::tests::processor;
use super::*;
use crate::model::{
    BootNs, CgroupFacts, CgroupKey, Collection, Process, ProcessKey, SchedState, StateTimes, Task, ThreadTotals,
};

const KEY: CgroupKey = CgroupKey { id: 7, serial: 1 };

fn process(pid: u32) -> ProcessKey {
    ProcessKey { pid, start: BootNs(1) }
}

fn times(run: u64) -> StateTimes {
    let mut times = StateTimes::default();
    times.set(SchedState::Running, run);
    times
}

/// A thread that ran for `run` seconds in its life.
fn thread(tid: u32, pid: u32, run: u64, ended: bool) -> ThreadTotals {
    let task = Task { tid, process: process(pid), comm: format!("t{tid}").into(), ..Task::default() };
    let times = times(run * 1_000_000_000);
    ThreadTotals { task: Arc::new(task), cgroup: KEY, times, voluntary: run, involuntary: 0, migrations: 0, ended }
}

/// A collection in which a container has run for `run` seconds, with what its threads did.
fn batch(at: u64, run: u64, threads: Vec<ThreadTotals>) -> Data {
    let totals = CgroupTotals { times: times(run * 1_000_000_000), voluntary: run, ..CgroupTotals::default() };
    let owner = Owner {
        key: "c".into(),
        kind: OwnerKind::Container,
        display_name: "c".into(),
        resource: Arc::new(Resource::new()),
        provisional: false,
    };
    let of_process = |thread: &ThreadTotals| {
        let mut resource = Resource::new();
        resource.set("process.pid", i64::from(thread.task.process.pid));
        (thread.task.process, Arc::new(Process { resource: Arc::new(resource), ..Process::default() }))
    };
    Data::Sched(Arc::new(SchedBatch {
        processes: threads.iter().map(of_process).collect(),
        collection: Some(Collection { at: BootNs(at), cgroups: vec![(KEY, totals)], threads, ..Default::default() }),
        cgroups: HashMap::from([(KEY, CgroupFacts::default())]),
        owners: HashMap::from([(KEY, Arc::new(owner))]),
        ..SchedBatch::default()
    }))
}

/// Running seconds of every point of one collection: whose, and how many; `rest` for the container's own.
fn running(metrics: &mut SchedMetrics, data: Data) -> Vec<(String, Option<f64>)> {
    let mut out = Outbox::default();
    metrics.process(data, &mut out);
    let resources = out.drain().flat_map(|data| if let Data::Metrics(all) = data { all } else { Vec::new() });
    let mut found = Vec::new();
    for of in resources {
        let text = |key: &str, from: &[opentelemetry_proto::tonic::common::v1::KeyValue]| {
            let value = from.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
            value.map(|value| format!("{:?}", value.value.unwrap()))
        };
        let pid = text("process.pid", &of.resource.unwrap().attributes);
        let time = of.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
        for metric in time.filter(|metric| metric.name == "linux.sched.time") {
            let Some(metric::Data::Sum(sum)) = metric.data else { continue };
            for point in sum.data_points {
                let rest = text("otel.metric.overflow", &point.attributes).map(|_| "rest".to_owned());
                let mut whose = rest.or_else(|| pid.clone()).unwrap_or_default();
                whose.push_str(&text("thread.id", &point.attributes).unwrap_or_default());
                let value = point.value.map(|value| if let Number::AsDouble(it) = value { it } else { f64::NAN });
                found.push((whose.replace("IntValue", ""), value));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn told(all: &[(&str, f64)]) -> Vec<(String, Option<f64>)> {
    all.iter().map(|(whose, seconds)| ((*whose).to_owned(), Some(*seconds))).collect()
}

/// Check that processes and the rest add up to the container, also when threads and processes end.
#[test]
fn processes_and_the_rest_are_the_whole() {
    let mut metrics = processor("level: process");
    let first = vec![thread(1, 1, 2, false), thread(2, 1, 3, false), thread(9, 9, 4, false)];
    assert_eq!(running(&mut metrics, batch(10, 9, first)), told(&[("(1)", 5.0), ("(9)", 4.0)]));
    // thread 2 has ended; process 9 too, untold; something else ran for a second and was gone
    let second = vec![thread(2, 1, 4, true), thread(1, 1, 2, false)];
    assert_eq!(running(&mut metrics, batch(20, 11, second)), told(&[("(1)", 6.0), ("(9)", 4.0), ("rest", 1.0)]));
    let third = vec![thread(1, 1, 3, false)];
    assert_eq!(running(&mut metrics, batch(30, 12, third)), told(&[("(1)", 7.0), ("rest", 1.0)]));
}

/// Check that what was born and died between two collections makes no series.
#[test]
fn brief_ones_are_the_rest() {
    let mut metrics = processor("level: process");
    let first = vec![thread(1, 1, 2, false), thread(2, 2, 3, true), thread(3, 1, 1, true)];
    assert_eq!(running(&mut metrics, batch(10, 6, first)), told(&[("(1)", 3.0), ("rest", 3.0)]));
}

/// Check the same of threads, in intervals.
#[test]
fn threads_by_interval() {
    let mut metrics = processor("{level: thread, temporality: delta}");
    let first = vec![thread(1, 1, 2, false), thread(2, 1, 3, false)];
    assert_eq!(running(&mut metrics, batch(10, 5, first)), told(&[("(1)(1)", 2.0), ("(1)(2)", 3.0)]));
    let second = vec![thread(1, 1, 4, false), thread(2, 1, 3, false)];
    let points = running(&mut metrics, batch(20, 9, second));
    assert_eq!(points, told(&[("(1)(1)", 2.0), ("(1)(2)", 0.0), ("rest", 2.0)]));
}

/// Check that a thread renamed between two looks, or within one, loses nothing.
#[test]
fn renamed() {
    let renamed = |run, name: &str| {
        let mut thread = thread(1, 1, run, false);
        Arc::make_mut(&mut thread.task).comm = name.into();
        thread
    };
    let mut metrics = processor("level: thread");
    let first = vec![renamed(2, "sh"), renamed(5, "web")];
    assert_eq!(running(&mut metrics, batch(10, 5, first)), told(&[("(1)(1)", 5.0)]));
    let points = running(&mut metrics, batch(20, 9, vec![renamed(9, "worker")]));
    let old = ("(1)(1)".to_owned(), None);
    assert_eq!(points, [vec![old], told(&[("(1)(1)", 4.0)])].concat());
}

/// Check that what finds no room is part of the rest, and counted once.
#[test]
fn no_room() {
    let mut metrics = processor("{level: process, max_series: 2}");
    let threads = || vec![thread(1, 1, 1, false), thread(2, 2, 1, false), thread(3, 3, 5, false)];
    for at in [10, 20] {
        let points = running(&mut metrics, batch(at, 7, threads()));
        assert_eq!(points, told(&[("(1)", 1.0), ("(2)", 1.0), ("rest", 5.0)]));
    }
    assert_eq!(metrics.apart.overflowed, 1);
}

/// Check that an open wait which came out shorter takes nothing back.
#[test]
fn nothing_falls() {
    let mut metrics = processor("level: process");
    running(&mut metrics, batch(10, 5, vec![thread(1, 1, 5, false)]));
    assert_eq!(running(&mut metrics, batch(20, 5, vec![thread(1, 1, 4, false)])), told(&[("(1)", 5.0)]));
    assert_eq!(running(&mut metrics, batch(30, 6, vec![thread(1, 1, 6, false)])), told(&[("(1)", 6.0)]));
}

/// Check that without the level nothing is told apart.
#[test]
fn containers_alone() {
    let mut metrics = processor("{}");
    assert_eq!(running(&mut metrics, batch(10, 5, vec![thread(1, 1, 5, false)])), told(&[("", 5.0)]));
}
