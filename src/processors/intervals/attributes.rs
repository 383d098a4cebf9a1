//! Pure: what an interval says about itself, a dozen attributes at most, under the names of the field.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::pieces::Piece;
use crate::model::{CgroupKey, Context, Culprit, CulpritKind, IntervalKind, Owner, SchedState};
use crate::pipeline::otlp::{AttributeValue, attribute, seconds};

/// Culprits told on a span.
const CULPRITS: usize = 3;

/// Who is who in a window, seen from one owner.
pub(crate) struct Names<'a> {
    pub(crate) named: &'a HashMap<CgroupKey, Arc<Owner>>,
    pub(crate) owner: &'a Owner,
    pub(crate) throttle_source: &'a str,
}

/// Who a culprit is, as it is exported. Nothing of it is copied before it is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    tid: u32,
    comm: &'a str,
}

impl Names<'_> {
    /// Container id and name of a cgroup's owner, `self` for our own.
    fn container(&self, cgroup: &CgroupKey) -> (&str, &str) {
        match self.named.get(cgroup) {
            Some(other) if other.key == self.owner.key => ("self", &self.owner.display_name),
            Some(other) => (other.resource.text("container.id").unwrap_or(&other.key), &other.display_name),
            None => ("host", "host"),
        }
    }

    /// Who a culprit is.
    pub(crate) fn culprit<'a>(&'a self, kind: &'a CulpritKind) -> Who<'a> {
        let pseudo = |word| Who { id: word, name: word, ..Who::default() };
        match kind {
            CulpritKind::Task { tid, comm, cgroup } => {
                let (id, name) = self.container(cgroup);
                Who { id, name, tid: *tid, comm }
            }
            CulpritKind::Kernel { tid, comm } => Who { tid: *tid, comm, ..pseudo("kernel") },
            CulpritKind::Idle => pseudo("idle"),
            CulpritKind::Irq => pseudo("irq"),
            CulpritKind::Other => pseudo("other"),
            CulpritKind::Unattributed => pseudo("unattributed"),
        }
    }
}

/// Puts who had the CPU during a wait.
fn put_culprits(to: &mut Vec<KeyValue>, all: &[Culprit], wait_ns: u64, names: &Names<'_>) {
    if all.is_empty() || wait_ns == 0 {
        return;
    }
    let mut told = [(Who::default(), 0.0); CULPRITS];
    for (place, culprit) in told.iter_mut().zip(all) {
        let share = (culprit.ns as f64 / wait_ns as f64 * 1000.0).round() / 1000.0;
        *place = (names.culprit(&culprit.kind), share);
    }
    let told = told.get(..all.len()).unwrap_or(&told);
    let (who, shares) = (told.iter().map(|(who, _)| who), told.iter().map(|(_, share)| *share));
    to.extend([
        attribute("linux.sched.culprit.container.id", AttributeValue::list(who.clone().map(|who| who.id))),
        attribute("linux.sched.culprit.container.name", AttributeValue::list(who.clone().map(|who| who.name))),
        attribute("linux.sched.culprit.pid", AttributeValue::list(who.clone().map(|who| who.tid))),
        attribute("linux.sched.culprit.thread.name", AttributeValue::list(who.map(|who| who.comm))),
        attribute("linux.sched.culprit.share", AttributeValue::list(shares)),
    ]);
}

/// Of one interval.
pub(crate) fn interval(piece: &Piece<'_>, names: &Names<'_>) -> Vec<KeyValue> {
    let cycle = piece.cycle;
    // as many as there are at most: a list that grows is copied
    let (state, count) = match piece.interval.kind {
        IntervalKind::Run => (SchedState::Running.name(), 5),
        IntervalKind::Wait => (SchedState::Waiting.name(), if cycle.culprits.is_empty() { 4 } else { 9 }),
        IntervalKind::Throttle => (SchedState::Throttled.name(), 4),
        IntervalKind::Block => (cycle.block_state.name(), if cycle.waker.is_none() { 3 } else { 7 }),
    };
    let mut all = Vec::with_capacity(count);
    all.push(attribute("linux.sched.state", state));
    all.push(attribute("thread.id", cycle.task.tid));
    all.push(attribute("thread.name", cycle.task.comm.as_ref()));
    match piece.interval.kind {
        IntervalKind::Run => {
            all.push(attribute("cpu.logical_number", cycle.cpu));
            all.push(attribute("linux.sched.run.end", cycle.run_end.name()));
        }
        IntervalKind::Wait => {
            all.push(attribute("cpu.logical_number", cycle.cpu));
            put_culprits(&mut all, &cycle.culprits, cycle.wait_ns.unwrap_or(0), names);
        }
        IntervalKind::Throttle => all.push(attribute("linux.sched.throttle.source", names.throttle_source)),
        IntervalKind::Block => {
            if let Some(waker) = &cycle.waker {
                let (id, name) = if waker.interrupt { ("irq", "irq") } else { names.container(&waker.cgroup) };
                all.push(attribute("linux.sched.wakeup.pid", waker.tid));
                all.push(attribute("linux.sched.wakeup.thread.name", waker.comm.as_ref()));
                all.push(attribute("linux.sched.wakeup.container.id", id));
                all.push(attribute("linux.sched.wakeup.container.name", name));
            }
        }
    }
    all
}

/// Of an interval in an application's trace: how its parent was found. A run slice is told by its two ends alone.
pub(crate) fn context(context: &Context, kind: IntervalKind) -> Vec<KeyValue> {
    let mut all = vec![attribute("linux.sched.context.source", context.source.name())];
    if kind == IntervalKind::Run {
        all.push(attribute("linux.sched.context.assumed", true));
    }
    all
}

/// Sums by state, ns; `throttle` is `None` where it is not measured.
pub(crate) fn times(run: u64, wait: u64, throttle: Option<u64>, block: u64) -> Vec<KeyValue> {
    let mut all = vec![
        attribute("linux.sched.run.time", seconds(run)),
        attribute("linux.sched.wait.time", seconds(wait)),
        attribute("linux.sched.block.time", seconds(block)),
    ];
    all.extend(throttle.map(|ns| attribute("linux.sched.throttle.time", seconds(ns))));
    all
}

/// Switches by how they came about.
pub(crate) fn switches(voluntary: u64, involuntary: u64) -> [KeyValue; 2] {
    [attribute("linux.sched.switches.voluntary", voluntary), attribute("linux.sched.switches.involuntary", involuntary)]
}
