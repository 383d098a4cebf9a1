//! Pure: a thread's cycles as intervals that neither overlap nor invert, and their sums.

use std::cmp::Reverse;

use crate::model::{BootNs, Cycle, Interval, IntervalKind};

/// An interval with the cycle it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) interval: Interval,
    pub(crate) cycle: &'a Cycle,
}

/// Sums of a thread's recorded intervals, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) run: u64,
    pub(crate) wait: u64,
    pub(crate) throttle: u64,
    pub(crate) block: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, interval: Interval) {
        let length = interval.end.since(interval.start);
        match interval.kind {
            IntervalKind::Run => self.run += length,
            IntervalKind::Wait => self.wait += length,
            IntervalKind::Throttle => self.throttle += length,
            IntervalKind::Block => self.block += length,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.run += other.run;
        self.wait += other.wait;
        self.throttle += other.throttle;
        self.block += other.block;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
    }
}

/// The intervals of cycles in order of time. The clocks of two CPUs differ by some ns: what would overlap begins
/// where the one before ended, what is left empty is dropped.
pub(crate) fn pieces<'a>(cycles: impl IntoIterator<Item = &'a Cycle>) -> Vec<Piece<'a>> {
    let mut order: Vec<&Cycle> = cycles.into_iter().collect();
    order.sort_by_key(|cycle| cycle.end);
    let mut free_from = BootNs(0);
    let mut pieces = Vec::with_capacity(order.len() * 3);
    for cycle in order {
        for mut interval in cycle.intervals() {
            interval.start = interval.start.max(free_from);
            if interval.start < interval.end {
                free_from = interval.end;
                pieces.push(Piece { interval, cycle });
            }
        }
    }
    pieces
}

/// Keeps the `room` most interesting pieces in order of time; gives how many were left out.
/// Interesting: by the order of reasons, then by length.
pub(crate) fn keep(pieces: &mut Vec<(usize, Piece<'_>)>, room: usize) -> usize {
    if pieces.len() <= room {
        return 0;
    }
    let left_out = pieces.len() - room;
    pieces.sort_by_key(|(_, piece)| {
        let length = piece.interval.end.since(piece.interval.start);
        (piece.cycle.reasons.rank(), Reverse(length))
    });
    pieces.truncate(room);
    left_out
}
