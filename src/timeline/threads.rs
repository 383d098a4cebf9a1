//! Pure: the threads of which something is known, bounded.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::Named;
use super::machine::Observer;
use super::thread::{Phase, Thread};
use super::totals::Discards;
use crate::model::{BootNs, ProcessKey, Task};

/// Bounds of the machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads alive at a time; the ones not seen for longest are forgotten, which is counted.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { threads: 262_144 }
    }
}

/// Living threads by id. The idle tasks, which share one id, are none.
#[derive(Debug, Default)]
pub(super) struct Threads {
    limits: Limits,
    by_tid: HashMap<u32, Thread>,
}

impl Threads {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, by_tid: HashMap::new() }
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Thread> {
        self.by_tid.get(&tid)
    }

    pub(super) fn get_mut(&mut self, tid: u32) -> Option<&mut Thread> {
        self.by_tid.get_mut(&tid)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.by_tid.values()
    }

    /// The thread that an event names, made where it is new, under the name it has there.
    pub(super) fn named(
        &mut self,
        named: Named,
        at: BootNs,
        discards: &mut Discards,
        out: &mut impl Observer,
    ) -> Option<&mut Thread> {
        if named.tid == 0 {
            return None;
        }
        if self.by_tid.len() >= self.limits.threads && !self.by_tid.contains_key(&named.tid) {
            self.forget_half(discards, out);
        }
        let thread = self.by_tid.entry(named.tid).or_insert_with(|| {
            let comm = named.comm.unwrap_or_default();
            let task = Task { tid: named.tid, comm: comm.text(), ..Task::default() };
            Thread::new(Arc::new(task), comm, at)
        });
        if let Some(comm) = named.comm {
            thread.rename(comm);
        }
        Some(thread)
    }

    /// A life is over.
    pub(super) fn end(&mut self, tid: u32, out: &mut impl Observer) {
        if let Some(mut thread) = self.by_tid.remove(&tid) {
            thread.totals.ended = true;
            out.life_ended(thread.totals);
        }
    }

    /// Whether a CPU that ran `running` shows `seen` because one of both took the other's id: in an exec by a thread that
    /// is not its process's leader, after the leader has ended. The exec itself is told later, and not by every source.
    pub(super) fn took_over(&self, running: u32, seen: u32) -> bool {
        let is_over = |tid: u32| self.get(tid).is_none_or(|thread| thread.exiting);
        // where nothing is known of a leader, it has been seen before: it forked, or its process's start is told
        let is_of = |tid: u32, leader: u32| {
            self.get(tid).is_some_and(|thread| match thread.task.process {
                ProcessKey { pid, start: BootNs(0) } => thread.forked_by == leader && pid != tid,
                ProcessKey { pid, .. } => pid == leader && pid != tid,
            })
        };
        (is_over(seen) && is_of(running, seen)) || (is_over(running) && is_of(seen, running))
    }

    /// Two threads go on under each other's ids.
    pub(super) fn exchange(&mut self, one: u32, other: u32) {
        let (first, second) = (self.by_tid.remove(&one), self.by_tid.remove(&other));
        for (thread, tid) in [(first, other), (second, one)] {
            if let Some(mut thread) = thread {
                thread.retask(|task| task.tid = tid);
                self.by_tid.insert(tid, thread);
            }
        }
    }

    /// Forgets the half of the threads that was not seen for longest and is on no CPU.
    fn forget_half(&mut self, discards: &mut Discards, out: &mut impl Observer) {
        let mut ages: Vec<(BootNs, u32)> = self
            .by_tid
            .iter()
            .filter(|(_, thread)| !matches!(thread.phase, Phase::Running { .. }))
            .map(|(tid, thread)| (thread.totals.until, *tid))
            .collect();
        ages.sort_unstable();
        ages.truncate((ages.len() / 2).max(1));
        for (_, tid) in ages {
            if let Some(thread) = self.by_tid.remove(&tid) {
                discards.threads_forgotten += 1;
                out.life_ended(thread.totals);
            }
        }
    }
}
