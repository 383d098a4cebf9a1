//! Pure: thins out lines that repeat: in each tick the first `initial` of one text, then every
//! `thereafter`th. Texts are told apart by hash; at most [`TEXTS_MAX`] are followed in a tick, the rest pass.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use crate::pipeline::service::LogSampling;

/// Distinct texts followed in one tick.
const TEXTS_MAX: usize = 1000;

/// What was written in the current tick.
pub(super) struct Sampling {
    settings: LogSampling,
    tick_began: Option<Instant>,
    counts: HashMap<u64, u32>,
}

impl Sampling {
    pub(super) fn new(settings: &LogSampling) -> Self {
        Self { settings: settings.clone(), tick_began: None, counts: HashMap::new() }
    }

    /// Whether this line is written.
    pub(super) fn passes(&mut self, text: &str, now: Instant) -> bool {
        if !self.settings.enabled {
            return true;
        }
        if self.tick_began.is_none_or(|began| now.duration_since(began) >= self.settings.tick.0) {
            self.tick_began = Some(now);
            self.counts.clear();
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        if self.counts.len() >= TEXTS_MAX && !self.counts.contains_key(&key) {
            return true;
        }
        let count = self.counts.entry(key).or_default();
        *count += 1;
        let LogSampling { initial, thereafter, .. } = self.settings;
        *count <= initial || (thereafter > 0 && (*count - initial).is_multiple_of(thereafter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_then_every_nth_then_a_new_tick() {
        let mut sampling = Sampling::new(&LogSampling { initial: 2, thereafter: 3, ..LogSampling::default() });
        let now = Instant::now();
        let passed: Vec<bool> = (0..8).map(|_| sampling.passes("a", now)).collect();
        assert_eq!(passed, [true, true, false, false, true, false, false, true]);
        assert!(sampling.passes("b", now));
        assert!(sampling.passes("a", now + std::time::Duration::from_secs(10)));
    }
}
