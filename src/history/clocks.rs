//! Pure: which offset between kernel time and wall time held when, so that a wall clock that was set in between does
//! not move what happened before.

use std::collections::VecDeque;

use crate::model::{BootNs, ClockOffset, WallNs};

/// Readings of one offset differ by less.
const NOISE_NS: u64 = 10_000;

/// The offsets of the last while.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// Each with the time from which on it holds, in order.
    known: VecDeque<(BootNs, ClockOffset)>,
}

impl Clocks {
    /// The offset as of now; those that ended before `oldest` are forgotten.
    pub(super) fn learn(&mut self, now: BootNs, offset: ClockOffset, oldest: BootNs) {
        let moved = |known: &ClockOffset| known.wall_minus_boot_ns.abs_diff(offset.wall_minus_boot_ns) > NOISE_NS;
        if self.known.back().is_none_or(|(_, known)| moved(known)) {
            self.known.push_back((now, offset));
        }
        while self.known.get(1).is_some_and(|(since, _)| *since < oldest) {
            self.known.pop_front();
        }
    }

    /// The kernel time of a wall time, with the newest offset that held by then.
    pub(super) fn boot(&self, at: WallNs) -> (BootNs, ClockOffset) {
        let held = self.known.iter().rev().find(|(since, offset)| offset.wall(*since) <= at);
        let (_, offset) = held.or_else(|| self.known.front()).copied().unwrap_or_default();
        (BootNs(at.0.saturating_add_signed(offset.wall_minus_boot_ns.saturating_neg())), offset)
    }
}
