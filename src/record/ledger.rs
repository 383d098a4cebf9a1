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

/// From what growth a state that was told too long is taken: first from that which it may have become.
const LENDERS: [SchedState; 9] = [
    SchedState::Unknown,
    SchedState::Waiting,
    SchedState::Interruptible,
    SchedState::Other,
    SchedState::Stopped,
    SchedState::Uninterruptible,
    SchedState::Running,
    SchedState::Throttled,
    SchedState::Stolen,
];

fn add(sum: &mut CgroupTotals, now: &ThreadTotals, before: Option<&ThreadTotals>) {
    let then = |state| before.map_or(0, |before| before.ns(state));
    // a stay that was open at the count before may turn out as another state: what was told of it stays told, and is
    // taken from what others grew by, so that all together stay the thread's life
    let mut told: u64 = SchedState::ALL.into_iter().map(|state| then(state).saturating_sub(now.ns(state))).sum();
    for state in LENDERS {
        let grown = now.ns(state).saturating_sub(then(state));
        let lent = told.min(grown);
        told -= lent;
        let grown = grown - lent;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StateTimes;
    use crate::timeline::{Comm, Event, Limits, Machine, Named, Observer, Record, SwitchOut};

    struct Nobody;
    impl Observer for Nobody {
        fn cycle(&mut self, _: crate::model::Cycle) {}
    }

    /// A sleep that is told while it is open, and whose end is lost: what was told stays told, and all together stay
    /// the thread's life.
    #[test]
    fn what_turns_out_as_another_state_counts_once() {
        let named = |tid| Named::new(tid, Comm::from("t"));
        let (mut machine, mut ledger) = (Machine::new(Limits::default()), Ledger::default());
        let on = |machine: &mut Machine, at, event| machine.on(&Record::new(at, 0, event), &mut Nobody);
        let switch = |prev, out: &str, next| Event::Switch {
            prev: named(prev),
            out: SwitchOut::from_text(out.as_bytes()),
            next: named(next),
        };
        on(&mut machine, 1_000, switch(0, "R", 7));
        on(&mut machine, 2_000, switch(7, "S", 0));
        let told = |machine: &Machine, ledger: &mut Ledger, at: u64| {
            machine.totals_at(BootNs(at)).for_each(|totals| ledger.count(totals));
            ledger.cgroups()[0].1.times
        };
        let before = told(&machine, &mut ledger, 5_000);
        assert_eq!(before.get(SchedState::Interruptible), Some(3_000));
        on(&mut machine, 6_000, Event::Lost { count: 1, everywhere: true });
        on(&mut machine, 9_000, switch(0, "R", 7));
        let after = told(&machine, &mut ledger, 9_000);
        let sum = |times: &StateTimes| SchedState::ALL.into_iter().filter_map(|state| times.get(state)).sum::<u64>();
        assert_eq!(sum(&after) - sum(&before), 4_000, "{before:?} {after:?}");
        assert_eq!(after.get(SchedState::Interruptible), Some(3_000));
    }
}
