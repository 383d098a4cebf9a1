//! Pure: what a span says about itself, a dozen attributes at most, under the names of the field.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::thread::{Piece, Sums};
use super::window::{OwnerWindow, Window};
use crate::model::{CgroupKey, Context, Culprit, CulpritKind, IntervalKind, LossReason, Owner, SchedState};
use crate::pipeline::otlp::{attribute, seconds};

/// Culprits told on a span.
const CULPRITS: usize = 3;

/// Who is who in a window, seen from one owner.
pub(super) struct Names<'a> {
    pub(super) named: &'a HashMap<CgroupKey, Arc<Owner>>,
    pub(super) owner: &'a Owner,
    pub(super) throttle_source: &'a str,
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
    fn culprit(&self, kind: &CulpritKind) -> (String, String, u32, String) {
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

/// Digit runs become `#`: names of threads must not become names of operations without end.
pub(super) fn without_digits(comm: &str) -> String {
    let mut out = String::with_capacity(comm.len());
    for c in comm.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
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
pub(super) fn interval(piece: &Piece<'_>, names: &Names<'_>) -> Vec<KeyValue> {
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
pub(super) fn context(context: &Context, kind: IntervalKind) -> Vec<KeyValue> {
    let mut all = vec![attribute("linux.sched.context.source", context.source.name())];
    if kind == IntervalKind::Run {
        all.push(attribute("linux.sched.context.assumed", true));
    }
    all
}

/// Of a thread: sums of its recorded intervals.
pub(super) fn thread(tid: u32, comm: &str, sums: &Sums, left_out: u64, attached: u64) -> Vec<KeyValue> {
    let mut all = vec![attribute("thread.id", tid), attribute("thread.name", comm)];
    all.extend(times(sums.run, sums.wait, Some(sums.throttle), sums.block));
    all.extend(switches(sums.voluntary, sums.involuntary));
    if left_out > 0 {
        all.push(attribute("linux.sched.dropped_intervals", left_out));
    }
    if attached > 0 {
        all.push(attribute("linux.sched.attached_intervals", attached));
    }
    all
}

fn times(run: u64, wait: u64, throttle: Option<u64>, block: u64) -> Vec<KeyValue> {
    let mut all = vec![
        attribute("linux.sched.run.time", seconds(run)),
        attribute("linux.sched.wait.time", seconds(wait)),
        attribute("linux.sched.block.time", seconds(block)),
    ];
    all.extend(throttle.map(|ns| attribute("linux.sched.throttle.time", seconds(ns))));
    all
}

fn switches(voluntary: u64, involuntary: u64) -> [KeyValue; 2] {
    [attribute("linux.sched.switches.voluntary", voluntary), attribute("linux.sched.switches.involuntary", involuntary)]
}

/// Of the root: what the whole container did in the window, by its totals where they were read at both ends of
/// it, else by the recorded intervals.
pub(super) fn root(
    window: &Window,
    part: &OwnerWindow,
    recorded: &Sums,
    left_out: u64,
    names: &Names<'_>,
) -> Vec<KeyValue> {
    let losses = &window.losses;
    let gap = losses.iter().any(|(reason, count)| count > 0 && reason.leaves_gap());
    let mut all = match &part.measured {
        Some(totals) => {
            let time = |state| totals.time(state).unwrap_or(0);
            let block =
                [SchedState::Interruptible, SchedState::Uninterruptible, SchedState::Stopped, SchedState::Other];
            let block = block.into_iter().map(time).sum();
            let throttle = totals.time(SchedState::Throttled);
            let mut all = times(time(SchedState::Running), time(SchedState::Waiting), throttle, block);
            all.extend(switches(totals.voluntary, totals.involuntary));
            all
        }
        None => {
            let mut all = times(recorded.run, recorded.wait, Some(recorded.throttle), recorded.block);
            all.extend(switches(recorded.voluntary, recorded.involuntary));
            all
        }
    };
    all.push(attribute("linux.sched.window.complete", !gap));
    let cycles = || part.threads.values().flat_map(|thread| &thread.cycles);
    let longest = cycles().filter_map(|cycle| cycle.wait_ns).max().unwrap_or(0);
    let longest = longest.max(part.measured.as_ref().map_or(0, |totals| totals.longest_wait_ns));
    all.push(attribute("linux.sched.wait.longest", seconds(longest)));
    if left_out > 0 {
        all.push(attribute("linux.sched.dropped_intervals", left_out));
    }
    all.extend(top_culprit(cycles().flat_map(|cycle| &cycle.culprits), names));
    let kinds = losses.iter().filter(|(reason, count)| *count > 0 && reason.leaves_gap());
    all.extend(kinds.map(|(reason, count)| attribute(loss_key(reason), count)));
    all
}

fn loss_key(reason: LossReason) -> String {
    format!("linux.sched.records.lost.{}", reason.name())
}

/// Who had the CPU most while this owner's threads waited.
fn top_culprit<'a>(all: impl Iterator<Item = &'a Culprit>, names: &Names<'_>) -> Vec<KeyValue> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for culprit in all {
        let (id, name, _, _) = names.culprit(&culprit.kind);
        *sums.entry((id, name)).or_default() += culprit.ns;
    }
    let total: u64 = sums.values().sum();
    let Some(((id, name), ns)) = sums.into_iter().max_by_key(|(_, ns)| *ns).filter(|_| total > 0) else {
        return Vec::new();
    };
    vec![
        attribute("linux.sched.culprit.container.id", vec![id]),
        attribute("linux.sched.culprit.container.name", vec![name]),
        attribute("linux.sched.culprit.share", vec![(ns as f64 / total as f64 * 1000.0).round() / 1000.0]),
    ]
}
