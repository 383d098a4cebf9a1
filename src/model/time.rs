//! Kernel time, wall time, and the one offset between them.

/// Nanoseconds on CLOCK_BOOTTIME: goes on in suspend, never steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootNs(pub u64);

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallNs(pub u64);

/// Wall time minus boot time, measured at one moment. One offset is kept for a whole trace window, so
/// that a stepped wall clock cannot invert an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// CLOCK_REALTIME - CLOCK_BOOTTIME, in ns.
    pub wall_minus_boot_ns: i64,
}

impl BootNs {
    /// Nanoseconds from `earlier` to `self`, 0 where the order is the other way.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment minus `ns`, not before the boot.
    pub fn minus(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

impl ClockOffset {
    /// The wall time of a boot time.
    pub fn wall(self, at: BootNs) -> WallNs {
        WallNs(at.0.saturating_add_signed(self.wall_minus_boot_ns))
    }
}
