//! Pure: what is played, and in which cgroups. Most groups are one task, so that what is compared of a cgroup is
//! compared of that task.

use super::habit::Habit;

/// One group of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// As it is told.
    pub whose: &'static str,
    /// Its cgroups, named in the stage.
    pub name: &'static str,
    /// A worker each.
    pub habits: &'static [Habit],
    /// The only CPU of them all. Numbers count the CPUs that we may use, and wrap where there are fewer.
    pub cpu: Option<usize>,
    /// Of one CPU.
    pub quota_percent: Option<u64>,
    /// How its cgroups lie, and what is done to it.
    pub kind: Kind,
}

/// How a group's cgroups lie, and what is done to it while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One, left alone.
    Plain,
    /// Tasks in it end before the reading.
    Short,
    /// A second one beside it, and whole processes move between both.
    Moved,
    /// A second one beside it, and one thread of the process moves between both.
    ThreadMoved,
    /// The quota is its parent's.
    Inside,
    /// The quota is its parent's; the second one is made while that is throttled, and the task moves there. Once:
    /// what was throttled of a wait before a move is told as waiting.
    Late,
    /// Other policies.
    Policies,
    /// SIGSTOP and SIGCONT.
    Stopped,
    /// Attached by ptrace, stopped and let go.
    Traced,
    /// The cgroup is frozen and thawed.
    Frozen,
}

impl Part {
    /// Its tasks are in one of two cgroups.
    pub(super) fn has_two(self) -> bool {
        matches!(self.kind, Kind::Moved | Kind::ThreadMoved | Kind::Late)
    }
}

const fn part(whose: &'static str, name: &'static str, habits: &'static [Habit], cpu: Option<usize>) -> Part {
    Part { whose, name, habits, cpu, quota_percent: None, kind: Kind::Plain }
}

/// The load.
pub(super) const LOAD: [Part; 20] = [
    part("two burners on one CPU", "burners", &[Habit::Burn, Habit::Burn], Some(0)),
    part("a 1 ms sleeper", "sleeper", &[Habit::Sleep], None),
    part("two threads on a pipe", "pipe", &[Habit::Pipe], Some(1)),
    part("nice 10 beside nice 0", "nice", &[Habit::Nice, Habit::Burn], Some(0)),
    part("renice and new CPUs", "restless", &[Habit::Restless], None),
    part("a SCHED_FIFO sleeper", "fifo", &[Habit::Fifo], Some(1)),
    part("SCHED_IDLE beside SCHED_BATCH", "idle", &[Habit::Idle, Habit::Batch], Some(1)),
    Part { kind: Kind::Policies, ..part("new policies", "policies", &[Habit::Burn], None) },
    part("exec and rename", "exec", &[Habit::Exec], None),
    Part { kind: Kind::Short, ..part("exec by a second thread", "exec-thread", &[Habit::ExecThread], None) },
    Part { kind: Kind::Short, ..part("short threads", "threads", &[Habit::Threads], None) },
    Part { kind: Kind::Short, ..part("a storm of short processes", "processes", &[Habit::Processes], None) },
    Part { kind: Kind::Moved, ..part("moved between cgroups", "moved", &[Habit::Team], Some(1)) },
    Part { kind: Kind::ThreadMoved, ..part("one thread moved", "thread", &[Habit::Team], Some(0)) },
    Part { kind: Kind::Stopped, ..part("SIGSTOP and SIGCONT", "stopped", &[Habit::Burn], None) },
    Part { kind: Kind::Traced, ..part("stopped by ptrace", "traced", &[Habit::Burn], None) },
    Part { kind: Kind::Frozen, ..part("a frozen cgroup", "frozen", &[Habit::Burn], None) },
    Part { quota_percent: Some(20), ..part("quota of 20 %", "quota", &[Habit::Burn], Some(1)) },
    Part {
        quota_percent: Some(30),
        kind: Kind::Inside,
        ..part("quota of 30 % on the parent", "parent", &[Habit::Burn], Some(0))
    },
    Part {
        quota_percent: Some(10),
        kind: Kind::Late,
        ..part("into a group made under a throttled parent", "late", &[Habit::Burn], Some(0))
    },
];
