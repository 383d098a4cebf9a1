//! Pure: sums per thread, and what was not turned into a sample, by reason.

use std::sync::Arc;

use crate::model::{BlockState, BootNs, Histogram, LossReason, Losses, SchedState, StateTimes, Task};

/// Why time or an event did not become a sample. Each is a count since the machine began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Discards {
    /// Waits whose start was not seen, or lies before a gap.
    pub waits_without_start: u64,
    /// Runs whose switch-in was not seen.
    pub runs_without_start: u64,
    /// Runs whose switch-out was not seen.
    pub runs_without_end: u64,
    /// Blocks whose start or end was not seen, or that have a gap in them.
    pub blocks_in_doubt: u64,
    /// Wakeups of a thread that was running.
    pub wakeups_of_running: u64,
    /// Wakeups of a thread that was queued already.
    pub wakeups_of_queued: u64,
    /// Stamps that went back: clock skew between CPUs, or a clock that was set.
    pub clock_anomalies: u64,
    /// Events that the source says it lost.
    pub lost_events: u64,
    /// Places where events are missing, told by the source or seen by us.
    pub gaps: u64,
    /// Threads forgotten because there was no room for more.
    pub threads_forgotten: u64,
    /// Events with a CPU number that no kernel has.
    pub impossible_cpus: u64,
}

impl Discards {
    /// All counts with what they are called when told to a person, singular.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("wait with no known start", self.waits_without_start),
            ("run with no known start", self.runs_without_start),
            ("run with no known end", self.runs_without_end),
            ("block in doubt", self.blocks_in_doubt),
            ("wakeup of a running task", self.wakeups_of_running),
            ("wakeup of a queued task", self.wakeups_of_queued),
            ("clock anomaly", self.clock_anomalies),
            ("lost event", self.lost_events),
            ("gap", self.gaps),
            ("forgotten thread", self.threads_forgotten),
            ("impossible CPU number", self.impossible_cpus),
        ]
        .into_iter()
    }

    /// As losses of the model. A wakeup of a task that needs none loses nothing.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        losses.add(
            LossReason::UnknownStart,
            self.waits_without_start + self.runs_without_start + self.runs_without_end + self.blocks_in_doubt,
        );
        losses.add(LossReason::Clock, self.clock_anomalies);
        losses.add(LossReason::RingFull, self.lost_events);
        losses.add(LossReason::NoStorage, self.threads_forgotten);
        losses.add(LossReason::Decode, self.impossible_cpus);
        losses
    }
}

/// What one life of one thread came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadTotals {
    /// The thread, by its latest name.
    pub task: Arc<Task>,
    /// When it was first seen.
    pub first: BootNs,
    /// Up to when its time is accounted.
    pub until: BootNs,
    /// Time by state; their sum is `lifetime_ns`, exactly.
    pub times: StateTimes,
    /// All time from first to last seen.
    pub lifetime_ns: u64,
    /// Closed run slices, ns (in `times` an open one counts too).
    pub closed_run_ns: u64,
    /// How many run slices those were.
    pub runs: u64,
    /// Switches out as the kernel counts `nvcsw`.
    pub voluntary: u64,
    /// Switches out as the kernel counts `nivcsw`.
    pub involuntary: u64,
    /// sched_migrate_task events.
    pub migrations: u64,
    /// Waits that ended.
    pub wait: Histogram,
    /// The longest wait that ended, ns.
    pub longest_wait_ns: u64,
    /// Where it last got a CPU.
    pub last_cpu: Option<u32>,
    /// It has ended.
    pub ended: bool,
}

impl ThreadTotals {
    /// A life that begins now, as far as is known.
    pub(super) fn new(task: Arc<Task>, at: BootNs) -> Self {
        Self {
            task,
            first: at,
            until: at,
            times: StateTimes::default(),
            lifetime_ns: 0,
            closed_run_ns: 0,
            runs: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            wait: Histogram::default(),
            longest_wait_ns: 0,
            last_cpu: None,
            ended: false,
        }
    }

    /// Accounts time to a state.
    pub(super) fn book(&mut self, state: SchedState, ns: u64) {
        if ns > 0 {
            self.times.add(state, ns);
            self.lifetime_ns = self.lifetime_ns.saturating_add(ns);
        }
    }

    /// Takes back time that was booked too early (clock skew).
    pub(super) fn take_back(&mut self, state: SchedState, ns: u64) {
        let booked = self.times.get(state).unwrap_or(0);
        self.times.set(state, booked.saturating_sub(ns));
        self.lifetime_ns = self.lifetime_ns.saturating_sub(ns);
    }

    /// One state's time, 0 where there was none.
    pub fn ns(&self, state: SchedState) -> u64 {
        self.times.get(state).unwrap_or(0)
    }
}

/// The state that blocked time is accounted to.
pub(super) fn block_time(state: BlockState) -> SchedState {
    match state {
        BlockState::Interruptible => SchedState::Interruptible,
        BlockState::Uninterruptible => SchedState::Uninterruptible,
        BlockState::Stopped => SchedState::Stopped,
        BlockState::Other => SchedState::Other,
        BlockState::Unknown => SchedState::Unknown,
    }
}
