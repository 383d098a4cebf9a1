//! Pure: what stands behind an event's name: the kernel's own print format, and the short form of
//! libtraceevent's scheduler plugin (trace-cmd, perf).

use super::cursor::Cursor;
use crate::timeline::{Comm, Event, Named, SwitchOut, WakeupKind};

/// A thread as a line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who<'a> {
    /// Its name, byte for byte.
    pub comm: &'a [u8],
    /// Thread id.
    pub tid: u32,
    /// Kernel priority, where told; negative for deadline tasks.
    pub prio: Option<i32>,
}

/// A scheduler event's fields as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// sched_switch.
    Switch {
        /// Leaves.
        prev: Who<'a>,
        /// `prev_state` as printed.
        state: &'a [u8],
        /// Comes.
        next: Who<'a>,
    },
    /// sched_waking, sched_wakeup, sched_wakeup_new.
    Wakeup {
        /// Which of the three.
        kind: WakeupKind,
        /// Who becomes runnable.
        task: Who<'a>,
        /// Where.
        target_cpu: u32,
    },
    /// sched_migrate_task.
    Migrate {
        /// Who.
        task: Who<'a>,
        /// From this CPU.
        from: u32,
        /// To this one.
        to: u32,
    },
    /// sched_process_exit.
    Exit {
        /// Who.
        task: Who<'a>,
    },
    /// sched_process_fork, task_newtask (which does not name the parent).
    Fork {
        /// The parent, where named.
        parent: Option<Who<'a>>,
        /// The child.
        child: Who<'a>,
        /// A thread of the parent's process, where told.
        same_process: Option<bool>,
    },
    /// sched_process_exec.
    Exec {
        /// The id it has now.
        tid: u32,
        /// The id it had.
        old_tid: u32,
        /// What was started.
        filename: &'a [u8],
    },
    /// task_rename, PERF_RECORD_COMM.
    Rename {
        /// Who; `None`: the thread on the CPU (kernels that no longer print it).
        tid: Option<u32>,
        /// The new name.
        comm: &'a [u8],
    },
}

impl<'a> Payload<'a> {
    /// Whether an event of this name is one of ours.
    pub(super) fn is_ours(event: &[u8]) -> bool {
        matches!(
            event,
            b"sched_switch"
                | b"sched_waking"
                | b"sched_wakeup"
                | b"sched_wakeup_new"
                | b"sched_migrate_task"
                | b"sched_process_exit"
                | b"sched_process_fork"
                | b"sched_process_exec"
                | b"task_newtask"
                | b"task_rename"
                | b"PERF_RECORD_COMM"
        )
    }

    /// Reads the fields; `None` where they are not all there. `current` stands in where the short form
    /// leaves the thread's id out.
    pub(super) fn parse(event: &[u8], text: &'a [u8], current: Option<u32>) -> Option<Self> {
        let cursor = Cursor(text);
        let wakeup = |kind| wakeup(kind, cursor).or_else(|| short_wakeup(kind, cursor));
        match event {
            b"sched_switch" => switch(cursor).or_else(|| short_switch(cursor, current)),
            b"sched_waking" => wakeup(WakeupKind::Waking),
            b"sched_wakeup" => wakeup(WakeupKind::Wakeup),
            b"sched_wakeup_new" => wakeup(WakeupKind::New),
            b"sched_migrate_task" => migrate(cursor),
            b"sched_process_exit" => exit(cursor),
            b"sched_process_fork" => fork(cursor),
            b"sched_process_exec" => exec(text),
            b"task_newtask" => new_task(cursor),
            b"task_rename" => rename(cursor),
            b"PERF_RECORD_COMM" => perf_comm(text),
            _ => None,
        }
    }

