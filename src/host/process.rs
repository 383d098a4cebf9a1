//! Pure: a task's and the host's counters under `/proc`.

use super::field;

/// `/proc/PID/schedstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, ns.
    pub run_ns: u64,
    /// Time runnable without one, throttled time included, ns.
    pub run_delay_ns: u64,
    /// How often it got one.
    pub slices: u64,
}

impl SchedStat {
    /// Reads the three numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { run_ns: next()?, run_delay_ns: next()?, slices: next()? })
    }
}

/// Context switches of a task, of `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSwitches {
    /// It went to sleep by itself.
    pub voluntary: u64,
    /// Somebody else got the CPU.
    pub involuntary: u64,
}

impl TaskSwitches {
    /// Reads both. The thread's name stands on the first line and cannot pose as them: the kernel escapes
    /// its newlines.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            voluntary: field(text, "voluntary_ctxt_switches")?,
            involuntary: field(text, "nonvoluntary_ctxt_switches")?,
        })
    }
}

/// `ctxt` of `/proc/stat`: context switches of all CPUs since boot.
pub fn context_switches(text: &str) -> Option<u64> {
    field(text, "ctxt")
}

/// Time that the hypervisor took from all CPUs since boot, in clock ticks: the eighth number of `/proc/stat`.
pub fn steal_ticks(text: &str) -> Option<u64> {
    text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_this_kernel_prints() {
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        assert!(context_switches(&read("/proc/stat")).is_some_and(|count| count > 0));
        assert!(TaskSwitches::parse(&read("/proc/self/status")).is_some());
        assert_eq!(steal_ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"), Some(8));
        assert_eq!(steal_ticks("cpu  1 2 3 4\n"), None);
        assert_eq!(context_switches("cpu 1 2\nctxtx 4\nctxt 99\n"), Some(99));
        let stat = SchedStat { run_ns: 12, run_delay_ns: 34, slices: 5 };
        assert_eq!(SchedStat::parse("12 34 5\n"), Some(stat));
        assert_eq!(SchedStat::parse("12 34\n"), None);
    }
}
