//! Pure: one number of ours beside the kernel's, and how far apart they may be.

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Both sides were measured.
    Compared {
        /// Ours.
        ours: f64,
        /// The kernel's.
        kernel: f64,
        /// How far apart they may be, in the same unit.
        bound: f64,
    },
    /// One side is not there, and why: no number is invented for it.
    NotCompared(String),
    /// The comparison itself broke.
    Failed(String),
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Whose number.
    pub whose: String,
    /// Which number, and where the kernel says it.
    pub what: &'static str,
    /// Its unit: `s`, `switches`.
    pub unit: &'static str,
    /// What it came to.
    pub outcome: Outcome,
}

/// How far apart two numbers may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Share of the kernel's number.
    pub share: f64,
    /// In the numbers' unit; the larger of both counts.
    pub floor: f64,
}

/// The bounds of the oracle table.
pub(super) const RUNNING: Bound = Bound { share: 0.01, floor: 0.002 };
pub(super) const BUSY: Bound = Bound { share: 0.01, floor: 0.03 };
/// A process that was reaped but has yet to leave its CPU for good is booked when it does.
pub(super) const RUNNING_OF_SHORT: Bound = Bound { share: 0.01, floor: 0.03 };
/// At a move the kernel charges up to a tick to the cgroup that is moved to, and the move itself takes a moment.
pub(super) const RUNNING_OF_MOVED: Bound = Bound { share: 0.01, floor: 0.05 };
pub(super) const WAITING: Bound = Bound { share: 0.01, floor: 0.002 };
/// The group may run out of quota as its last task falls asleep: until the period ends the kernel counts a stay
/// that keeps nobody waiting.
pub(super) const THROTTLED: Bound = Bound { share: 0.05, floor: 0.1 };
pub(super) const THROTTLED_CLOCK: Bound = Bound { share: 0.01, floor: 0.1 };
/// What was throttled of the wait in which a task is moved is told as waiting.
pub(super) const THROTTLED_OF_MOVED: Bound = Bound { share: 0.05, floor: 0.3 };
/// Beyond what lies between the earliest and the latest that a stop can have begun and ended; a tick or two of an
/// emulated CPU that the tracer waits for are in it.
pub(super) const STOPPED: Bound = Bound { share: 0.01, floor: 0.04 };
pub(super) const LIFETIME: Bound = Bound { share: 0.001, floor: 0.001 };
pub(super) const TASK_SWITCHES: Bound = Bound { share: 0.0, floor: 0.0 };
/// Beside what the host did while all was read: a switch in each CPU, and what a hypervisor hides of its own task.
pub(super) const ALL_SWITCHES: Bound = Bound { share: 0.001, floor: 40.0 };

/// How much later a tracepoint may tell a switch, on an emulated CPU.
const STAMP_LATE_S: f64 = 50e-6;
/// And what all of a load's switches may come to, of the time that passed.
const STAMPS_LATE_MOST: f64 = 0.1;

impl Bound {
    /// From single events: our stamps are those of the tracepoint, which come later than the run queue's clock, most of
    /// all on a CPU that was idle or that its host had taken away; and the ring may have had no room. So many switches
    /// in so many seconds.
    pub(super) fn of_events(self, switches: f64, seconds: f64) -> Self {
        let late = (switches * STAMP_LATE_S).min(seconds * STAMPS_LATE_MOST);
        Self { share: self.share.max(0.05), floor: self.floor.max(0.05) + late }
    }

    /// Switches from single events: some come to no tracepoint on virtual machines.
    pub(super) fn of_events_switches(self) -> Self {
        Self { share: self.share.max(0.01), floor: self.floor.max(2.0) }
    }
}

impl Row {
    /// Both sides were measured.
    pub(super) fn compared(
        whose: &str,
        what: &'static str,
        unit: &'static str,
        pair: (f64, f64),
        bound: Bound,
    ) -> Self {
        let (ours, kernel) = pair;
        let bound = (kernel.abs() * bound.share).max(bound.floor);
        Self { whose: whose.to_owned(), what, unit, outcome: Outcome::Compared { ours, kernel, bound } }
    }

    /// One side is not there.
    pub(in crate::doctor) fn not_compared(whose: &str, what: &'static str, why: impl Into<String>) -> Self {
        Self { whose: whose.to_owned(), what, unit: "", outcome: Outcome::NotCompared(why.into()) }
    }

    /// The comparison could not be made.
    pub(in crate::doctor) fn failed(why: String) -> Self {
        Self { whose: "verify".to_owned(), what: "", unit: "", outcome: Outcome::Failed(why) }
    }

    /// Not off by more than its bound.
    pub fn is_within(&self) -> bool {
        match &self.outcome {
            Outcome::Compared { ours, kernel, bound } => (ours - kernel).abs() <= *bound,
            Outcome::NotCompared(_) => true,
            Outcome::Failed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_bound_counts_and_a_lack_is_no_deviation() {
        let row = |ours, kernel| Row::compared("x", "running", "s", (ours, kernel), RUNNING);
        assert!(row(1.009, 1.0).is_within() && !row(1.011, 1.0).is_within());
        assert!(row(0.0015, 0.0).is_within() && !row(0.003, 0.0).is_within());
        assert!(!Row::compared("x", "voluntary", "switches", (7.0, 8.0), TASK_SWITCHES).is_within());
        assert!(Row::not_compared("x", "throttled", "no quota").is_within());
        assert!(!Row::failed("broken".into()).is_within());
    }
}