    /// As an event of the timeline; `current` is the thread on the CPU, 0 where not told.
    pub fn event(&self, current: u32) -> Event {
        match *self {
            Self::Switch { prev, state, next } => {
                Event::Switch { prev: prev.named(), out: SwitchOut::from_text(state), next: next.named() }
            }
            Self::Wakeup { kind, task, target_cpu } => Event::Wakeup { task: task.named(), kind, target_cpu },
            Self::Migrate { task, to, .. } => Event::Migrate { task: task.named(), to },
            Self::Exit { task } => Event::Exit { task: task.named() },
            Self::Fork { parent, child, same_process } => {
                Event::Fork { parent: parent.map_or(current, |parent| parent.tid), child: child.named(), same_process }
            }
            Self::Exec { tid, old_tid, .. } => Event::TakeOver { from: old_tid, to: tid },
            Self::Rename { tid, comm } => {
                Event::Rename { task: Who { comm, tid: tid.unwrap_or(current), prio: None }.named() }
            }
        }
    }
}

impl Who<'_> {
    /// As the timeline names it: `<...>` is what tools print for a name they do not know.
    fn named(self) -> Named {
        Named { tid: self.tid, comm: (self.comm != b"<...>").then(|| Comm::new(self.comm)) }
    }
}

fn switch(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    cursor.tag(b"prev_comm=")?;
    let (comm, (tid, prio, state)) = cursor.name(b" prev_pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" prev_prio=")?;
        let prio = rest.i32()?;
        rest.tag(b" prev_state=")?;
        let state = rest.word();
        // raw output has no arrow
        rest.tag(b" ==> next_comm=").or_else(|| rest.tag(b" next_comm="))?;
        Some((tid, prio, state))
    })?;
    let prev = Who { comm, tid, prio: Some(prio) };
    let (comm, (tid, prio)) = cursor.name(b" next_pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" next_prio=")?;
        let prio = rest.i32()?;
        ends(rest).then_some((tid, prio))
    })?;
    Some(Payload::Switch { prev, state, next: Who { comm, tid, prio: Some(prio) } })
}

/// `bash:1234 [120] S ==> swapper/0:0 [120]`
fn short_switch(mut cursor: Cursor<'_>, current: Option<u32>) -> Option<Payload<'_>> {
    let (comm, (tid, prio, state)) = cursor.name(b":", |rest| {
        // the id of the thread that leaves may be missing: it is the one on the CPU
        let tid = match rest.u32() {
            Some(tid) => {
                rest.tag(b" ")?;
                tid
            }
            None => current?,
        };
        let prio = bracketed(rest)?;
        rest.tag(b" ")?;
        let state = rest.word();
        rest.tag(b" ==> ")?;
        Some((tid, prio, state))
    })?;
    let prev = Who { comm, tid, prio: Some(prio) };
    let (comm, (tid, prio)) = cursor.name(b":", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" ")?;
        let prio = bracketed(rest)?;
        ends(rest).then_some((tid, prio))
    })?;
    Some(Payload::Switch { prev, state, next: Who { comm, tid, prio: Some(prio) } })
}

fn wakeup(kind: WakeupKind, mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    cursor.tag(b"comm=")?;
    let (comm, (tid, prio, target_cpu)) = cursor.name(b" pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" prio=")?;
        let prio = rest.i32()?;
        if rest.tag(b" success=").is_some() {
            rest.u64()?;
        }
        rest.tag(b" target_cpu=")?;
        let target_cpu = rest.u32()?;
        ends(rest).then_some((tid, prio, target_cpu))
    })?;
    Some(Payload::Wakeup { kind, task: Who { comm, tid, prio: Some(prio) }, target_cpu })
}

/// `bash:1234 [120] success=1 CPU:002`, the middle part optional or a complaint of the plugin.
fn short_wakeup(kind: WakeupKind, mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    let (comm, (tid, prio, target_cpu)) = cursor.name(b":", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" ")?;
        let prio = bracketed(rest)?;
        let cpu = memchr::memmem::rfind(rest.0, b"CPU:")?;
        let mut cpu = Cursor(rest.0.get(cpu + 4..)?);
        let target_cpu = cpu.u32()?;
        ends(&cpu).then_some((tid, prio, target_cpu))
    })?;
    Some(Payload::Wakeup { kind, task: Who { comm, tid, prio: Some(prio) }, target_cpu })
}

