//! Pure: one thread between two events: where it is, since when, and the parts of its open cycle.

use std::sync::Arc;

use super::comm::Comm;
use super::totals::{Discards, ThreadTotals, block_time};
use crate::model::{BlockState, BootNs, Cycle, Reasons, RunEnd, SchedState, Task, Waker};

/// Clocks of two CPUs may differ by this much; a stamp further back means that the clock was set or
/// that captures were joined, and time begins anew.
const MAX_SKEW_NS: u64 = 10_000_000;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not known: first seen, or a gap came between.
    Unknown,
    /// On this CPU.
    Running {
        /// Which.
        cpu: u32,
        /// Switched in.
        since: BootNs,
    },
    /// Runnable.
    Queued {
        /// sched_waking was seen; sched_wakeup, if it comes, says the time more exactly.
        waking: bool,
    },
    /// Not runnable.
    Blocked(BlockState),
}

/// The parts of the cycle that ends with the next switch-out.
#[derive(Debug, Clone, Default)]
struct OpenCycle {
    /// Blocked before the wait; 0 after a preemption.
    block_ns: Option<u64>,
    block_state: Option<BlockState>,
    waker: Option<Waker>,
    wait_ns: Option<u64>,
}

/// One life of one thread.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) task: Arc<Task>,
    pub(super) comm: Comm,
    pub(super) phase: Phase,
    /// The machine's count of losses when the phase began; another count now means that the phase is in doubt.
    losses: u64,
    /// The CPU it is queued on, and how many switches had been missed there.
    pub(super) queued_on: Option<(u32, u64)>,
    /// A fork was seen and no wakeup_new yet.
    pub(super) fresh: bool,
    /// Who forked it; 0 where that was not seen.
    pub(super) forked_by: u32,
    /// Its end began.
    pub(super) exiting: bool,
    /// sched_waking came while it was running, and neither sched_wakeup nor a switch-in since.
    early_waking: bool,
    /// Who sent it.
    waking_by: Option<Waker>,
    open: OpenCycle,
    pub(super) totals: ThreadTotals,
}

/// The machine's count of losses, and whether a switch was missed where the thread is queued.
pub(super) type Doubt = (u64, bool);

/// Time between two events of a thread.
struct Elapsed {
    ns: u64,
    /// Both ends are known and in order.
    certain: bool,
}

impl Thread {
    /// A thread of which nothing is known yet.
    pub(super) fn new(task: Arc<Task>, comm: Comm, at: BootNs) -> Self {
        let totals = ThreadTotals::new(Arc::clone(&task), at);
        let open = OpenCycle::default();
        Self {
            task,
            comm,
            phase: Phase::Unknown,
            losses: 0,
            queued_on: None,
            fresh: false,
            forked_by: 0,
            exiting: false,
            early_waking: false,
            waking_by: None,
            open,
            totals,
        }
    }

    /// Gives the thread a name; cycles from now on carry it.
    pub(super) fn rename(&mut self, comm: Comm) {
        if self.comm != comm {
            self.comm = comm;
            self.retask(|task| task.comm = comm.text());
        }
    }

    /// Changes what is known of the thread.
    pub(super) fn retask(&mut self, change: impl FnOnce(&mut Task)) {
        let mut task = (*self.task).clone();
        change(&mut task);
        self.task = Arc::new(task);
        self.totals.task = Arc::clone(&self.task);
    }

    /// Moves the account to `at`; the time goes to `state` where it is certain, else to unknown.
    fn advance(&mut self, at: BootNs, losses: u64, state: SchedState, discards: &mut Discards) -> Elapsed {
        let until = self.totals.until;
        if at < until {
            discards.clock_anomalies += 1;
            if until.since(at) > MAX_SKEW_NS {
                self.totals.until = at;
            }
            return Elapsed { ns: 0, certain: false };
        }
        let ns = at.since(until);
        let certain = self.losses == losses;
        self.totals.book(if certain { state } else { SchedState::Unknown }, ns);
        self.totals.until = at;
        Elapsed { ns, certain }
    }

    fn enter(&mut self, phase: Phase, losses: u64) {
        self.phase = phase;
        self.losses = losses;
    }

