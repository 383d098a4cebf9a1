//! How much memory the agent uses and may use, from /proc and its cgroup.

use std::fs;

/// Resident memory of this process, in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// What `limit_percentage` is a percentage of: the smallest memory limit of our cgroup and those above it,
/// else the host's memory.
pub(super) fn available_bytes() -> u64 {
    let host_bytes = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text)).unwrap_or(u64::MAX);
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_files(&cgroups)
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        .fold(host_bytes, u64::min)
}

/// The files that may hold a limit, from the text of /proc/self/cgroup; v2 and v1, each path and its parents.
fn limit_files(cgroups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mounts, file): (&[&str], _) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.extend(mounts.iter().map(|mount| format!("{mount}{path}/{file}")));
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            path = parent;
        }
    }
    files
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_every_ancestor() {
        assert_eq!(
            limit_files("5:cpu,memory:/a/b\n0::/\n"),
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/unified/memory.max",
            ]
        );
    }

    #[test]
    fn reads_this_host() {
        assert_eq!(total_bytes("MemTotal:       16 kB\n"), Some(16384));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(available_bytes() > 1 << 20);
    }
}
