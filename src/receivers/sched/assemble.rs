//! Pure: records of the ring become cycles with their threads. Refuses to know: libbpf, clocks, who owns a cgroup.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::clock::QueueClock;
use super::wire::{
    self, CgroupRecord, ContextEntry, CycleRecord, NodeRecord, Record, TaskRecord, ThreadRecord, WhoEntry,
};
use crate::model::{
    BlockState, BootNs, CgroupKey, Context, ContextSource, Culprit, CulpritKind, Cycle, LossReason, Losses, ProcessKey,
    Reasons, RunEnd, Task, Waker,
};

/// Threads whose identity is kept; more means that exits were lost, then the oldest half goes.
const TASKS_MAX: usize = 131_072;

/// Gives the cgroup of a slot.
pub(super) type SlotNames<'a> = &'a dyn Fn(u32) -> CgroupKey;

/// Records in, cycles out.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    tasks: HashMap<u32, Arc<Task>>,
    clock: QueueClock,
    cycles: Vec<Cycle>,
    cgroup_events: Vec<CgroupRecord>,
    nodes: Vec<NodeRecord>,
    named: HashSet<CgroupKey>,
    losses: Losses,
    moved: bool,
    processes: HashSet<ProcessKey>,
    threads: Vec<FoundThread>,
}

/// What a thread did, with who it is.
#[derive(Debug)]
pub(super) struct FoundThread {
    pub(super) task: Arc<Task>,
    pub(super) cgroup: CgroupKey,
    pub(super) record: ThreadRecord,
}

/// What was assembled since the last take.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    /// The cycles, in order of arrival.
    pub cycles: Vec<Cycle>,
    /// Every cgroup they name.
    pub named: HashSet<CgroupKey>,
    /// Cgroups that came and went.
    pub cgroup_events: Vec<CgroupRecord>,
    /// Parts of paths of cgroups that were there before us.
    pub nodes: Vec<NodeRecord>,
    /// Records that could not be used.
    pub losses: Losses,
    /// A process changed its cgroup.
    pub moved: bool,
    /// Processes of threads that were named, for the first time or anew, and those that run another program.
    pub processes: HashSet<ProcessKey>,
}

impl Assembler {
    /// Takes one record.
    pub(super) fn record(&mut self, bytes: &[u8], slots: SlotNames<'_>) {
        match wire::decode(bytes) {
            Some(Record::Cycle(record)) => self.cycle(&record, slots),
            Some(Record::Task(record)) => self.task(&record, slots),
            Some(Record::Exit { tid }) => {
                self.tasks.remove(&tid);
            }
            Some(Record::Clock { clock, boot, .. }) => self.clock.sample(clock, boot),
            Some(Record::Cgroup(record)) => self.cgroup_events.push(record),
            Some(Record::Node(record)) => self.nodes.push(record),
            Some(Record::Moved) => self.moved = true,
            Some(Record::Exec { tgid, leader_start_boot }) => {
                self.processes.insert(ProcessKey { pid: tgid, start: BootNs(leader_start_boot) });
            }
            Some(Record::Thread(record)) => self.thread(record, slots),
            None => self.losses.add(LossReason::Decode, 1),
        }
    }

    /// Takes what was told of threads since the last call: at most one collection, and what moved or ended since the
    /// one before.
    pub(super) fn take_threads(&mut self) -> Vec<FoundThread> {
        std::mem::take(&mut self.threads)
    }

    /// Takes the parts of paths alone.
    pub(super) fn take_nodes(&mut self) -> Vec<NodeRecord> {
        std::mem::take(&mut self.nodes)
    }

    /// Takes what there is.
    pub(super) fn take(&mut self) -> Assembled {
        Assembled {
            cycles: std::mem::take(&mut self.cycles),
            named: std::mem::take(&mut self.named),
            cgroup_events: std::mem::take(&mut self.cgroup_events),
            nodes: std::mem::take(&mut self.nodes),
            losses: std::mem::take(&mut self.losses),
            moved: std::mem::take(&mut self.moved),
            processes: std::mem::take(&mut self.processes),
        }
    }