    /// The open phase is no longer certain.
    pub(super) fn distrust(&mut self, losses: u64) {
        self.losses = losses.wrapping_sub(1);
    }

    /// sched_waking, sched_wakeup or sched_wakeup_new.
    pub(super) fn wake(
        &mut self,
        at: BootNs,
        (losses, missed): Doubt,
        waking: bool,
        waker: Option<Waker>,
        discards: &mut Discards,
    ) {
        match self.phase {
            Phase::Running { .. } if waking => (self.early_waking, self.waking_by) = (true, waker),
            Phase::Running { .. } => {
                self.early_waking = false;
                discards.wakeups_of_running += 1;
            }
            // not trusted across a gap: it may have run and slept in it, so this wakeup begins a wait
            Phase::Queued { waking: early } if self.losses == losses && !missed => {
                if early && !waking {
                    self.refine_wakeup(at);
                    self.phase = Phase::Queued { waking: false };
                } else if !waking {
                    discards.wakeups_of_queued += 1;
                }
            }
            Phase::Queued { .. } | Phase::Unknown => {
                self.advance(at, losses, SchedState::Unknown, discards);
                self.open = OpenCycle { waker: self.waking_by.take().or(waker), ..OpenCycle::default() };
                self.enter(Phase::Queued { waking }, losses);
            }
            Phase::Blocked(state) => {
                let elapsed = self.advance(at, losses, block_time(state), discards);
                discards.blocks_in_doubt += u64::from(!elapsed.certain);
                self.open = OpenCycle {
                    block_ns: elapsed.certain.then_some(elapsed.ns),
                    block_state: elapsed.certain.then_some(state),
                    waker: self.waking_by.take().or(waker),
                    wait_ns: None,
                };
                self.early_waking = false;
                self.enter(Phase::Queued { waking }, losses);
            }
        }
    }

    /// Moves the end of the block from sched_waking to sched_wakeup: until then the thread was not queued.
    fn refine_wakeup(&mut self, at: BootNs) {
        let ns = at.since(self.totals.until);
        self.totals.book(self.open.block_state.map_or(SchedState::Unknown, block_time), ns);
        self.open.block_ns = self.open.block_ns.map(|block| block + ns);
        self.totals.until = self.totals.until.max(at);
    }

    /// Gets a CPU. Gives the length of the wait where it is known.
    pub(super) fn switch_in(
        &mut self,
        at: BootNs,
        cpu: u32,
        (losses, missed): Doubt,
        discards: &mut Discards,
    ) -> Option<u64> {
        if missed && matches!(self.phase, Phase::Queued { .. }) {
            self.distrust(losses);
        }
        let wait = match self.phase {
            Phase::Queued { .. } if at < self.totals.until => {
                self.take_back_skew(at, discards);
                self.advance(at, losses, SchedState::Unknown, discards);
                None
            }
            Phase::Queued { .. } => {
                let elapsed = self.advance(at, losses, SchedState::Waiting, discards);
                elapsed.certain.then_some(elapsed.ns)
            }
            // sched_waking came while it was on its way off the CPU, and nothing after: it was queued at once
            Phase::Blocked(_) if self.early_waking && at >= self.totals.until => {
                let elapsed = self.advance(at, losses, SchedState::Waiting, discards);
                self.open = OpenCycle { block_ns: Some(0), waker: self.waking_by.take(), ..OpenCycle::default() };
                elapsed.certain.then_some(elapsed.ns)
            }
            Phase::Blocked(_) => {
                // its wakeup was not seen: how much of this was sleep nobody knows
                discards.blocks_in_doubt += 1;
                self.advance(at, losses, SchedState::Unknown, discards);
                None
            }
            Phase::Running { .. } => {
                discards.runs_without_end += 1;
                self.advance(at, losses, SchedState::Unknown, discards);
                None
            }
            Phase::Unknown => {
                self.advance(at, losses, SchedState::Unknown, discards);
                None
            }
        };
        match wait {
            Some(ns) => {
                self.totals.wait.record(ns);
                self.totals.longest_wait_ns = self.totals.longest_wait_ns.max(ns);
                self.open.wait_ns = wait;
            }
            None => {
                discards.waits_without_start += 1;
                // a block that touches no wait cannot be placed
                self.open = OpenCycle { waker: self.open.waker.take(), ..OpenCycle::default() };
            }
        }
        (self.early_waking, self.waking_by) = (false, None);
        self.fresh = false;
        self.totals.last_cpu = Some(cpu);
        // never before the account: intervals of a thread do not overlap
        self.enter(Phase::Running { cpu, since: at.max(self.totals.until) }, losses);
        wait
    }

