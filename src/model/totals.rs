//! What a cgroup's threads did in all, as the kernel's own per-task counters say.

use std::sync::Arc;

use super::histogram::Histogram;
use super::limits::Limits;
use super::task::{CgroupKey, Task};

/// Where a thread's time can be; the values of the attribute `linux.sched.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum SchedState {
    /// Executing on a CPU.
    Running,
    /// On a CPU by the clock, taken by the hypervisor or by interrupts; only where measurable.
    Stolen,
    /// Runnable and allowed to run, without a CPU.
    Waiting,
    /// Runnable, its cgroup's quota used up.
    Throttled,
    /// Sleeping, S.
    Interruptible,
    /// Sleeping, D.
    Uninterruptible,
    /// Stopped or traced, T and t.
    Stopped,
    /// Parked, idle kernel thread, frozen where told.
    Other,
    /// Accounted to nothing.
    Unknown,
}

impl SchedState {
    /// All states, in the order of their index.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Stolen,
        Self::Waiting,
        Self::Throttled,
        Self::Interruptible,
        Self::Uninterruptible,
        Self::Stopped,
        Self::Other,
        Self::Unknown,
    ];

    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stolen => "stolen",
            Self::Waiting => "waiting",
            Self::Throttled => "throttled",
            Self::Interruptible => "interruptible",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
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

/// Thread-nanoseconds by state. `None` = not measured here, which is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateTimes {
    ns: [Option<u64>; SchedState::ALL.len()],
}

impl StateTimes {
    /// Sets one state's time.
    pub fn set(&mut self, state: SchedState, ns: u64) {
        if let Some(slot) = self.ns.get_mut(state as usize) {
            *slot = Some(ns);
        }
    }

    /// Adds to one state's time.
    pub fn add(&mut self, state: SchedState, ns: u64) {
        if let Some(slot) = self.ns.get_mut(state as usize) {
            *slot = Some(slot.unwrap_or(0).saturating_add(ns));
        }
    }

    /// One state's time, `None` where it is not measured.
    pub fn get(&self, state: SchedState) -> Option<u64> {
        self.ns.get(state as usize).copied().flatten()
    }

    /// A slice that was estimated while open may come out shorter, or as another state: a series waits instead of
    /// falling, and what it keeps is taken from what others grew by, so that all together stay the threads' lives.
    pub fn never_fall(&mut self, last: &Self) {
        let mut kept = 0;
        for state in SchedState::ALL {
            if let (Some(now), Some(before)) = (self.get(state), last.get(state)) {
                kept += before.saturating_sub(now);
                self.set(state, now.max(before));
            }
        }
        for state in LENDERS {
            if let (Some(now), Some(before)) = (self.get(state), last.get(state)) {
                let lent = kept.min(now - before);
                self.set(state, now - lent);
                kept -= lent;
            }
        }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut grown = *self;
        for state in SchedState::ALL {
            if let Some(ns) = self.get(state) {
                grown.set(state, ns.saturating_sub(before.get(state).unwrap_or(0)));
            }
        }
        grown
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for state in SchedState::ALL {
            if let Some(ns) = other.get(state) {
                self.add(state, ns);
            }
        }
    }
}

impl CgroupTotals {
    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Cumulative totals of one thread since it is counted, of all cgroups that it lived in.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadTotals {
    /// The thread.
    pub task: Arc<Task>,
    /// Where it did what came since the totals before.
    pub cgroup: CgroupKey,
    /// Its time by state.
    pub times: StateTimes,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// CPU changes.
    pub migrations: u64,
    /// It is gone: nothing more comes of it.
    pub ended: bool,
}

/// Cumulative totals of one cgroup since the agent began to watch it; open slices are added at each
/// read, and no value ever falls between two reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CgroupTotals {
    /// Thread-time by state.
    pub times: StateTimes,
    /// Voluntary context switches, as the kernel counts.
    pub voluntary: u64,
    /// Involuntary context switches, as the kernel counts.
    pub involuntary: u64,
    /// CPU changes between slices (`se.nr_migrations`).
    pub migrations: Option<u64>,
    /// Waits that ended, net of throttled time.
    pub wait: Histogram,
    /// Throttled stays that ended.
    pub throttle: Histogram,
    /// Run slices that ended, where asked for.
    pub run: Option<Histogram>,
    /// Blocks that ended, where asked for.
    pub block: Option<Histogram>,
    /// The longest wait that ended or was open since the last collection, ns.
    pub longest_wait_ns: u64,
    /// Threads whose wait is open and longer than the starvation threshold, at the time of the read.
    pub starving_threads: u32,
    /// Threads that live in the cgroup at the time of the read.
    pub threads: u32,
    /// Quotas and pressure, where asked for.
    pub limits: Limits,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(waiting: u64, throttled: u64, interruptible: u64) -> StateTimes {
        let mut times = StateTimes::default();
        times.set(SchedState::Waiting, waiting);
        times.set(SchedState::Throttled, throttled);
        times.set(SchedState::Interruptible, interruptible);
        times
    }

    #[test]
    fn what_was_told_stays_told_and_the_sum_stays_true() {
        // 50 that were throttled while open were booked as waiting
        let mut now = times(180, 20, 300);
        now.never_fall(&times(100, 70, 250));
        assert_eq!(now, times(130, 70, 300));
        // a wait that came out shorter, with little to take it from
        let mut now = times(90, 70, 330);
        now.never_fall(&times(130, 70, 300));
        assert_eq!(now, times(130, 70, 300));
    }
}
