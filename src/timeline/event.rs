//! Pure: what the machine is told: raw scheduler events, each with its time and CPU.

use super::comm::Comm;
use super::state::SwitchOut;
use crate::model::{BootNs, CgroupKey, ProcessKey};

/// One event as it arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// When, by the clock of the CPU that recorded it.
    pub at: BootNs,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// What happened.
    pub event: Event,
    /// Who was on that CPU, where the source says so.
    pub current: Option<Current>,
}

impl Record {
    /// An event whose source does not say who was on the CPU.
    pub fn new(at: u64, cpu: u32, event: Event) -> Self {
        Self { at: BootNs(at), cpu, event, current: None }
    }
}

/// Who was on the CPU when an event was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// Thread id; 0 for the idle task.
    pub tid: u32,
    /// Its thread group, where told.
    pub pid: Option<u32>,
    /// The CPU was in an interrupt.
    pub interrupt: bool,
}

/// A thread as an event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Thread id.
    pub tid: u32,
    /// Its name at that moment; `None` where the source does not know it.
    pub comm: Option<Comm>,
}

impl Named {
    /// With a name.
    pub fn new(tid: u32, comm: Comm) -> Self {
        Self { tid, comm: Some(comm) }
    }
}

/// The tracepoint that a wakeup comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeupKind {
    /// sched_waking: the wakeup begins, `current` is the waker.
    Waking,
    /// sched_wakeup: the thread is queued.
    Wakeup,
    /// sched_wakeup_new: a new thread is queued for the first time.
    New,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// sched_switch.
    Switch {
        /// Leaves the CPU.
        prev: Named,
        /// In which state.
        out: SwitchOut,
        /// Gets it.
        next: Named,
    },
    /// A thread becomes runnable.
    Wakeup {
        /// Which.
        task: Named,
        /// By which tracepoint.
        kind: WakeupKind,
        /// The CPU it is queued on (sched_waking: the one it last ran on).
        target_cpu: u32,
    },
    /// sched_migrate_task: a waiting thread is queued elsewhere; its wait goes on.
    Migrate {
        /// Which.
        task: Named,
        /// To where.
        to: u32,
    },
    /// sched_process_fork or task_newtask: a thread id gets a new life.
    Fork {
        /// Who made it; 0 where not told.
        parent: u32,
        /// The new thread.
        child: Named,
        /// It is a thread of its parent's process, where told.
        same_process: Option<bool>,
    },
    /// sched_process_exit: the end begins; the last run ends with the last switch.
    Exit {
        /// Which.
        task: Named,
    },
    /// task_rename, or exec where the name is known.
    Rename {
        /// Which, by its new name.
        task: Named,
    },
    /// sched_process_exec by a thread that was not the leader: it takes over the leader's id.
    TakeOver {
        /// The id it had.
        from: u32,
        /// The id it has now.
        to: u32,
    },
    /// What is known of a thread beyond the events: sent once, before its first event or when it changes.
    Identity {
        /// Which.
        tid: u32,
        /// Its process.
        process: ProcessKey,
        /// Start of the thread.
        start: BootNs,
        /// A kernel thread.
        kernel_thread: bool,
        /// Where it lives now.
        cgroup: CgroupKey,
    },
    /// Events were lost here.
    Lost {
        /// How many, 0 where not told.
        count: u64,
        /// On every CPU, or on one that is not told; else on the record's CPU.
        everywhere: bool,
    },
}
