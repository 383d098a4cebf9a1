//! Pure: what an interval says about itself, a dozen attributes at most, under the names of the field.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::pieces::Piece;
use crate::model::{CgroupKey, Context, Culprit, CulpritKind, IntervalKind, Owner, SchedState};
use crate::pipeline::otlp::{attribute, seconds};

/// Culprits told on a span.
const CULPRITS: usize = 3;

/// Who is who in a window, seen from one owner.
pub(crate) struct Names<'a> {
    pub(crate) named: &'a HashMap<CgroupKey, Arc<Owner>>,
    pub(crate) owner: &'a Owner,
    pub(crate) throttle_source: &'a str,
}

impl Names<'_> {
    /// Container id and name of a cgroup's owner, `self` for our own.
    fn container(&self, cgroup: &CgroupKey) -> (String, String) {
        match self.named.get(cgroup) {
            Some(other) if other.key == self.owner.key => ("self".into(), self.owner.display_name.to_string()),
            Some(other) => {
                let id = other.resource.text("container.id").unwrap_or(&other.key);
                (id.to_owned(), other.display_name.to_string())
            }
            None => ("host".into(), "host".into()),
        }
    }

    /// Id, name, pid and thread name of a culprit.
    pub(crate) fn culprit(&self, kind: &CulpritKind) -> (String, String, u32, String) {
        let pseudo = |word: &str| (word.to_owned(), word.to_owned(), 0, String::new());
        match kind {
            CulpritKind::Task { tid, comm, cgroup } => {
                let (id, name) = self.container(cgroup);
                (id, name, *tid, comm.to_string())
            }
            CulpritKind::Kernel { tid, comm } => ("kernel".into(), "kernel".into(), *tid, comm.to_string()),
            CulpritKind::Idle => pseudo("idle"),
            CulpritKind::Irq => pseudo("irq"),
            CulpritKind::Other => pseudo("other"),
            CulpritKind::Unattributed => pseudo("unattributed"),
        }
    }
}

fn culprits(all: &[Culprit], wait_ns: u64, names: &Names<'_>) -> Vec<KeyValue> {
    if all.is_empty() || wait_ns == 0 {
        return Vec::new();
    }
    let told: Vec<_> = all.iter().take(CULPRITS).map(|culprit| (names.culprit(&culprit.kind), culprit.ns)).collect();
    let share = |ns: u64| (ns as f64 / wait_ns as f64 * 1000.0).round() / 1000.0;
    vec![
        attribute("linux.sched.culprit.container.id", told.iter().map(|(who, _)| who.0.clone()).collect::<Vec<_>>()),
        attribute("linux.sched.culprit.container.name", told.iter().map(|(who, _)| who.1.clone()).collect::<Vec<_>>()),
        attribute("linux.sched.culprit.pid", told.iter().map(|(who, _)| who.2).collect::<Vec<_>>()),
        attribute("linux.sched.culprit.thread.name", told.iter().map(|(who, _)| who.3.clone()).collect::<Vec<_>>()),
        attribute("linux.sched.culprit.share", told.iter().map(|(_, ns)| share(*ns)).collect::<Vec<_>>()),
    ]
}

/// Of one interval.
pub(crate) fn interval(piece: &Piece<'_>, names: &Names<'_>) -> Vec<KeyValue> {
    let cycle = piece.cycle;
    let state = match piece.interval.kind {
        IntervalKind::Run => SchedState::Running.name(),
        IntervalKind::Wait => SchedState::Waiting.name(),
        IntervalKind::Throttle => SchedState::Throttled.name(),
        IntervalKind::Block => cycle.block_state.name(),
    };
    let mut all = vec![
        attribute("linux.sched.state", state),
        attribute("thread.id", cycle.task.tid),
        attribute("thread.name", cycle.task.comm.as_ref()),
    ];
    match piece.interval.kind {
        IntervalKind::Run => {
            all.push(attribute("cpu.logical_number", cycle.cpu));
            all.push(attribute("linux.sched.run.end", cycle.run_end.name()));
        }
        IntervalKind::Wait => {
            all.push(attribute("cpu.logical_number", cycle.cpu));
            all.extend(culprits(&cycle.culprits, cycle.wait_ns.unwrap_or(0), names));
        }
        IntervalKind::Throttle => all.push(attribute("linux.sched.throttle.source", names.throttle_source)),
        IntervalKind::Block => {
            if let Some(waker) = &cycle.waker {
                let (id, name) =
                    if waker.interrupt { ("irq".to_owned(), "irq".to_owned()) } else { names.container(&waker.cgroup) };
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
