//! Pure: who had the CPU while an owner's threads waited, as counters that only grow. A culprit that got a series
//! keeps it while it goes on; the others are added up in `other` for good, so that nothing is ever taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::WallNs;

/// Who had the CPU: id and name as they are exported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CulpritName {
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
}

impl CulpritName {
    /// A culprit that is a word instead of a container.
    pub(super) fn pseudo(word: &str) -> Self {
        Self { id: word.into(), name: word.into() }
    }
}

/// Culprits that wait for the next collection; more are `other` at once.
const PENDING_MAX: usize = 10_000;
/// Collections without growth after which a culprit's series ends and makes room.
const IDLE_COLLECTIONS_MAX: u32 = 60;

/// One culprit's counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Charged {
    ns: u64,
    /// At the last points.
    sent: u64,
    /// Start of its cumulative points.
    start: WallNs,
    idle_collections: u32,
}

/// All culprits of one owner.
#[derive(Debug, Clone, Default)]
pub(super) struct Contention {
    named: BTreeMap<CulpritName, Charged>,
    pending: BTreeMap<CulpritName, u64>,
    other: Charged,
}

/// One point: who, since when, how long.
pub(super) type Point = (CulpritName, WallNs, u64);

impl Contention {
    /// Charges a culprit with its part of a wait.
    pub(super) fn charge(&mut self, culprit: CulpritName, ns: u64) {
        if let Some(known) = self.named.get_mut(&culprit) {
            known.ns += ns;
        } else if self.pending.len() < PENDING_MAX || self.pending.contains_key(&culprit) {
            *self.pending.entry(culprit).or_default() += ns;
        } else {
            self.other.ns += ns;
        }
    }

    /// What came since the last points: where the owner's series begins anew.
    pub(super) fn renewed(&self) -> Self {
        let grown = |charged: &Charged| charged.ns - charged.sent;
        let mut pending = self.pending.clone();
        for (culprit, charged) in self.named.iter().filter(|(_, charged)| grown(charged) > 0) {
            *pending.entry(culprit.clone()).or_default() += grown(charged);
        }
        Self { named: BTreeMap::new(), pending, other: Charged { ns: grown(&self.other), ..Charged::default() } }
    }

    /// The points of a collection: the `top` culprits that were there first and worst, and the rest. `start` is when
    /// the owner's series began, `before` the collection before this one.
    pub(super) fn points(&mut self, top: usize, start: WallNs, before: WallNs, delta: bool) -> Vec<Point> {
        self.named.retain(|_, charged| charged.idle_collections < IDLE_COLLECTIONS_MAX);
        let mut new: Vec<(CulpritName, u64)> = std::mem::take(&mut self.pending).into_iter().collect();
        new.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        for (culprit, ns) in new {
            if self.named.len() < top {
                self.named.insert(culprit, Charged { ns, start: before, ..Charged::default() });
            } else {
                self.other.ns += ns;
            }
        }
        self.other.start = start;
        let mut points: Vec<Point> = self
            .named
            .iter_mut()
            .map(|(culprit, charged)| (culprit.clone(), charged.point(before, delta)))
            .map(|(culprit, (start, ns))| (culprit, start, ns))
            .collect();
        if self.other.ns > 0 {
            let (start, ns) = self.other.point(before, delta);
            points.push((CulpritName::pseudo("other"), start, ns));
        }
        points
    }
}

impl Charged {
    fn point(&mut self, before: WallNs, delta: bool) -> (WallNs, u64) {
        let grown = self.ns - self.sent;
        self.idle_collections = if grown == 0 { self.idle_collections + 1 } else { 0 };
        self.sent = self.ns;
        if delta { (self.start.max(before), grown) } else { (self.start, self.ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(points: &[Point]) -> Vec<(&str, u64, u64)> {
        points.iter().map(|(who, start, ns)| (who.id.as_ref(), start.0, *ns)).collect()
    }

    /// Check that no counter falls when another culprit becomes the worst, and that nothing is lost.
    #[test]
    fn counters_only_grow() {
        let mut contention = Contention::default();
        for (who, ns) in [("a", 5), ("b", 7), ("c", 1)] {
            contention.charge(CulpritName::pseudo(who), ns);
        }
        let first = contention.points(2, WallNs(1), WallNs(1), false);
        assert_eq!(told(&first), [("a", 1, 5), ("b", 1, 7), ("other", 1, 1)]);
        contention.charge(CulpritName::pseudo("c"), 100);
        contention.charge(CulpritName::pseudo("a"), 1);
        let second = contention.points(2, WallNs(1), WallNs(10), false);
        assert_eq!(told(&second), [("a", 1, 6), ("b", 1, 7), ("other", 1, 101)]);
        let third = contention.points(2, WallNs(1), WallNs(20), true);
        assert_eq!(told(&third), [("a", 20, 0), ("b", 20, 0), ("other", 20, 0)]);
    }

    /// Check that a series that begins anew tells what the old one had not told yet, and only that.
    #[test]
    fn begins_anew() {
        let mut contention = Contention::default();
        contention.charge(CulpritName::pseudo("a"), 5);
        contention.points(1, WallNs(1), WallNs(1), false);
        contention.charge(CulpritName::pseudo("a"), 2);
        contention.charge(CulpritName::pseudo("b"), 3);
        let mut anew = contention.renewed();
        assert_eq!(told(&anew.points(2, WallNs(10), WallNs(10), false)), [("a", 10, 2), ("b", 10, 3)]);
    }

    /// Check that a culprit that is long gone makes room for one that is there.
    #[test]
    fn idle_ones_make_room() {
        let mut contention = Contention::default();
        contention.charge(CulpritName::pseudo("gone"), 5);
        for _ in 0..=IDLE_COLLECTIONS_MAX {
            contention.points(1, WallNs(1), WallNs(1), false);
        }
        contention.charge(CulpritName::pseudo("here"), 3);
        assert_eq!(told(&contention.points(1, WallNs(1), WallNs(90), false)), [("here", 90, 3)]);
    }
}
