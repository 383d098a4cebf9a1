//! What holds a cgroup back from outside, by the kernel's own files: quotas and pressure.

use std::sync::Arc;

/// A quota and how often it was used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// CPU time allowed a period, us; 0: there is none any more.
    pub limit_us: u64,
    /// Length of the period, us.
    pub period_us: u64,
    /// Periods since the agent began to watch in which the cgroup wanted to run.
    pub periods: u64,
    /// Periods of these in which the quota was used up.
    pub exhausted: u64,
}

/// Pressure stall time of the CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PressureTime {
    /// Some task waited, ns.
    pub some_ns: u64,
    /// All tasks waited, ns; `None`: this kernel does not tell.
    pub full_ns: Option<u64>,
}

/// What holds one cgroup back. `None`: there is no such limit, or this kernel does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Its own quota.
    pub own: Option<Quota>,
    /// The tightest quota of those above it.
    pub ancestor: Option<Quota>,
    /// Pressure in it, the cgroups below it included.
    pub pressure: Option<PressureTime>,
}

/// A scheduler that a BPF program may bring (sched_ext), where the kernel takes any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtScheduler {
    /// It decides now; quotas and weights are for it to heed.
    pub is_active: bool,
    /// Its name, also of one that was; empty where there was none.
    pub name: Arc<str>,
}

/// What the host as a whole tells, since the agent began to watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Pressure of all tasks.
    pub pressure: Option<PressureTime>,
    /// Time that the hypervisor took from all CPUs, ns.
    pub steal_ns: Option<u64>,
    /// `None`: this kernel has no sched_ext.
    pub ext: Option<ExtScheduler>,
}

impl PressureTime {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            some_ns: self.some_ns.saturating_sub(before.some_ns),
            full_ns: self.full_ns.map(|ns| ns.saturating_sub(before.full_ns.unwrap_or(0))),
        }
    }

    fn max(self, other: Self) -> Self {
        Self { some_ns: self.some_ns.max(other.some_ns), full_ns: self.full_ns.max(other.full_ns) }
    }
}

impl Quota {
    /// What came since `before`; limit and period stay.
    pub fn since(self, before: Self) -> Self {
        let periods = self.periods.saturating_sub(before.periods);
        Self { periods, exhausted: self.exhausted.saturating_sub(before.exhausted), ..self }
    }
}

impl Limits {
    /// Adds another cgroup of the same owner. Own quotas add up; of what lies above both or includes the other
    /// the larger count has the smaller in it.
    pub fn merge(&mut self, more: &Self) {
        if let Some(more) = more.own {
            let sum = self.own.unwrap_or_default();
            let (periods, exhausted) = (sum.periods + more.periods, sum.exhausted + more.exhausted);
            self.own = Some(Quota { periods, exhausted, ..more });
        }
        if let Some(more) = more.ancestor
            && self.ancestor.is_none_or(|known| known.periods <= more.periods)
        {
            self.ancestor = Some(more);
        }
        if let Some(more) = more.pressure {
            self.pressure = Some(self.pressure.map_or(more, |known| known.max(more)));
        }
    }

    /// What came since `before`; limits stay.
    pub fn since(&self, before: &Self) -> Self {
        let quota = |now: Option<Quota>, then: Option<Quota>| now.map(|now| now.since(then.unwrap_or_default()));
        Self {
            own: quota(self.own, before.own),
            ancestor: quota(self.ancestor, before.ancestor),
            pressure: self.pressure.map(|now| now.since(before.pressure.unwrap_or_default())),
        }
    }

    /// The same without limits in force: of a cgroup that is gone.
    pub fn ended(&self) -> Self {
        let ended = |quota: Option<Quota>| quota.map(|quota| Quota { limit_us: 0, ..quota });
        Self { own: ended(self.own), ancestor: ended(self.ancestor), pressure: self.pressure }
    }
}
