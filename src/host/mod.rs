//! Pure: readers of the kernel's small text files: what the host's and a cgroup's own counters say.
//!
//! Unknown lines are skipped and their order does not matter: kernels add some. Refuses to know: where the
//! text comes from.

mod cgroup;
mod cpus;
mod process;

pub use cgroup::{CpuStat, Pressure, quota_v2};
pub use cpus::CpuList;
pub use process::{SchedStat, TaskSwitches, context_switches, steal_ticks};

/// What `/proc/PID/ns/pid` links to in the first pid namespace, on every kernel (PROC_PID_INIT_INO).
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// USER_HZ, the unit of times in `/proc/PID/stat`, on every architecture that we run on.
pub const NS_PER_TICK: u64 = 10_000_000;

/// The active value of `/sys/kernel/security/lockdown`, the one in brackets: `none`, `integrity`,
/// `confidentiality`.
pub fn lockdown(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (active, _) = rest.split_once(']')?;
    Some(active.trim()).filter(|active| !active.is_empty())
}

/// The number behind a key at the begin of a line, `key 12` or `key:` and a tab before it.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let number = rest.strip_prefix([' ', '\t', ':'])?;
        number.trim_start_matches([' ', '\t', ':']).split_ascii_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_what_stands_in_brackets() {
        assert_eq!(lockdown("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(lockdown("[none] integrity confidentiality\n"), Some("none"));
        assert_eq!(lockdown("none integrity"), None);
        assert_eq!(lockdown(""), None);
        assert_eq!(lockdown("[]"), None);
    }
}
