//! Quotas and pressure from the cgroups' own files, and what the host tells of itself; absent where the kernel
//! has none. Counts begin at zero when the agent begins to watch, as all others do.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use rustix::param::clock_ticks_per_second;

use crate::host::{CpuStat, Pressure, quota_v2, steal_ticks};
use crate::model::{CgroupKey, HostCounters, Limits, PressureTime, Quota};

/// Cgroups that are looked at in one collection; a file takes some ten microseconds, and the ring waits.
const CGROUPS_MAX: usize = 2000;

/// Reads the files.
pub(super) struct LimitFiles {
    mount: PathBuf,
    is_v2: bool,
    /// What the counters said when a cgroup was seen first: of those that were there before us.
    base: HashMap<CgroupKey, Limits>,
    host_base: Option<HostCounters>,
    /// The first look is over: cgroups that come now began after us.
    has_begun: bool,
    /// Quotas that were read in this collection, by path.
    read: HashMap<String, Option<Quota>>,
    looked: usize,
}

impl LimitFiles {
    /// Nothing was read yet.
    pub(super) fn new(mount: PathBuf, is_v2: bool) -> Self {
        let (base, read) = (HashMap::new(), HashMap::new());
        Self { mount, is_v2, base, host_base: None, has_begun: false, read, looked: 0 }
    }

    /// Begins a collection; gives what the host tells.
    pub(super) fn begin(&mut self) -> HostCounters {
        self.read.clear();
        self.has_begun |= self.looked > 0;
        self.looked = 0;
        let now = HostCounters {
            pressure: file("/proc/pressure/cpu").and_then(|text| pressure(&text)),
            steal_ns: file("/proc/stat")
                .and_then(|text| steal_ticks(&text))
                .map(|ticks| ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1))),
            ext: None,
        };
        let base = self.host_base.get_or_insert_with(|| now.clone());
        HostCounters {
            pressure: now.pressure.map(|now| now.since(base.pressure.unwrap_or_default())),
            steal_ns: now.steal_ns.map(|now| now.saturating_sub(base.steal_ns.unwrap_or(0))),
            ext: None,
        }
    }

    /// Reads one cgroup's.
    pub(super) fn of(&mut self, key: CgroupKey, path: &str) -> Limits {
        if self.looked >= CGROUPS_MAX || path == "/" {
            return Limits::default();
        }
        self.looked += 1;
        let mut limits = Limits { own: self.quota(path), ancestor: None, pressure: self.pressure_in(path) };
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            above = parent;
            let tighter =
                self.quota(parent).filter(|quota| limits.ancestor.is_none_or(|known| is_tighter(quota, &known)));
            limits.ancestor = tighter.or(limits.ancestor);
        }
        let has_begun = self.has_begun;
        let base = self.base.entry(key).or_insert_with(|| if has_begun { Limits::default() } else { limits });
        limits.since(base)
    }

    /// Forgets a cgroup that is gone.
    pub(super) fn forget(&mut self, key: CgroupKey) {
        self.base.remove(&key);
    }

    fn quota(&mut self, path: &str) -> Option<Quota> {
        if path.is_empty() {
            return None;
        }
        if let Some(known) = self.read.get(path) {
            return *known;
        }
        let found = self.read_quota(path);
        self.read.insert(path.to_owned(), found);
        found
    }

    fn read_quota(&self, path: &str) -> Option<Quota> {
        let (limit_us, period_us) = if self.is_v2 {
            let (limit, period) = quota_v2(&self.file(path, "cpu.max")?)?;
            (limit?, period)
        } else {
            // -1 is none
            let number = |name| self.file(path, name)?.trim().parse::<u64>().ok();
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        };
        let stat = CpuStat::parse(&self.file(path, "cpu.stat")?);
        Some(Quota { limit_us, period_us, periods: stat.periods?, exhausted: stat.throttled_periods? })
    }

    fn pressure_in(&self, path: &str) -> Option<PressureTime> {
        // v1 hierarchies have none
        if self.is_v2 { pressure(&self.file(path, "cpu.pressure")?) } else { None }
    }

    fn file(&self, path: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.mount.join(path.trim_start_matches('/')).join(name)).ok()
    }
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn pressure(text: &str) -> Option<PressureTime> {
    let read = Pressure::parse(text)?;
    Some(PressureTime { some_ns: read.some_ns, full_ns: read.full_ns })
}

/// Fewer CPUs.
fn is_tighter(one: &Quota, other: &Quota) -> bool {
    u128::from(one.limit_us) * u128::from(other.period_us) < u128::from(other.limit_us) * u128::from(one.period_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u64) -> CgroupKey {
        CgroupKey { id, serial: 0 }
    }

    /// Check that the tightest quota above is found, that counts begin at the first look, and that what came
    /// later counts whole.
    #[test]
    fn own_and_ancestors() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, name: &str, text: &str| {
            let at = folder.path().join(path);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join(name), text).unwrap();
        };
        put("pod", "cpu.max", "50000 100000\n");
        put("pod", "cpu.stat", "usage_usec 1\nnr_periods 10\nnr_throttled 4\n");
        put("pod/c", "cpu.max", "max 100000\n");
        put("pod/c", "cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\n");
        put("pod/c", "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        let mut files = LimitFiles::new(folder.path().into(), true);
        files.begin();
        let limits = files.of(key(1), "/pod/c");
        assert_eq!((limits.own, limits.pressure), (None, Some(PressureTime { some_ns: 0, full_ns: None })));
        assert_eq!(limits.ancestor, Some(Quota { limit_us: 50_000, period_us: 100_000, periods: 0, exhausted: 0 }));
        put("pod", "cpu.stat", "nr_periods 15\nnr_throttled 6\n");
        files.begin();
        assert_eq!(files.of(key(1), "/pod/c").ancestor.map(|quota| (quota.periods, quota.exhausted)), Some((5, 2)));
        assert_eq!(files.of(key(2), "/pod").own.map(|quota| (quota.periods, quota.exhausted)), Some((15, 6)));
        assert_eq!(files.of(key(3), "/gone"), Limits::default());
    }
}
