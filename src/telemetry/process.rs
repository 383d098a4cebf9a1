//! The agent's own use of the host: uptime, CPU time, resident memory.

use std::fs;
use std::time::Instant;

/// One look at this process. What cannot be read is not told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessUse {
    /// Seconds since the agent started.
    pub uptime_seconds: f64,
    /// User and system time of all threads, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
}

impl ProcessUse {
    /// Reads /proc/self.
    pub fn read(since: Instant) -> Self {
        Self {
            uptime_seconds: since.elapsed().as_secs_f64(),
            cpu_seconds: fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_seconds(&stat)),
            resident_bytes: fs::read_to_string("/proc/self/statm").ok().and_then(|statm| {
                let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
                Some(pages * rustix::param::page_size() as u64)
            }),
        }
    }
}

/// utime and stime, fields 14 and 15; the name in field 2 may hold spaces and parentheses.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().ok());
    let ticks: u64 = ticks.sum::<Option<u64>>()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 100 1 2";
        assert_eq!(cpu_seconds(stat), Some(200.0 / rustix::param::clock_ticks_per_second() as f64));
    }

    #[test]
    fn reads_this_process() {
        let now = ProcessUse::read(Instant::now());
        assert!(now.cpu_seconds.is_some());
        assert!(now.resident_bytes.is_some_and(|bytes| bytes > 100_000));
    }
}
