//! What the reader does for the history between two drains of the ring: tells the kernel side which processes are
//! asked about, and hands their cycles over. Cycles that nobody else selected go no further.

use super::assemble::Assembled;
use super::clock;
use super::driver::Driver;
use crate::history::{Change, History};
use crate::model::{BootNs, Cycle, Reasons};

/// The reader's part; does nothing where nobody asks.
pub(super) struct Keeping(Option<History>);

/// Processes and cycles that could not be kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NotKept {
    /// Processes that the kernel side had no room for.
    pub processes: u64,
    /// Cycles that went before their time was over.
    pub cycles: u64,
}

impl Keeping {
    pub(super) fn new(history: Option<History>) -> Self {
        Self(history)
    }

    /// One step: `until` is the time before the drain, up to which all has been drained.
    pub(super) fn step(&self, driver: &Driver<'_>, assembled: &mut Assembled, until: BootNs) -> NotKept {
        let mut not_kept = NotKept::default();
        let Some(history) = &self.0 else { return not_kept };
        // applications stamp by the wall clock as it is now: one that is set must not move their spans for as long as
        // windows keep their offset
        let offset = clock::wall_offset();
        not_kept.cycles = history.deliver(take(&mut assembled.cycles), until, offset);
        for change in history.changes() {
            match change {
                Change::Watch(process) if driver.watch(process) => {
                    history.began(process.pid, clock::boot_now());
                    tracing::debug!("sched: every cycle of process {} is kept", process.pid);
                }
                Change::Watch(_) => not_kept.processes += 1,
                Change::Forget(pid) => driver.unwatch(pid),
            }
        }
        not_kept
    }
}

/// The cycles of watched processes; what nobody else selected is taken out.
fn take(cycles: &mut Vec<Cycle>) -> Vec<Cycle> {
    let mut kept = Vec::new();
    for cycle in cycles.iter_mut().filter(|cycle| cycle.reasons.has(Reasons::HISTORY)) {
        cycle.reasons = cycle.reasons.without(Reasons::HISTORY);
        kept.push(cycle.clone());
        // marks what goes no further
        if cycle.reasons == Reasons::default() {
            cycle.reasons = Reasons::HISTORY;
        }
    }
    cycles.retain(|cycle| cycle.reasons != Reasons::HISTORY);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BlockState, CgroupKey, RunEnd};

    /// Check that what is only history goes no further, and what is also selected goes both ways without that mark.
    #[test]
    fn only_history_goes_no_further() {
        let cycle = |reasons: u16| Cycle {
            task: std::sync::Arc::default(),
            cgroup: CgroupKey::default(),
            cpu: 0,
            end: BootNs(u64::from(reasons)),
            run_ns: 1,
            run_end: RunEnd::Blocked,
            wait_ns: None,
            throttled_ns: None,
            wait_before_throttle_ns: 0,
            block_ns: None,
            block_state: BlockState::Unknown,
            waker: None,
            context: None,
            reasons: Reasons(reasons),
            culprits: std::sync::Arc::default(),
        };
        let mut cycles = vec![cycle(128), cycle(4), cycle(132), cycle(64)];
        let kept = take(&mut cycles);
        let told = |cycles: &[Cycle]| cycles.iter().map(|cycle| (cycle.end.0, cycle.reasons.0)).collect::<Vec<_>>();
        assert_eq!(told(&kept), [(128, 0), (132, 4)]);
        assert_eq!(told(&cycles), [(4, 4), (132, 4), (64, 64)]);
    }
}
