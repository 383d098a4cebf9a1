//! The three clocks, a run queue's, CLOCK_BOOTTIME and the wall's, and the one of our own work.

use std::collections::VecDeque;

use rustix::time::{ClockId, clock_gettime};

use crate::model::{BootNs, ClockOffset};

/// Samples that an offset is taken from: about 13 s at the kernel's pace of ten a second.
const SAMPLES: usize = 128;

/// Boot time minus run queue clock. A sample is never too small (the boot clock is read after the run queue's
/// was updated), so the smallest recent one is the nearest.
#[derive(Debug, Default)]
pub(super) struct QueueClock {
    samples: VecDeque<u64>,
    offset: u64,
}

impl QueueClock {
    /// Takes one sample.
    pub(super) fn sample(&mut self, clock: u64, boot: u64) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(boot.wrapping_sub(clock));
        self.offset = self.samples.iter().copied().min().unwrap_or(0);
    }

    /// The boot time of a run queue clock.
    pub(super) fn boot(&self, clock: u64) -> BootNs {
        BootNs(clock.wrapping_add(self.offset))
    }
}

fn read(clock: ClockId) -> i128 {
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// CLOCK_BOOTTIME now.
pub(super) fn boot_now() -> BootNs {
    BootNs(u64::try_from(read(ClockId::Boottime)).unwrap_or(0))
}

/// What this process has used of the CPUs, ns.
pub(super) fn process_cpu_ns() -> u64 {
    u64::try_from(read(ClockId::ProcessCPUTime)).unwrap_or(0)
}

/// Wall minus boot, from the closest of a few readings of both.
pub(super) fn wall_offset() -> ClockOffset {
    let reading = |_| {
        let before = read(ClockId::Boottime);
        let wall = read(ClockId::Realtime);
        let after = read(ClockId::Boottime);
        (after - before, wall - (before + after) / 2)
    };
    let best = (0..5).map(reading).min().unwrap_or_default();
    ClockOffset { wall_minus_boot_ns: i64::try_from(best.1).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a late sample does not move the offset, and that old ones are forgotten.
    #[test]
    fn smallest_recent_sample() {
        let mut clock = QueueClock::default();
        clock.sample(100, 1100);
        clock.sample(200, 1900);
        assert_eq!(clock.boot(200), BootNs(1200));
        for step in 0..SAMPLES as u64 {
            clock.sample(300 + step, 2300 + step);
        }
        assert_eq!(clock.boot(300), BootNs(2300));
    }
}
