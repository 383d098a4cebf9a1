//! Pure: what is kept, for how long, and what goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::clocks::Clocks;
use crate::host::NS_PER_TICK;
use crate::model::{BootNs, CgroupKey, ClockOffset, Culprit, Cycle, HostFacts, Owner, ProcessKey, WallNs};

/// Processes that are watched at a time (`WATCHED` of `bpf/sched.h`).
const WATCHED_MAX: usize = 4096;
/// A process that sends no spans for so long is no longer watched, ns.
const IDLE_NS: u64 = 300_000_000_000;
/// Cgroups whose owner is remembered; over it all are learnt anew.
const OWNERS_MAX: usize = 20_000;

/// How much is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// How long, ns.
    pub ns: u64,
    /// How much, bytes, all processes together.
    pub bytes: usize,
}

/// What the kernel side is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Show every switch of this process.
    Watch(ProcessKey),
    /// No longer.
    Forget(u32),
}

/// What is known of a process that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Every switch since then is shown.
    Since(BootNs),
    /// It will be, from soon on.
    Soon,
    /// Too many are.
    Full,
}

#[derive(Debug)]
struct Watch {
    start: BootNs,
    since: Option<BootNs>,
    asked: BootNs,
}

/// A thread of a process, by their ids; who held them before is told apart by the process' start.
type Key = (u32, u32);

/// All that is kept.
#[derive(Debug, Default)]
pub(super) struct Store {
    wanted: Option<Bounds>,
    facts: Option<Arc<HostFacts>>,
    watches: HashMap<u32, Watch>,
    changes: Vec<Change>,
    threads: HashMap<Key, VecDeque<Arc<Cycle>>>,
    /// The thread of each kept cycle, in order of arrival: the oldest go first, whoever they belong to.
    order: VecDeque<Key>,
    bytes: usize,
    until: BootNs,
    clocks: Clocks,
    owners: HashMap<CgroupKey, Option<Arc<Owner>>>,
}

/// `/proc` tells starts in ticks, the kernel side in ns.
fn same_start(one: BootNs, other: BootNs) -> bool {
    one.0.abs_diff(other.0) <= NS_PER_TICK
}

/// What a cycle takes, names of culprits and its place in the queues included.
fn bytes_of(cycle: &Cycle) -> usize {
    let named = cycle.culprits.len() + usize::from(cycle.waker.is_some());
    size_of::<Cycle>() + 48 + cycle.culprits.len() * size_of::<Culprit>() + named * 32
}

impl Store {
    pub(super) fn want(&mut self, bounds: Bounds) {
        let known = self.wanted.unwrap_or_default();
        self.wanted = Some(Bounds { ns: known.ns.max(bounds.ns), bytes: known.bytes.max(bounds.bytes) });
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    pub(super) fn open(&mut self, facts: &Arc<HostFacts>) -> bool {
        let opens = self.wanted.is_some() && self.facts.is_none();
        if opens {
            self.facts = Some(Arc::clone(facts));
        }
        opens
    }

    pub(super) fn facts(&self) -> Option<&Arc<HostFacts>> {
        self.facts.as_ref()
    }

    pub(super) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn began(&mut self, pid: u32, at: BootNs) {
        if let Some(watch) = self.watches.get_mut(&pid) {
            watch.since.get_or_insert(at);
        }
    }

    pub(super) fn ask(&mut self, process: ProcessKey) -> Asked {
        if let Some(watch) = self.watches.get_mut(&process.pid).filter(|known| same_start(known.start, process.start)) {
            watch.asked = self.until;
            return watch.since.map_or(Asked::Soon, Asked::Since);
        }
        if self.watches.len() >= WATCHED_MAX && !self.watches.contains_key(&process.pid) {
            return Asked::Full;
        }
        self.watches.insert(process.pid, Watch { start: process.start, since: None, asked: self.until });
        self.changes.push(Change::Watch(process));
        Asked::Soon
    }

    pub(super) fn deliver(&mut self, cycles: Vec<Arc<Cycle>>, until: BootNs, offset: ClockOffset) -> u64 {
        let bounds = self.wanted.unwrap_or_default();
        let oldest = until.minus(bounds.ns);
        self.until = until;
        self.clocks.learn(until, offset, oldest);
        for cycle in cycles {
            let key = (cycle.task.process.pid, cycle.task.tid);
            self.bytes += bytes_of(&cycle);
            self.threads.entry(key).or_default().push_back(cycle);
            self.order.push_back(key);
        }
        while self.oldest_end().is_some_and(|end| end < oldest) {
            self.drop_oldest();
        }
        let mut early = 0;
        while self.bytes > bounds.bytes && self.drop_oldest() {
            early += 1;
        }
        let idle = self.watches.extract_if(|_, watch| until.since(watch.asked) > IDLE_NS);
        self.changes.extend(idle.map(|(pid, _)| Change::Forget(pid)));
        early
    }

    fn oldest_end(&self) -> Option<BootNs> {
        self.threads.get(self.order.front()?)?.front().map(|cycle| cycle.end)
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(key) = self.order.pop_front() else { return false };
        let Some(thread) = self.threads.get_mut(&key) else { return true };
        if let Some(cycle) = thread.pop_front() {
            self.bytes -= bytes_of(&cycle);
        }
        if thread.is_empty() {
            self.threads.remove(&key);
        }
        true
    }

    pub(super) fn learn(&mut self, owners: impl IntoIterator<Item = (CgroupKey, Option<Arc<Owner>>)>) {
        if self.owners.len() > OWNERS_MAX {
            self.owners.clear();
        }
        self.owners.extend(owners);
    }

    pub(super) fn owner(&self, cgroup: CgroupKey) -> Option<Option<Arc<Owner>>> {
        self.owners.get(&cgroup).cloned()
    }

    pub(super) fn until(&self) -> BootNs {
        self.until
    }

    pub(super) fn boot(&self, at: WallNs) -> (BootNs, ClockOffset) {
        self.clocks.boot(at)
    }

    fn thread(&self, process: ProcessKey, tid: u32) -> Option<&VecDeque<Arc<Cycle>>> {
        self.threads.get(&(process.pid, tid))
    }

    pub(super) fn last_end(&self, process: ProcessKey, tid: u32) -> Option<BootNs> {
        let last = self.thread(process, tid)?.back()?;
        same_start(last.task.process.start, process.start).then_some(last.end)
    }

    pub(super) fn cycles(&self, process: ProcessKey, tid: u32, from: BootNs, to: BootNs) -> Vec<Arc<Cycle>> {
        let Some(thread) = self.thread(process, tid) else { return Vec::new() };
        let first = thread.partition_point(|cycle| cycle.end <= from);
        let touching = thread.range(first..).take_while(|cycle| cycle.start() < to);
        touching.filter(|cycle| same_start(cycle.task.process.start, process.start)).cloned().collect()
    }
}