    /// The switch-in was stamped before the wakeup by another CPU: the block was booked for too long.
    fn take_back_skew(&mut self, at: BootNs, discards: &mut Discards) {
        let skew = self.totals.until.since(at);
        if let (Some(block), Some(state)) = (self.open.block_ns, self.open.block_state)
            && skew <= MAX_SKEW_NS.min(block)
        {
            discards.clock_anomalies += 1;
            self.totals.take_back(block_time(state), skew);
            self.totals.until = at;
        }
    }

    /// Leaves `cpu`. Gives the finished cycle where both ends of the run are known.
    pub(super) fn switch_out(
        &mut self,
        at: BootNs,
        cpu: u32,
        losses: u64,
        next: (Phase, RunEnd),
        discards: &mut Discards,
    ) -> Option<Cycle> {
        let cycle = match self.phase {
            // other CPUs' gaps do not touch a run: this CPU's own events are complete
            Phase::Running { cpu: on, since } if on == cpu => {
                self.losses = losses;
                let run = self.advance(at, losses, SchedState::Running, discards);
                run.certain.then(|| self.close(at, at.since(since), cpu, next.1))
            }
            _ => {
                self.advance(at, losses, SchedState::Unknown, discards);
                None
            }
        };
        if cycle.is_none() {
            discards.runs_without_start += 1;
        }
        self.open = OpenCycle { block_ns: Some(0), ..OpenCycle::default() };
        self.enter(next.0, losses);
        cycle
    }

    fn close(&mut self, at: BootNs, run_ns: u64, cpu: u32, run_end: RunEnd) -> Cycle {
        self.totals.closed_run_ns += run_ns;
        self.totals.runs += 1;
        let open = std::mem::take(&mut self.open);
        Cycle {
            task: Arc::clone(&self.task),
            cgroup: self.task.cgroup,
            cpu,
            end: at,
            run_ns,
            run_end,
            wait_ns: open.wait_ns,
            throttled_ns: None,
            wait_before_throttle_ns: open.wait_ns.unwrap_or(0),
            block_ns: open.block_ns,
            block_state: open.block_state.unwrap_or(BlockState::Unknown),
            waker: open.waker,
            context: None,
            reasons: Reasons::SAMPLE,
            culprits: Arc::default(),
        }
    }

    /// The run on its CPU was cut by lost events: what it did since is not known.
    pub(super) fn doubt(&mut self, discards: &mut Discards) {
        if matches!(self.phase, Phase::Running { .. }) {
            discards.runs_without_end += 1;
        }
        self.open = OpenCycle::default();
        self.phase = Phase::Unknown;
    }

    /// The totals with what is open at `now`.
    pub(super) fn totals_at(&self, now: BootNs, (losses, missed): Doubt) -> ThreadTotals {
        let mut totals = self.totals.clone();
        let trusted = self.losses == losses;
        let state = match self.phase {
            Phase::Running { .. } => SchedState::Running,
            Phase::Queued { .. } if trusted && !missed => SchedState::Waiting,
            Phase::Blocked(state) if trusted => block_time(state),
            _ => SchedState::Unknown,
        };
        totals.book(state, now.since(totals.until));
        totals.until = totals.until.max(now);
        totals
    }

    /// How long it has been waiting, where that is known and it still does.
    pub(super) fn open_wait_ns(&self, now: BootNs, (losses, missed): Doubt) -> Option<u64> {
        let waits = matches!(self.phase, Phase::Queued { .. }) && self.losses == losses && !missed;
        waits.then(|| now.since(self.totals.until))
    }
}
