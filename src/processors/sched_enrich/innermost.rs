//! Pure: whose time it is where spans of one thread lie within each other.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::told::Stretch;
use crate::model::BootNs;

/// The parts of time in which each of these spans is the innermost, in order, neighbours joined. Of several that are
/// open the one that began last is it; of those that began together, the one that ends first.
pub(super) fn own_parts(spans: &[Stretch]) -> Vec<Vec<Stretch>> {
    let mut edges: Vec<(BootNs, bool, usize)> = Vec::with_capacity(spans.len() * 2);
    for (at, span) in spans.iter().enumerate() {
        edges.extend([(span.from, true, at), (span.to, false, at)]);
    }
    edges.sort_unstable();
    let mut own: Vec<Vec<Stretch>> = vec![Vec::new(); spans.len()];
    let mut open: BTreeSet<(BootNs, Reverse<BootNs>, usize)> = BTreeSet::new();
    let mut since = BootNs(0);
    for (time, begins, at) in edges {
        let innermost = open.last().map(|(_, _, innermost)| *innermost);
        if let Some(parts) = innermost.and_then(|innermost| own.get_mut(innermost)).filter(|_| since < time) {
            match parts.last_mut().filter(|last| last.to == since) {
                Some(last) => last.to = time,
                None => parts.push(Stretch { from: since, to: time }),
            }
        }
        since = time;
        let Some(span) = spans.get(at) else { continue };
        let key = (span.from, Reverse(span.to), at);
        if begins {
            open.insert(key);
        } else {
            open.remove(&key);
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(spans: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
        let spans: Vec<Stretch> =
            spans.iter().map(|(from, to)| Stretch { from: BootNs(*from), to: BootNs(*to) }).collect();
        let parts = own_parts(&spans);
        parts.iter().map(|parts| parts.iter().map(|part| (part.from.0, part.to.0)).collect()).collect()
    }

    /// Check that every moment belongs to one span, the innermost.
    #[test]
    fn whose_time() {
        assert_eq!(own(&[(0, 100)]), [[(0, 100)]]);
        assert_eq!(
            own(&[(0, 100), (20, 30), (50, 60)]),
            [vec![(0, 20), (30, 50), (60, 100)], vec![(20, 30)], vec![(50, 60)]]
        );
        assert_eq!(
            own(&[(20, 30), (0, 100), (22, 25)]),
            [vec![(20, 22), (25, 30)], vec![(0, 20), (30, 100)], vec![(22, 25)]]
        );
        // one after the other, apart, across each other, at once
        assert_eq!(own(&[(0, 10), (10, 20), (30, 40)]), [[(0, 10)], [(10, 20)], [(30, 40)]]);
        assert_eq!(own(&[(0, 10), (5, 15)]), [[(0, 5)], [(5, 15)]]);
        assert_eq!(own(&[(0, 10), (0, 5), (0, 5)]), [vec![(5, 10)], vec![], vec![(0, 5)]]);
    }
}
