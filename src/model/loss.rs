//! What was not recorded, by reason. Loss is data: it travels on and marks what it touched as incomplete.

/// Why something was not recorded; the values of the attribute `reason` of `linux.sched.records.lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum LossReason {
    /// The ring had no room.
    RingFull,
    /// A token bucket of `select` was empty.
    RateLimited,
    /// No per-task storage could be had.
    NoStorage,
    /// No slot for a cgroup: its totals are folded into its parent's or the host's.
    MapFull,
    /// A wait, block or run whose start was not seen.
    UnknownStart,
    /// Stamps out of order.
    Clock,
    /// A record that could not be read.
    Decode,
    /// The pipeline did not take a batch in time.
    PipelineFull,
    /// `sched_enrich::history_bytes` was used up.
    HistoryFull,
    /// The kernel skipped our program to avoid recursion.
    Recursion,
    /// Switches that the tasks' own counters have and no program was shown.
    NotShown,
}

impl LossReason {
    /// All reasons, in the order of their index.
    pub const ALL: [Self; 11] = [
        Self::RingFull,
        Self::RateLimited,
        Self::NoStorage,
        Self::MapFull,
        Self::UnknownStart,
        Self::Clock,
        Self::Decode,
        Self::PipelineFull,
        Self::HistoryFull,
        Self::Recursion,
        Self::NotShown,
    ];

    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::RingFull => "ring_full",
            Self::RateLimited => "rate_limited",
            Self::NoStorage => "no_storage",
            Self::MapFull => "map_full",
            Self::UnknownStart => "unknown_start",
            Self::Clock => "clock",
            Self::Decode => "decode",
            Self::PipelineFull => "pipeline_full",
            Self::HistoryFull => "history_full",
            Self::Recursion => "recursion",
            Self::NotShown => "not_shown",
        }
    }

    /// Whether a loss of this kind leaves a hole in a trace window (a rate limit is a choice, not a hole).
    pub fn leaves_gap(self) -> bool {
        !matches!(self, Self::RateLimited | Self::HistoryFull | Self::MapFull | Self::NotShown)
    }
}

/// Counts by reason. Cumulative or of one batch, as the holder says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    counts: [u64; LossReason::ALL.len()],
}

impl Losses {
    /// Adds `count` losses of one reason.
    pub fn add(&mut self, reason: LossReason, count: u64) {
        if let Some(slot) = self.counts.get_mut(reason as usize) {
            *slot = slot.saturating_add(count);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (reason, count) in other.iter() {
            self.add(reason, count);
        }
    }

    /// The count of one reason.
    pub fn get(&self, reason: LossReason) -> u64 {
        self.counts.get(reason as usize).copied().unwrap_or(0)
    }

    /// All reasons with their counts, zero included.
    pub fn iter(&self) -> impl Iterator<Item = (LossReason, u64)> + '_ {
        LossReason::ALL.into_iter().map(|reason| (reason, self.get(reason)))
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
