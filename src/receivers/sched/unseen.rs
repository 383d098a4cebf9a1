//! Pure: switches that the tasks' own counters have and no program was shown. Refuses to know: why they were not.

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// What the program had seen when the tasks' counters began to be counted.
    shown_before: u64,
    /// Booked for cgroups that are gone.
    of_gone: u64,
    told: u64,
}

impl Unseen {
    /// Counting begins; `shown`: what the program has seen so far, read before the first collection.
    pub(super) fn beginning_at(shown: u64) -> Self {
        Self { shown_before: shown, ..Self::default() }
    }

    /// A cgroup goes with so many switches; those of cgroups that are there are in `booked`.
    pub(super) fn forget(&mut self, switches: u64) {
        self.of_gone += switches;
    }

    /// Those that were not known before. `shown` is read after `booked`: what happens between both only makes the count
    /// too small, until it is quieter. `skipped`: times that the kernel skipped the program, which are told apart.
    pub(super) fn more(&mut self, booked: u64, shown: u64, skipped: u64) -> u64 {
        let shown = shown.saturating_sub(self.shown_before);
        let missing = (booked + self.of_gone).saturating_sub(shown).saturating_sub(skipped);
        let more = missing.saturating_sub(self.told);
        self.told += more;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a switch is told once, that a busy moment takes nothing back, and that cgroups which go keep theirs.
    #[test]
    fn told_once() {
        let mut unseen = Unseen::beginning_at(100);
        assert_eq!(unseen.more(0, 102, 0), 0);
        assert_eq!(unseen.more(1010, 1100, 0), 10);
        assert_eq!(unseen.more(1500, 1600, 0), 0);
        unseen.forget(500);
        assert_eq!(unseen.more(1525, 2112, 0), 3);
        assert_eq!(unseen.more(1535, 2117, 5), 0);
    }
}
