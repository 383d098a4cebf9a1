//! Pure: what root and thread spans say about themselves, a dozen attributes at most, under the names of the field.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::window::{OwnerWindow, Window};
use crate::model::{Culprit, LossReason, SchedState};
use crate::pipeline::otlp::{attribute, seconds};
use crate::processors::intervals::attributes::{Names, switches, times};
use crate::processors::intervals::pieces::Sums;

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
    all.extend(top_culprit(cycles().flat_map(|cycle| cycle.culprits.iter()), names));
    let kinds = losses.iter().filter(|(reason, count)| *count > 0 && reason.leaves_gap());
    all.extend(kinds.map(|(reason, count)| attribute(loss_key(reason), count)));
    all
}

fn loss_key(reason: LossReason) -> String {
    format!("linux.sched.records.lost.{}", reason.name())
}

/// Who had the CPU most while this owner's threads waited.
fn top_culprit<'a>(all: impl Iterator<Item = &'a Culprit>, names: &'a Names<'_>) -> Vec<KeyValue> {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for culprit in all {
        let who = names.culprit(&culprit.kind);
        *sums.entry((who.id, who.name)).or_default() += culprit.ns;
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