fn migrate(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    cursor.tag(b"comm=")?;
    let (comm, (tid, prio, from, to)) = cursor.name(b" pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" prio=")?;
        let prio = rest.i32()?;
        rest.tag(b" orig_cpu=")?;
        let from = rest.u32()?;
        rest.tag(b" dest_cpu=")?;
        let to = rest.u32()?;
        ends(rest).then_some((tid, prio, from, to))
    })?;
    Some(Payload::Migrate { task: Who { comm, tid, prio: Some(prio) }, from, to })
}

fn exit(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    cursor.tag(b"comm=")?;
    let (comm, (tid, prio)) = cursor.name(b" pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" prio=")?;
        let prio = rest.i32()?;
        ends(rest).then_some((tid, prio))
    })?;
    Some(Payload::Exit { task: Who { comm, tid, prio: Some(prio) } })
}

fn fork(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    cursor.tag(b"comm=")?;
    let (comm, tid) = cursor.name(b" pid=", |rest| {
        let tid = rest.u32()?;
        rest.tag(b" child_comm=")?;
        Some(tid)
    })?;
    let parent = Who { comm, tid, prio: None };
    let (comm, tid) = cursor.name(b" child_pid=", |rest| {
        let tid = rest.u32()?;
        ends(rest).then_some(tid)
    })?;
    Some(Payload::Fork { parent: Some(parent), child: Who { comm, tid, prio: None }, same_process: None })
}

fn new_task(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    const CLONE_THREAD: u64 = 0x10000;
    cursor.tag(b"pid=")?;
    let tid = cursor.u32()?;
    cursor.tag(b" comm=")?;
    let (comm, flags) = cursor.name(b" clone_flags=", |rest| {
        let flags = std::str::from_utf8(rest.word()).ok()?;
        u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok()
    })?;
    let child = Who { comm, tid, prio: None };
    Some(Payload::Fork { parent: None, child, same_process: Some(flags & CLONE_THREAD != 0) })
}

/// `filename=/bin/sh pid=12 old_pid=12`, read from the right: a path holds anything.
fn exec(text: &[u8]) -> Option<Payload<'_>> {
    let rest = text.strip_prefix(b"filename=")?;
    let at = memchr::memmem::rfind(rest, b" old_pid=")?;
    let old_tid = Cursor(rest.get(at + 9..)?).u32()?;
    let rest = rest.get(..at)?;
    let at = memchr::memmem::rfind(rest, b" pid=")?;
    let tid = Cursor(rest.get(at + 5..)?).u32()?;
    Some(Payload::Exec { tid, old_tid, filename: rest.get(..at)? })
}

fn rename(mut cursor: Cursor<'_>) -> Option<Payload<'_>> {
    let mut tid = None;
    if cursor.tag(b"pid=").is_some() {
        tid = Some(cursor.u32()?);
        cursor.tag(b" ")?;
    }
    cursor.tag(b"oldcomm=")?;
    cursor.name(b" newcomm=", |_| Some(()))?;
    let (comm, _) = cursor.name(b" oom_score_adj=", |rest| rest.i32())?;
    Some(Payload::Rename { tid, comm })
}

/// `exec: NAME:PID/TID` or `NAME:PID/TID`
fn perf_comm(text: &[u8]) -> Option<Payload<'_>> {
    let text = text.strip_prefix(b"exec: ").unwrap_or(text);
    let colon = memchr::memrchr(b':', text)?;
    let (comm, ids) = text.split_at_checked(colon)?;
    let mut ids = Cursor(ids.get(1..)?);
    ids.u32()?;
    ids.tag(b"/")?;
    Some(Payload::Rename { tid: Some(ids.u32()?), comm })
}

/// `[120]`
fn bracketed(cursor: &mut Cursor<'_>) -> Option<i32> {
    cursor.tag(b"[")?;
    let prio = cursor.i32()?;
    cursor.tag(b"]")?;
    Some(prio)
}

/// A number is whole: nothing or a blank follows (vendor kernels append fields).
fn ends(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.0.first(), None | Some(b' ' | b'\t'))
}
