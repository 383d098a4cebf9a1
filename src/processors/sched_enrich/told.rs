//! Pure: what a thread's cycles tell of a stretch of its time, and whether that is all of it.

use std::sync::Arc;

use super::missed::Missed;
use crate::model::{BootNs, Cycle, Interval, IntervalKind};
use crate::processors::intervals::pieces::{self, Piece, Sums};

/// Clocks of the CPUs and of the host differ by some us, and applications cut their times to a millisecond.
pub(super) const CLOCKS_NS: u64 = 1_000_000;
/// What may be missing of a stretch that is still told whole, beside a thousandth of it: clocks differ at each switch.
const SLACK_NS: u64 = 20_000;

/// A stretch of one thread's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: BootNs,
    pub(super) to: BootNs,
}

/// What is told of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) sums: Sums,
    /// No part of it is unknown.
    pub(super) complete: bool,
}

/// The part of a piece that lies in a stretch.
pub(super) fn within<'a>(piece: &Piece<'a>, stretch: Stretch) -> Option<Piece<'a>> {
    let (start, end) = (piece.interval.start.max(stretch.from), piece.interval.end.min(stretch.to));
    (start < end).then_some(Piece { interval: Interval { start, end, ..piece.interval }, ..*piece })
}

/// What the cycles that touch a stretch tell of it.
///
/// # Errors
/// They tell nothing, or that it was another thread's.
pub(super) fn told(cycles: &[Arc<Cycle>], stretch: Stretch) -> Result<Told, Missed> {
    let pieces = pieces::pieces(cycles.iter().map(AsRef::as_ref));
    let mut told = Told::default();
    let mut known = 0;
    for piece in pieces.iter().filter_map(|piece| within(piece, stretch)) {
        known += piece.interval.end.since(piece.interval.start);
        told.sums.add(piece.interval);
    }
    let ends = [stretch.from, stretch.to].map(|at| ran(&pieces, at));
    if ends.contains(&Some(false)) {
        return Err(Missed::OtherThread);
    }
    if known == 0 || ends == [None, None] {
        return Err(Missed::NotTold);
    }
    let length = stretch.to.since(stretch.from);
    told.complete = known + SLACK_NS + length / 1000 >= length;
    let inside = |cycle: &&Arc<Cycle>| cycle.end > stretch.from && cycle.end <= stretch.to;
    for cycle in cycles.iter().filter(inside) {
        let side = if cycle.run_end.involuntary() { &mut told.sums.involuntary } else { &mut told.sums.voluntary };
        *side += 1;
    }
    Ok(told)
}

/// Whether the thread was on the CPU at a time, as near as clocks allow; `None` where nothing is known of that time.
/// Who calls for the begin or the end of a span is running.
fn ran(pieces: &[Piece<'_>], at: BootNs) -> Option<bool> {
    let near = |piece: &&Piece<'_>| {
        piece.interval.start.0 <= at.0 + CLOCKS_NS && at.0 <= piece.interval.end.0.saturating_add(CLOCKS_NS)
    };
    let here = |piece: &&Piece<'_>| piece.interval.start <= at && at <= piece.interval.end;
    let runs = pieces.iter().filter(near).any(|piece| piece.interval.kind == IntervalKind::Run);
    let known = runs || pieces.iter().any(|piece| here(&piece));
    known.then_some(runs)
}
