//! Slots and per-CPU sums become the totals of cgroups that never fall between two reads.

use std::collections::HashMap;

use super::driver::{Driver, collect_args, slot, slot_cpu, slot_slices};
use crate::model::{CgroupKey, CgroupTotals, Histogram, SchedState};

/// What the host's kernel and the config let us tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Stolen time is told.
    pub stolen: bool,
    /// Throttled time is told from waiting.
    pub throttled: bool,
    /// Run histograms are filled.
    pub run: bool,
    /// Block histograms are filled.
    pub block: bool,
}

/// The last value of every series, so that none falls.
#[derive(Debug, Default)]
pub(super) struct Totals {
    last: HashMap<CgroupKey, CgroupTotals>,
    /// Highest slot that was ever seen in use; slots are handed out from the lowest.
    high: usize,
}

/// Free slots that are looked past: where several CPUs meet a new cgroup at once, all but one give theirs back.
const GAP: usize = 64;

impl Totals {
    /// Reads every slot in use: its number, its cgroup, its totals.
    pub(super) fn read(
        &mut self,
        driver: &Driver<'_>,
        args: &collect_args,
        measured: Measured,
    ) -> Vec<(u32, CgroupKey, CgroupTotals)> {
        let mut all = Vec::new();
        let mut index = 0;
        while index < driver.slots() && (index <= self.high + GAP) {
            let place = driver.slot(index);
            let key = CgroupKey { id: place.id, serial: place.serial };
            let used = place.id != 0 || (index == 0 && place.life != 0);
            if used {
                self.high = self.high.max(index);
                let cpus: Vec<slot_cpu> = (0..driver.cpus()).map(|cpu| driver.slot_cpu(index, cpu)).collect();
                let mut totals = convert(&place, &cpus, args.generation, measured);
                if measured.run || measured.block {
                    let slices: Vec<slot_slices> =
                        (0..driver.cpus()).map(|cpu| driver.slot_slices(index, cpu)).collect();
                    totals.run = measured.run.then(|| histogram(&slices, |cpu| (&cpu.run, cpu.run_sum)));
                    totals.block = measured.block.then(|| histogram(&slices, |cpu| (&cpu.block, cpu.block_sum)));
                }
                if let Some(last) = self.last.get(&key) {
                    never_fall(&mut totals, last);
                }
                self.last.insert(key, totals.clone());
                all.push((u32::try_from(index).unwrap_or(0), key, totals));
            }
            index += 1;
        }
        all
    }

    /// Forgets a cgroup whose last totals were sent.
    pub(super) fn forget(&mut self, key: CgroupKey) {
        self.last.remove(&key);
    }
}

/// The open part of a slot belongs to the collection that wrote it.
fn convert(place: &slot, cpus: &[slot_cpu], generation: u64, measured: Measured) -> CgroupTotals {
    let open = |ns: u64| if place.generation == generation { ns } else { 0 };
    let sum = |of: fn(&slot_cpu) -> u64| cpus.iter().map(of).sum::<u64>();
    let run = place.run + open(place.open_run);
    let delay = place.delay + open(place.open_wait);
    let throttled = (sum(|cpu| cpu.throttle_sum) + open(place.open_throttled)).min(delay);
    let stolen = if measured.stolen { sum(|cpu| cpu.stolen) } else { 0 };
    let uninterruptible = sum(|cpu| cpu.d) + open(place.open_d);
    let stopped = sum(|cpu| cpu.t) + open(place.open_t);
    let other = sum(|cpu| cpu.other) + open(place.open_other);
    // the rest of the threads' lives was spent in S: neither running nor runnable nor in a noted sleep
    let told = run + delay + stolen + uninterruptible + stopped + other;
    let mut totals = CgroupTotals {
        voluntary: place.voluntary,
        involuntary: place.involuntary,
        migrations: Some(place.migrations),
        wait: histogram(cpus, |cpu| (&cpu.wait, cpu.wait_sum)),
        throttle: histogram(cpus, |cpu| (&cpu.throttle, cpu.throttle_sum)),
        longest_wait_ns: longest(place, cpus, generation),
        starving_threads: if place.generation == generation { place.starving } else { 0 },
        threads: if place.generation == generation { place.threads } else { 0 },
        ..CgroupTotals::default()
    };
    totals.times.set(SchedState::Running, run);
    totals.times.set(SchedState::Waiting, delay - throttled);
    if measured.throttled {
        totals.times.set(SchedState::Throttled, throttled);
    }
    if measured.stolen {
        totals.times.set(SchedState::Stolen, stolen);
    }
    totals.times.set(SchedState::Interruptible, place.life.saturating_sub(told));
    totals.times.set(SchedState::Uninterruptible, uninterruptible);
    totals.times.set(SchedState::Stopped, stopped);
    totals.times.set(SchedState::Other, other);
    totals
}

/// One histogram of all CPUs.
fn histogram<T>(cpus: &[T], of: fn(&T) -> (&[u64], u64)) -> Histogram {
    let mut all = Histogram::default();
    for (counts, sum_ns) in cpus.iter().map(of) {
        for (total, count) in all.buckets.iter_mut().zip(counts) {
            *total += count;
        }
        all.sum_ns += sum_ns;
    }
    all
}

/// The longest wait of the interval that the collection `generation` ended.
fn longest(place: &slot, cpus: &[slot_cpu], generation: u64) -> u64 {
    let ended = generation.wrapping_sub(1);
    let half = usize::from(ended & 1 == 1);
    let closed =
        cpus.iter().filter(|cpu| cpu.generation[half] == ended).map(|cpu| cpu.longest[half]).max().unwrap_or(0);
    let open = if place.generation == generation { place.longest_open } else { 0 };
    closed.max(open)
}

/// From where what a series may not lose is taken: first from those that it can have been mistaken for.
const LENDERS: [SchedState; 8] = [
    SchedState::Waiting,
    SchedState::Throttled,
    SchedState::Interruptible,
    SchedState::Other,
    SchedState::Stopped,
    SchedState::Uninterruptible,
    SchedState::Stolen,
    SchedState::Running,
];

/// A slice that was estimated while open may come out shorter, or as another state: the series waits instead of
/// falling, and what it keeps is taken from what others grew by, so that all together stay the threads' lives.
fn never_fall(totals: &mut CgroupTotals, last: &CgroupTotals) {
    let mut kept = 0;
    for state in SchedState::ALL {
        if let (Some(now), Some(before)) = (totals.times.get(state), last.times.get(state)) {
            kept += before.saturating_sub(now);
            totals.times.set(state, now.max(before));
        }
    }
    for state in LENDERS {
        if let (Some(now), Some(before)) = (totals.times.get(state), last.times.get(state)) {
            let lent = kept.min(now - before);
            totals.times.set(state, now - lent);
            kept -= lent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(waiting: u64, throttled: u64, interruptible: u64) -> CgroupTotals {
        let mut totals = CgroupTotals::default();
        totals.times.set(SchedState::Waiting, waiting);
        totals.times.set(SchedState::Throttled, throttled);
        totals.times.set(SchedState::Interruptible, interruptible);
        totals
    }

    #[test]
    fn what_was_told_stays_told_and_the_sum_stays_true() {
        // 50 that were throttled while open were booked as waiting
        let mut now = totals(180, 20, 300);
        never_fall(&mut now, &totals(100, 70, 250));
        assert_eq!(now, totals(130, 70, 300));
        // a wait that came out shorter, with little to take it from
        let mut now = totals(90, 70, 330);
        never_fall(&mut now, &totals(130, 70, 300));
        assert_eq!(now, totals(130, 70, 300));
    }
}
