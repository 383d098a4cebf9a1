//! Slots and per-CPU sums become the totals of cgroups that never fall between two reads.

use std::collections::HashMap;

use super::assemble::FoundThread;
use super::driver::{Driver, collect_args, slot, slot_cpu, slot_slices};
use crate::model::{CgroupKey, CgroupTotals, Histogram, SchedState, StateTimes, ThreadTotals};

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
                    totals.times.never_fall(&last.times);
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
    let parts = Parts {
        life: place.life,
        run: place.run + open(place.open_run),
        delay: place.delay + open(place.open_wait),
        throttled: sum(|cpu| cpu.throttle_sum) + open(place.open_throttled),
        stolen: sum(|cpu| cpu.stolen),
        uninterruptible: sum(|cpu| cpu.d) + open(place.open_d),
        stopped: sum(|cpu| cpu.t) + open(place.open_t),
        other: sum(|cpu| cpu.other) + open(place.open_other),
    };
    CgroupTotals {
        times: parts.times(measured),
        voluntary: place.voluntary,
        involuntary: place.involuntary,
        migrations: Some(place.migrations),
        wait: histogram(cpus, |cpu| (&cpu.wait, cpu.wait_sum)),
        throttle: histogram(cpus, |cpu| (&cpu.throttle, cpu.throttle_sum)),
        longest_wait_ns: longest(place, cpus, generation),
        starving_threads: if place.generation == generation { place.starving } else { 0 },
        threads: if place.generation == generation { place.threads } else { 0 },
        ..CgroupTotals::default()
    }
}

/// What a thread did, as told by its record.
pub(super) fn of_thread(found: FoundThread, measured: Measured) -> ThreadTotals {
    let FoundThread { task, cgroup, record } = found;
    let parts = Parts {
        life: record.life,
        run: record.run,
        delay: record.delay,
        throttled: record.throttled,
        stolen: record.stolen,
        uninterruptible: record.d,
        stopped: record.t,
        other: record.other,
    };
    ThreadTotals {
        task,
        cgroup,
        times: parts.times(measured),
        voluntary: record.voluntary,
        involuntary: record.involuntary,
        migrations: record.migrations,
        ended: record.ended,
    }
}

/// What the kernel side counts, ns.
struct Parts {
    life: u64,
    run: u64,
    delay: u64,
    throttled: u64,
    stolen: u64,
    uninterruptible: u64,
    stopped: u64,
    other: u64,
}

impl Parts {
    fn times(self, measured: Measured) -> StateTimes {
        let throttled = self.throttled.min(self.delay);
        let stolen = if measured.stolen { self.stolen } else { 0 };
        // the rest of the threads' lives was spent in S: neither running nor runnable nor in a noted sleep
        let told = self.run + self.delay + stolen + self.uninterruptible + self.stopped + self.other;
        let mut times = StateTimes::default();
        times.set(SchedState::Running, self.run);
        times.set(SchedState::Waiting, self.delay - throttled);
        if measured.throttled {
            times.set(SchedState::Throttled, throttled);
        }
        if measured.stolen {
            times.set(SchedState::Stolen, stolen);
        }
        times.set(SchedState::Interruptible, self.life.saturating_sub(told));
        times.set(SchedState::Uninterruptible, self.uninterruptible);
        times.set(SchedState::Stopped, self.stopped);
        times.set(SchedState::Other, self.other);
        times
    }
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
