//! Pure: a cgroup's own counters: `cpu.stat` of v1 and v2, pressure, quota.

use super::field;

/// `cpu.stat`. What a kernel or a version of cgroups does not tell is `None`, which is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time, ns (v2).
    pub usage_ns: Option<u64>,
    /// Periods of the quota.
    pub periods: Option<u64>,
    /// Periods in which it was used up.
    pub throttled_periods: Option<u64>,
    /// Throttled time of all run queues, ns: `throttled_usec` of v2, `throttled_time` of v1.
    pub throttled_ns: Option<u64>,
}

impl CpuStat {
    /// Reads either version.
    pub fn parse(text: &str) -> Self {
        let micros = |key| field(text, key).and_then(|value: u64| value.checked_mul(1000));
        Self {
            usage_ns: micros("usage_usec"),
            periods: field(text, "nr_periods"),
            throttled_periods: field(text, "nr_throttled"),
            throttled_ns: micros("throttled_usec").or_else(|| field(text, "throttled_time")),
        }
    }
}

/// Pressure stall information of the CPU: stall time since boot, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited.
    pub some_ns: u64,
    /// All tasks waited; absent on older kernels.
    pub full_ns: Option<u64>,
}

impl Pressure {
    /// Reads `/proc/pressure/cpu` or `cpu.pressure`.
    pub fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let total = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
            total.parse::<u64>().ok()?.checked_mul(1000)
        };
        Some(Self { some_ns: total("some ")?, full_ns: total("full ") })
    }
}

/// Quota (`None`: `max`) and period of `cpu.max`, us.
pub fn quota_v2(text: &str) -> Option<(Option<u64>, u64)> {
    let mut words = text.split_ascii_whitespace();
    let quota = match words.next()? {
        "max" => None,
        number => Some(number.parse().ok()?),
    };
    let period: u64 = words.next().unwrap_or("100000").parse().ok()?;
    (period > 0).then_some((quota, period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_give_nanoseconds() {
        let v2 = CpuStat::parse("throttled_usec 150027\nnr_throttled 4\nnew_line 1\nnr_periods 9\nusage_usec 1\n");
        assert_eq!((v2.periods, v2.throttled_periods, v2.throttled_ns), (Some(9), Some(4), Some(150_027_000)));
        let v1 = CpuStat::parse("nr_periods 12\nnr_throttled 5\nthrottled_time 204518333\n");
        assert_eq!((v1.throttled_ns, v1.usage_ns), (Some(204_518_333), None));
        assert_eq!(CpuStat::parse("usage_usec 7\n").throttled_ns, None);
    }

    #[test]
    fn pressure_may_lack_the_second_line() {
        let some = "some avg10=0.00 avg60=1.00 avg300=0.00 total=42\n";
        assert_eq!(Pressure::parse(some), Some(Pressure { some_ns: 42_000, full_ns: None }));
        let both = format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        assert_eq!(Pressure::parse(&both).and_then(|pressure| pressure.full_ns), Some(7_000));
        assert_eq!(Pressure::parse(""), None);
    }

    #[test]
    fn no_quota_is_max() {
        assert_eq!(quota_v2("max 100000\n"), Some((None, 100_000)));
        assert_eq!(quota_v2("20000 100000\n"), Some((Some(20_000), 100_000)));
        assert_eq!(quota_v2("20000 0\n"), None);
        assert_eq!(quota_v2(""), None);
    }
}
