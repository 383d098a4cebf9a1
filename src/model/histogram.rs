//! Duration histograms with the bounds that are exported, so that conversion never invents.

/// Upper, inclusive bounds in ns of the exported buckets (otel.md 2.2: 1 us to 1 s); one more bucket holds the rest.
pub const BOUNDS_NS: [u64; 13] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
];

/// Number of buckets, the overflow bucket included.
pub const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// The bucket of a value; one more than there are bounds.
pub fn bucket_of(ns: u64) -> usize {
    BOUNDS_NS.partition_point(|bound| *bound < ns)
}

/// Counts per bucket and the sum of what was counted. Cumulative since the agent began to watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Count per bucket; a bucket holds values over the bound before its own, up to its own.
    pub buckets: [u64; BUCKETS],
    /// Sum of the values, ns.
    pub sum_ns: u64,
}

impl Histogram {
    /// Counts one value.
    pub fn record(&mut self, ns: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}
