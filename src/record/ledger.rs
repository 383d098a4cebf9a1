//! Pure: totals of threads become totals of cgroups that never fall.

use std::collections::HashMap;

use crate::model::{BootNs, CgroupKey, CgroupTotals, Histogram, SchedState};
use crate::timeline::ThreadTotals;

/// One life of a thread: ids are reused.
type Life = (u32, BootNs);

/// Sums by cgroup. A thread that moves is charged to where it is at each count.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    counted: HashMap<Life, ThreadTotals>,
    cgroups: HashMap<CgroupKey, CgroupTotals>,
}

impl Ledger {
    /// Counts what a thread did since it was counted last.
    pub(super) fn count(&mut self, now: ThreadTotals) {
        let life = (now.task.tid, now.first);
        let before = self.counted.remove(&life);
        let sum = self.cgroups.entry(now.task.cgroup).or_default();
        add(sum, &now, before.as_ref());
        if !now.ended {
            self.counted.insert(life, now);
        }
    }

    /// Begins a collection: what is told of the interval only.
    pub(super) fn begin_collection(&mut self) {
        for totals in self.cgroups.values_mut() {
            (totals.longest_wait_ns, totals.starving_threads, totals.threads) = (0, 0, 0);
        }
    }

    /// A wait that ended or is open in this interval.
    pub(super) fn waited(&mut self, cgroup: CgroupKey, ns: u64, is_open: bool, starvation_ns: u64) {
        let totals = self.cgroups.entry(cgroup).or_default();
        totals.longest_wait_ns = totals.longest_wait_ns.max(ns);
        totals.starving_threads += u32::from(is_open && ns > starvation_ns);
    }

    /// A thread that lives there.
    pub(super) fn lives(&mut self, cgroup: CgroupKey) {
        self.cgroups.entry(cgroup).or_default().threads += 1;
    }

    /// Every cgroup's totals.
    pub(super) fn cgroups(&self) -> Vec<(CgroupKey, CgroupTotals)> {
        let mut all: Vec<_> = self.cgroups.iter().map(|(key, totals)| (*key, totals.clone())).collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }
}

fn add(sum: &mut CgroupTotals, now: &ThreadTotals, before: Option<&ThreadTotals>) {
    for state in SchedState::ALL {
        let grown = now.ns(state).saturating_sub(before.map_or(0, |before| before.ns(state)));
        // throttled and stolen time are not measured here, which is not 0
        if grown > 0 || !matches!(state, SchedState::Throttled | SchedState::Stolen) {
            sum.times.add(state, grown);
        }
    }
    let grown = |of: fn(&ThreadTotals) -> u64| of(now).saturating_sub(before.map_or(0, of));
    sum.voluntary += grown(|totals| totals.voluntary);
    sum.involuntary += grown(|totals| totals.involuntary);
    sum.migrations = Some(sum.migrations.unwrap_or(0) + grown(|totals| totals.migrations));
    let nothing = Histogram::default();
    let old = before.map_or(&nothing, |before| &before.wait);
    for ((sum, now), old) in sum.wait.buckets.iter_mut().zip(now.wait.buckets).zip(old.buckets) {
        *sum += now.saturating_sub(old);
    }
    sum.wait.sum_ns = sum.wait.sum_ns.saturating_add(now.wait.sum_ns.saturating_sub(old.sum_ns));
}
