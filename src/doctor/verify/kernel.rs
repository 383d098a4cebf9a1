//! The kernel's own counters: of tasks under /proc, of cgroups in their files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::{CpuStat, SchedStat, TaskSwitches, context_switches};

/// Where the kernel accounts for cgroups.
#[derive(Debug, Clone)]
pub(super) struct Accounts {
    /// The hierarchy with the cpu controller; v2's where there is only that.
    pub cpu: PathBuf,
    /// v1 accounts usage in a hierarchy that may be another one.
    pub usage: Option<PathBuf>,
}

/// What a cgroup's files say. `None`: this kernel has no such file or field.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CgroupCounters {
    pub usage_ns: Option<u64>,
    pub throttled_ns: Option<u64>,
    /// `cpu.stat.local`: ancestors' quota included.
    pub throttled_clock_ns: Option<u64>,
}

/// What /proc says of some tasks together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TaskCounters {
    pub delay_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub tasks: u64,
    /// Those of them that do not sleep.
    pub awake: u64,
}

impl Accounts {
    /// Finds the places; `cpu` is where the cpu controller's hierarchy is mounted.
    pub(super) fn find(cpu: PathBuf, is_v2: bool) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self { cpu, usage: if is_v2 { None } else { mount_with(&mounts, "cpuacct") } }
    }

    /// The folders of one cgroup, without repeats.
    pub(super) fn folders(&self, path: &str) -> Vec<PathBuf> {
        let below = path.trim_start_matches('/');
        let mut folders = vec![self.cpu.join(below)];
        folders.extend(self.usage.as_ref().filter(|usage| **usage != self.cpu).map(|usage| usage.join(below)));
        folders
    }

    /// Reads a cgroup's files.
    pub(super) fn read(&self, path: &str) -> CgroupCounters {
        let below = path.trim_start_matches('/');
        let text = |folder: &Path, file: &str| fs::read_to_string(folder.join(below).join(file)).ok();
        let stat = text(&self.cpu, "cpu.stat").map(|text| CpuStat::parse(&text)).unwrap_or_default();
        let v1_usage = self.usage.as_ref().and_then(|usage| text(usage, "cpuacct.usage"));
        let local = text(&self.cpu, "cpu.stat.local").map(|text| CpuStat::parse(&text));
        CgroupCounters {
            usage_ns: v1_usage.and_then(|text| text.trim().parse().ok()).or(stat.usage_ns),
            throttled_ns: stat.throttled_ns,
            throttled_clock_ns: local.and_then(|local| local.throttled_ns),
        }
    }

    /// Periods in which a cgroup's quota was used up.
    pub(super) fn throttled_periods(&self, path: &str) -> Option<u64> {
        let text = fs::read_to_string(self.cpu.join(path.trim_start_matches('/')).join("cpu.stat")).ok()?;
        CpuStat::parse(&text).throttled_periods
    }

    /// The tasks of a cgroup, by what /proc says of each.
    pub(super) fn tasks(&self, path: &str) -> TaskCounters {
        let folder = self.cpu.join(path.trim_start_matches('/'));
        // v2's name, v1's name; a threaded cgroup has no list of processes
        let list = ["cgroup.threads", "tasks"].iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
        let mut sum = TaskCounters::default();
        for tid in list.unwrap_or_default().lines() {
            sum.add(&Path::new("/proc").join(tid));
        }
        sum
    }
}

impl TaskCounters {
    /// Adds one task; one that has ended meanwhile adds nothing.
    fn add(&mut self, task: &Path) {
        let text = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        let status = text("status");
        let Some(switches) = TaskSwitches::parse(&status) else { return };
        self.awake += u64::from(status.lines().any(|line| line.starts_with("State:\tR")));
        self.delay_ns += SchedStat::parse(&text("schedstat")).map_or(0, |stat| stat.run_delay_ns);
        self.voluntary += switches.voluntary;
        self.involuntary += switches.involuntary;
        self.tasks += 1;
    }

    /// All of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            delay_ns: self.delay_ns + other.delay_ns,
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
            tasks: self.tasks + other.tasks,
            awake: self.awake + other.awake,
        }
    }
}

/// Context switches of all CPUs since boot.
pub(super) fn all_switches() -> Option<u64> {
    context_switches(&fs::read_to_string("/proc/stat").ok()?)
}

/// Where a v1 hierarchy with that controller is mounted.
fn mount_with(mounts: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = right.split(' ');
        let is_it = fields.next()? == "cgroup" && fields.nth(1)?.split(',').any(|name| name == controller);
        is_it.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}