    fn task(&mut self, record: &TaskRecord, slots: SlotNames<'_>) {
        if self.tasks.len() >= TASKS_MAX {
            let mut starts: Vec<u64> = self.tasks.values().map(|task| task.start.0).collect();
            let middle = starts.len() / 2;
            let (_, median, _) = starts.select_nth_unstable(middle);
            let median = *median;
            self.tasks.retain(|_, task| task.start.0 > median);
        }
        let task = Task {
            tid: record.tid,
            process: ProcessKey { pid: record.tgid, start: BootNs(record.leader_start_boot) },
            start: BootNs(record.start_boot),
            comm: wire::comm_text(&record.comm).into(),
            kernel_thread: record.kernel_thread,
            cgroup: slots(record.slot),
        };
        if !task.kernel_thread {
            self.processes.insert(task.process);
        }
        self.tasks.insert(record.tid, Arc::new(task));
    }

    fn thread(&mut self, record: ThreadRecord, slots: SlotNames<'_>) {
        match self.tasks.get(&record.tid) {
            Some(task) => {
                self.threads.push(FoundThread { task: Arc::clone(task), cgroup: slots(record.slot), record });
            }
            None => self.losses.add(LossReason::Decode, 1),
        }
    }

    fn cycle(&mut self, record: &CycleRecord, slots: SlotNames<'_>) {
        let Some(task) = self.tasks.get(&record.tid).cloned() else {
            self.losses.add(LossReason::Decode, 1);
            return;
        };
        let known = |flag: u8, ns: u64| (record.flags & flag != 0).then_some(ns);
        let cgroup = slots(record.slot);
        let wait_ns = known(wire::FLAG_WAIT_KNOWN, record.wait);
        let culprits = self.culprits(record, wait_ns, slots);
        let waker = record.waker.as_ref().map(|entry| self.waker(entry, slots));
        self.named.insert(cgroup);
        self.cycles.push(Cycle {
            task,
            cgroup,
            cpu: u32::from(record.cpu),
            end: self.clock.boot(record.clock),
            run_ns: record.run,
            run_end: run_end(record.end),
            wait_ns,
            throttled_ns: known(wire::FLAG_WAIT_KNOWN, record.throttled),
            wait_before_throttle_ns: record.wait_before,
            block_ns: known(wire::FLAG_BLOCK_KNOWN, record.block),
            block_state: block_state(record.state),
            waker,
            context: record.context.as_ref().map(context),
            reasons: Reasons(u16::from(record.reasons)),
            culprits,
        });
    }

    fn waker(&mut self, entry: &WhoEntry, slots: SlotNames<'_>) -> Waker {
        let cgroup = slots(entry.slot);
        if entry.slot != 0 {
            self.named.insert(cgroup);
        }
        Waker { tid: entry.tid, comm: wire::comm_text(&entry.comm).into(), cgroup, interrupt: entry.tid == 0 }
    }

    fn culprits(&mut self, record: &CycleRecord, wait_ns: Option<u64>, slots: SlotNames<'_>) -> Arc<[Culprit]> {
        let Some(wait_ns) = wait_ns.filter(|_| !record.culprits.is_empty()) else { return Arc::default() };
        let mut culprits: Vec<Culprit> = Vec::with_capacity(record.culprits.len() + 1);
        for entry in &record.culprits {
            let comm = || wire::comm_text(&entry.comm).into();
            let kind = match (entry.tid, entry.slot) {
                (0, _) => CulpritKind::Idle,
                (tid, 0) => CulpritKind::Kernel { tid, comm: comm() },
                (tid, slot) => CulpritKind::Task { tid, comm: comm(), cgroup: slots(slot) },
            };
            if let CulpritKind::Task { cgroup, .. } = &kind {
                self.named.insert(*cgroup);
            }
            culprits.push(Culprit { kind, ns: entry.ns });
        }
        let charged: u64 = culprits.iter().map(|culprit| culprit.ns).sum();
        if wait_ns > charged {
            culprits.push(Culprit { kind: CulpritKind::Unattributed, ns: wait_ns - charged });
        }
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ns));
        culprits.into()
    }
}

fn context(entry: &ContextEntry) -> Context {
    Context {
        trace_id: entry.trace,
        span_id: entry.span,
        flags: entry.flags,
        covers_run: entry.covers_run,
        source: if entry.shared { ContextSource::TracesCtxV1 } else { ContextSource::ThreadContext },
    }
}

fn run_end(end: u8) -> RunEnd {
    match end {
        1 => RunEnd::Preempted,
        2 => RunEnd::Throttled,
        3 => RunEnd::Exited,
        _ => RunEnd::Blocked,
    }
}

fn block_state(state: u8) -> BlockState {
    match state {
        1 => BlockState::Interruptible,
        2 => BlockState::Uninterruptible,
        3 => BlockState::Stopped,
        4 => BlockState::Other,
        _ => BlockState::Unknown,
    }
}
