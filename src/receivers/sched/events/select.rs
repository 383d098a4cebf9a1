//! Pure: which cycles become spans, as the BPF program decides it: thresholds, a sample, and two rates.

use std::collections::HashMap;

use super::super::settings::Selection;
use crate::model::{CgroupKey, Cycle, Reasons};

/// One second: a bucket's burst.
const BURST_NS: u64 = 1_000_000_000;
/// Cgroups whose rate is kept; more begin anew.
const CGROUPS_MAX: usize = 65_536;

/// The decision for one cycle after the other.
pub(super) struct Selector {
    selection: Selection,
    /// Theoretical arrival of the next cycle, ns.
    total: u64,
    cgroups: HashMap<CgroupKey, u64>,
    random: u64,
}

/// Takes one token of a bucket that is refilled at `rate` a second; 0 = no limit.
fn take(bucket: &mut u64, rate: u32, now: u64) -> bool {
    if rate == 0 {
        return true;
    }
    let next = (*bucket).max(now.saturating_sub(BURST_NS)) + 1_000_000_000 / u64::from(rate);
    let is_free = next <= now;
    if is_free {
        *bucket = next;
    }
    is_free
}

impl Selector {
    pub(super) fn new(selection: Selection) -> Self {
        Self { selection, total: 0, cgroups: HashMap::new(), random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Keeps what is selected, with its reasons; gives how many a rate left out.
    pub(super) fn keep(&mut self, cycles: &mut Vec<Cycle>) -> u64 {
        let mut limited = 0;
        cycles.retain_mut(|cycle| {
            cycle.reasons = self.reasons(cycle);
            if cycle.reasons == Reasons::default() {
                return false;
            }
            let is_free = self.is_free(cycle);
            limited += u64::from(!is_free);
            is_free
        });
        limited
    }

    fn reasons(&mut self, cycle: &Cycle) -> Reasons {
        let over = |ns: Option<u64>, threshold| ns.is_some_and(|ns| ns > 0 && ns >= threshold);
        let of = [
            (over(cycle.wait_ns, self.selection.wait_ns), Reasons::WAIT),
            (over(cycle.block_ns, self.selection.block_ns), Reasons::BLOCK),
            (over(Some(cycle.run_ns), self.selection.run_ns), Reasons::RUN),
            (self.sampled(), Reasons::SAMPLE),
        ];
        Reasons(of.into_iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, reason)| all | reason.0))
    }

    /// A xorshift step: cheap, and the same cycles in the same order are the same sample.
    fn sampled(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64) < self.selection.sample_ratio * (1u64 << 53) as f64
    }

    fn is_free(&mut self, cycle: &Cycle) -> bool {
        if self.cgroups.len() >= CGROUPS_MAX {
            self.cgroups.clear();
        }
        let bucket = self.cgroups.entry(cycle.cgroup).or_default();
        take(bucket, self.selection.rate_per_cgroup, cycle.end.0)
            && take(&mut self.total, self.selection.rate_total, cycle.end.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = 0;
        let now = 100_000_000_000;
        assert_eq!((0..100).filter(|_| take(&mut bucket, 50, now)).count(), 50);
        assert_eq!((0..100).filter(|_| take(&mut bucket, 50, now + 100_000_000)).count(), 5);
        assert!(take(&mut bucket, 0, now));
    }
}
