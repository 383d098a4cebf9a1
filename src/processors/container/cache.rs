//! Pure: a bounded map whose entries leave when nobody has asked for them for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::telemetry::Meter;

/// Where there is no room, this part of the entries goes at once, the longest unused first.
const EVICTED_PART: usize = 16;

/// The map. Time is an argument.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    slots: HashMap<K, Slot<V>>,
    capacity: usize,
    entries: Meter,
    evicted: Meter,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    used: Instant,
}

impl<K: Eq + Hash + Clone, V> Cache<K, V> {
    /// At most `capacity` entries; what had to go for room is counted.
    pub(super) fn new(capacity: usize, entries: Meter, evicted: Meter) -> Self {
        Self { slots: HashMap::new(), capacity: capacity.max(1), entries, evicted }
    }

    /// The value, which is used now.
    pub(super) fn get_mut(&mut self, key: &K, now: Instant) -> Option<&mut V> {
        let slot = self.slots.get_mut(key)?;
        slot.used = now;
        Some(&mut slot.value)
    }

    /// The value, without use.
    pub(super) fn peek(&self, key: &K) -> Option<&V> {
        self.slots.get(key).map(|slot| &slot.value)
    }

    /// The value, without use.
    pub(super) fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.slots.get_mut(key).map(|slot| &mut slot.value)
    }

    /// Puts a value in.
    pub(super) fn insert(&mut self, key: K, value: V, now: Instant) {
        if self.slots.len() >= self.capacity && !self.slots.contains_key(&key) {
            self.make_room();
        }
        self.slots.insert(key, Slot { value, used: now });
        self.entries.set(self.slots.len() as u64);
    }

    /// Drops what was not used for `ttl`.
    pub(super) fn sweep(&mut self, now: Instant, ttl: Duration) {
        self.slots.retain(|_, slot| now.saturating_duration_since(slot.used) <= ttl);
        self.entries.set(self.slots.len() as u64);
    }

    /// Every entry.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().map(|(key, slot)| (key, &mut slot.value))
    }

    fn make_room(&mut self) {
        let mut by_use: Vec<(Instant, K)> = self.slots.iter().map(|(key, slot)| (slot.used, key.clone())).collect();
        let part = (by_use.len() / EVICTED_PART).max(1);
        by_use.select_nth_unstable_by_key(part - 1, |(used, _)| *used);
        for (_, key) in by_use.iter().take(part) {
            self.slots.remove(key);
        }
        self.evicted.add(part as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let (entries, evicted) = (Meter::default(), Meter::default());
        let mut cache = Cache::new(3, entries.clone(), evicted.clone());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (key, second) in [("a", 0), ("b", 1), ("c", 2)] {
            cache.insert(key, second, at(second));
        }
        cache.get_mut(&"a", at(3));
        cache.insert("d", 4, at(4));
        assert!(cache.peek(&"b").is_none() && cache.peek(&"a").is_some());
        assert_eq!((entries.get(), evicted.get()), (3, 1));
        cache.sweep(at(64), Duration::from_secs(60));
        assert!(cache.peek(&"c").is_none() && cache.peek(&"d").is_some());
        assert_eq!(evicted.get(), 1);
    }
}
