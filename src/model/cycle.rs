//! One scheduling cycle of one thread: it was blocked, it waited, it ran. Closed at switch-out.

use std::sync::Arc;

use super::task::{CgroupKey, Task};
use super::time::BootNs;

/// How a run slice ended; the values of `linux.sched.run.end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// Went to sleep by itself.
    Blocked,
    /// Another task took the CPU.
    Preempted,
    /// Its cgroup's quota was used up.
    Throttled,
    /// sched_yield.
    Yielded,
    /// Its life ended.
    Exited,
}

impl RunEnd {
    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Preempted => "preempted",
            Self::Throttled => "throttled",
            Self::Yielded => "yielded",
            Self::Exited => "exited",
        }
    }

    /// Counted as an involuntary switch by the kernel (`nivcsw`): preempted, throttled or yielded.
    pub fn involuntary(self) -> bool {
        matches!(self, Self::Preempted | Self::Throttled | Self::Yielded)
    }
}

/// In which state a blocked thread was; the values of `linux.sched.state` on `sched.block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// S.
    Interruptible,
    /// D.
    Uninterruptible,
    /// T and t.
    Stopped,
    /// P, I.
    Other,
    /// Not told.
    Unknown,
}

impl BlockState {
    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interruptible => "interruptible",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a cycle was selected; a set of bits, the kernel's own (`bpf/sched.h`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(pub u16);

impl Reasons {
    /// `select.throttle`.
    pub const THROTTLE: Self = Self(1);
    /// `select.foreign_preemption`.
    pub const FOREIGN_PREEMPTION: Self = Self(1 << 1);
    /// `select.wait`.
    pub const WAIT: Self = Self(1 << 2);
    /// `select.sampled_context`.
    pub const CONTEXT: Self = Self(1 << 3);
    /// `select.block`.
    pub const BLOCK: Self = Self(1 << 4);
    /// `select.run`.
    pub const RUN: Self = Self(1 << 5);
    /// `select.sample_ratio`.
    pub const SAMPLE: Self = Self(1 << 6);
    /// Its process is watched: wanted by the history alone, whatever else is selected.
    pub const HISTORY: Self = Self(1 << 7);

    /// Whether every bit of `other` is set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Rank of the strongest reason, 0 the most interesting (the order of the constants above); 7 for none.
    pub fn rank(self) -> u8 {
        self.0.trailing_zeros().min(7) as u8
    }
}

/// Who had the CPU while a thread waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// What sort it is; names follow from it.
    pub kind: CulpritKind,
    /// Nanoseconds of the wait that it had the CPU.
    pub ns: u64,
}

/// The sorts of culprit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CulpritKind {
    /// A user-space thread.
    Task {
        /// Its thread id.
        tid: u32,
        /// Its name.
        comm: Arc<str>,
        /// Its cgroup.
        cgroup: CgroupKey,
    },
    /// A kernel thread.
    Kernel {
        /// Its thread id.
        tid: u32,
        /// Its name.
        comm: Arc<str>,
    },
    /// Nobody: the CPU was idle and the thread's wakeup was still under way.
    Idle,
    /// A task outside the part of the host that may be named.
    Other,
    /// Interrupt time, where it can be told.
    Irq,
    /// The log no longer holds it, or another CPU held it before a migration.
    Unattributed,
}

/// Who ended a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waker {
    /// Thread id of the waker; 0 in an interrupt over the idle task.
    pub tid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// Its cgroup.
    pub cgroup: CgroupKey,
    /// The wakeup came from an interrupt, where that can be told.
    pub interrupt: bool,
}

/// The application span that was active on a thread, as the thread published it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Its trace, W3C byte order.
    pub trace_id: [u8; 16],
    /// Itself, W3C byte order.
    pub span_id: [u8; 8],
    /// W3C trace flags.
    pub flags: u8,
    /// It was the same at both ends of the run slice; else it holds for the block and the wait only.
    pub covers_run: bool,
    /// How it was found.
    pub source: ContextSource,
}

impl Context {
    /// Its trace is recorded.
    pub fn sampled(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// The ways by which a thread's active span is found; the values of `linux.sched.context.source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextSource {
    /// The thread's own record (OTEP 4947), read at switch-out.
    ThreadContext,
    /// What other eBPF instrumentation says of the thread in the map `traces_ctx_v1`.
    TracesCtxV1,
    /// The span itself, which names its thread.
    Otlp,
}

impl ContextSource {
    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThreadContext => "thread_context",
            Self::TracesCtxV1 => "traces_ctx_v1",
            Self::Otlp => "otlp",
        }
    }
}

/// One cycle. The parts touch: block ends where the wait begins, the wait ends where the run begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Cycle {
    /// The thread.
    pub task: Arc<Task>,
    /// Where the thread lived at switch-out (its `task.cgroup` may be an older one).
    pub cgroup: CgroupKey,
    /// The CPU that ran it.
    pub cpu: u32,
    /// Switch-out.
    pub end: BootNs,
    /// Length of the run slice, ns.
    pub run_ns: u64,
    /// How it ended.
    pub run_end: RunEnd,
    /// Runnable before the run, throttled time left out, ns. `None`: its start was not seen.
    pub wait_ns: Option<u64>,
    /// Throttled before the run, ns. `None` where it is not measured (then the wait includes it).
    pub throttled_ns: Option<u64>,
    /// How much of the wait came before the throttled part, ns.
    pub wait_before_throttle_ns: u64,
    /// Blocked before that, ns; 0 where the thread was not blocked. `None`: not measured.
    pub block_ns: Option<u64>,
    /// In which state it was blocked.
    pub block_state: BlockState,
    /// Who woke it.
    pub waker: Option<Waker>,
    /// The application span that was active over its block and wait.
    pub context: Option<Context>,
    /// Why the cycle was selected.
    pub reasons: Reasons,
    /// Who had the CPU during the wait, the worst first; empty where it was not asked for.
    pub culprits: Arc<[Culprit]>,
}

/// The kinds of interval a cycle is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntervalKind {
    /// `sched.block`.
    Block,
    /// `sched.wait`.
    Wait,
    /// `sched.throttle`.
    Throttle,
    /// `sched.run`.
    Run,
}

/// One stay of a thread in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Which state.
    pub kind: IntervalKind,
    /// Its begin.
    pub start: BootNs,
    /// Its end, never before its begin.
    pub end: BootNs,
}

impl Cycle {
    /// When the run began.
    pub fn run_start(&self) -> BootNs {
        self.end.minus(self.run_ns)
    }

    /// When the first known part of the cycle began.
    pub fn start(&self) -> BootNs {
        let parts = [self.wait_ns, self.throttled_ns, self.block_ns];
        let off_cpu = parts.into_iter().flatten().fold(0, u64::saturating_add);
        self.run_start().minus(off_cpu)
    }

    /// The cycle's intervals in order of time, empty ones left out.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let before = self.wait_before_throttle_ns.min(self.wait_ns.unwrap_or(0));
        let parts = [
            (IntervalKind::Block, self.block_ns.unwrap_or(0)),
            (IntervalKind::Wait, before),
            (IntervalKind::Throttle, self.throttled_ns.unwrap_or(0)),
            (IntervalKind::Wait, self.wait_ns.unwrap_or(0) - before),
            (IntervalKind::Run, self.run_ns),
        ];
        let mut at = self.start();
        parts.into_iter().filter(|(_, ns)| *ns > 0).map(move |(kind, ns)| {
            let start = at;
            at = BootNs(at.0.saturating_add(ns));
            Interval { kind, start, end: at }
        })
    }
}
