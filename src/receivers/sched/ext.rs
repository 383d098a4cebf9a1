//! The scheduler that a BPF program may bring (sched_ext): its name, its comings and goings, and the quotas that it
//! does not enforce. Refuses to know: what it is good for.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::model::{BootNs, CgroupKey, CgroupTotals, ExtScheduler, SchedState};

/// Where the kernel tells.
const FOLDER: &str = "/sys/kernel/sched_ext";
/// A cgroup that ran longer than its quota allows by more than this share had none: more than a period's burst.
const OVER: f64 = 1.25;
/// Cgroups that are told of one by one; the others are as many log lines less.
const TOLD_MAX: usize = 20;

/// Looks now; `None`: this kernel takes no such scheduler.
pub(crate) fn look() -> Option<ExtScheduler> {
    let line = |file: &str| fs::read_to_string(format!("{FOLDER}/{file}")).ok().map(|text| text.trim().to_owned());
    let is_active = line("state")? == "enabled";
    Some(ExtScheduler { is_active, name: line("root/ops").unwrap_or_default().into() })
}

/// What was said of it.
#[derive(Debug, Default)]
pub(super) struct ExtWatch {
    seen: Option<ExtScheduler>,
    /// While it is active: when each cgroup with a quota was looked at last, and how long it had run, ns.
    ran: HashMap<CgroupKey, (BootNs, u64)>,
    told: HashSet<CgroupKey>,
}

impl ExtWatch {
    /// Takes what was found at a collection: says what has changed, and gives what to tell. One that is gone keeps its
    /// name.
    pub(super) fn step(&mut self, now: Option<ExtScheduler>) -> Option<ExtScheduler> {
        let mut now = now?;
        let was = self.seen.as_ref().is_some_and(|seen| seen.is_active);
        let before = self.seen.as_ref().map_or("", |seen| &seen.name);
        if now.is_active && (!was || *before != *now.name) {
            tracing::warn!(
                "sched: the sched_ext scheduler `{}` decides who runs: cgroups' weights and quotas hold only where it heeds them",
                now.name
            );
            self.ran.clear();
            self.told.clear();
        } else if !now.is_active {
            if was {
                tracing::warn!("sched: the sched_ext scheduler `{before}` is gone: the kernel's own decides again");
            }
            self.ran.clear();
            now.name = before.into();
        }
        self.seen = Some(now.clone());
        Some(now)
    }

    /// Says of a cgroup once that its quota is not enforced: since the last look it ran for longer than that allows.
    pub(super) fn judge(&mut self, key: CgroupKey, path: &str, at: BootNs, totals: &CgroupTotals) {
        let Some(ext) = self.seen.as_ref().filter(|seen| seen.is_active) else { return };
        let Some(quota) = totals.limits.own.filter(|quota| quota.limit_us > 0 && quota.period_us > 0) else { return };
        let run = totals.times.get(SchedState::Running).unwrap_or(0);
        let Some((since, before)) = self.ran.insert(key, (at, run)) else { return };
        let ran = run.saturating_sub(before) as f64;
        let allowed = at.since(since) as f64 * quota.limit_us as f64 / quota.period_us as f64;
        if ran <= allowed * OVER || self.told.len() >= TOLD_MAX || !self.told.insert(key) {
            return;
        }
        tracing::warn!(
            "sched: `{}` does not enforce the quota of {path}: it ran {:.2} s where {:.2} s are allowed",
            ext.name,
            ran / 1e9,
            allowed / 1e9
        );
    }

    /// Forgets a cgroup that is gone.
    pub(super) fn forget(&mut self, key: CgroupKey) {
        self.ran.remove(&key);
        self.told.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Limits, Quota};

    fn scheduler(is_active: bool, name: &str) -> Option<ExtScheduler> {
        Some(ExtScheduler { is_active, name: name.into() })
    }

    fn ran(seconds: u64) -> CgroupTotals {
        let mut totals = CgroupTotals::default();
        totals.times.set(SchedState::Running, seconds * 1_000_000_000);
        let quota = Quota { limit_us: 20_000, period_us: 100_000, periods: 0, exhausted: 0 };
        totals.limits = Limits { own: Some(quota), ..Limits::default() };
        totals
    }

    #[test]
    fn one_that_is_gone_keeps_its_name() {
        let mut watch = ExtWatch::default();
        assert_eq!(watch.step(None), None);
        assert_eq!(watch.step(scheduler(false, "")), scheduler(false, ""));
        assert_eq!(watch.step(scheduler(true, "lavd")), scheduler(true, "lavd"));
        assert_eq!(watch.step(scheduler(false, "")), scheduler(false, "lavd"));
    }

    /// Check that only what ran under the scheduler is judged, and that a quota that holds is left alone.
    #[test]
    fn a_quota_that_nobody_enforces() {
        let (mut watch, key) = (ExtWatch::default(), CgroupKey { id: 7, serial: 1 });
        let is_told = |watch: &mut ExtWatch, at: u64, seconds| {
            watch.judge(key, "/load", BootNs(at * 1_000_000_000), &ran(seconds));
            watch.told.contains(&key)
        };
        assert!(!is_told(&mut watch, 10, 9), "nobody else decides");
        watch.step(scheduler(true, "lavd"));
        assert!(!is_told(&mut watch, 20, 18), "it came within this time");
        assert!(!is_told(&mut watch, 30, 20), "as much as is allowed");
        assert!(is_told(&mut watch, 40, 29));
        watch.step(scheduler(true, "rusty"));
        assert!(!is_told(&mut watch, 50, 38), "another one");
    }
}
