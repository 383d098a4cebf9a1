//! Pure: what processes or threads did, told apart from their owners' sums. An owner's own points then hold only the
//! rest: kernel threads, what lived and died between two looks, and what found no room; so that all points of an
//! owner's processes and its own add up to its whole time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::ledger::Ledger;
use super::settings::Level;
use super::sums::Sums;
use crate::model::{BootNs, Owner, ProcessKey, Resource, SchedBatch, Task, ThreadTotals, WallNs};

/// Collections that a thread may be missing from while some found no room in the ring.
const MISSING_COLLECTIONS_MAX: u64 = 6;

type ThreadKey = (u32, BootNs);

/// A series: a process, or one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MemberKey {
    pub(super) process: ProcessKey,
    thread: Option<ThreadKey>,
}

/// One series.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Its process' Resource.
    pub(super) resource: Arc<Resource>,
    /// The thread, where threads are told apart.
    pub(super) thread: Option<Arc<Task>>,
    /// Start of the cumulative points.
    pub(super) start: WallNs,
    pub(super) sums: Sums,
    /// At the last points, for delta.
    pub(super) sent: Sums,
    is_live: bool,
}

/// What was taken of a thread so far.
#[derive(Debug)]
struct Taken {
    sums: Sums,
    key: MemberKey,
    collection: u64,
    /// It found no room among the series.
    is_summed: bool,
}

/// All series of processes or threads.
#[derive(Debug)]
pub(super) struct Apart {
    level: Level,
    members_max: usize,
    threads: HashMap<ThreadKey, Taken>,
    pub(super) members: BTreeMap<MemberKey, Member>,
    /// Series that ended at this collection because the Resource or the thread's name is another one now.
    pub(super) ended: Vec<Member>,
    /// Processes or threads that found no room so far.
    pub(super) overflowed: u64,
    collection: u64,
}

impl Apart {
    pub(super) fn new(level: Level, members_max: usize) -> Self {
        Self {
            level,
            members_max,
            threads: HashMap::new(),
            members: BTreeMap::new(),
            ended: Vec::new(),
            overflowed: 0,
            collection: 0,
        }
    }

    /// Takes a collection; the owners' totals of it are in the ledger already.
    pub(super) fn collect(&mut self, batch: &SchedBatch, ledger: &mut Ledger, host: &Arc<Owner>, start: WallNs) {
        self.ended.clear();
        let Some(collection) = batch.collection.as_ref().filter(|_| self.level != Level::Container) else { return };
        self.collection += 1;
        for member in self.members.values_mut() {
            member.is_live = false;
        }
        for thread in collection.threads.iter().filter(|thread| !thread.task.kernel_thread) {
            let owner = batch.owners.get(&thread.cgroup).unwrap_or(host);
            let Some(process) = batch.processes.get(&thread.task.process) else { continue };
            let Some(grown) = self.take(thread, &process.resource, start) else { continue };
            if let Some(apart) = ledger.apart(owner, thread.cgroup) {
                apart.add(&grown);
            }
        }
        let patience = if collection.threads_untold > 0 { MISSING_COLLECTIONS_MAX } else { 0 };
        let (members, now) = (&mut self.members, self.collection);
        self.threads.retain(|_, taken| {
            let stays = now - taken.collection <= patience;
            if stays && let Some(member) = members.get_mut(&taken.key) {
                member.is_live = true;
            }
            stays
        });
    }

    /// Adds what a thread did since it was last seen to its series, and returns it; `None` where it has none.
    fn take(&mut self, thread: &ThreadTotals, resource: &Arc<Resource>, start: WallNs) -> Option<Sums> {
        let task = &thread.task;
        let id = (task.tid, task.start);
        let key = MemberKey { process: task.process, thread: (self.level == Level::Thread).then_some(id) };
        let known = self.threads.remove(&id);
        let mut sums = Sums::of_thread(thread);
        let before = known.as_ref().map(|taken| taken.sums).unwrap_or_default();
        sums.never_fall(&before);
        let is_member = self.members.contains_key(&key);
        if thread.ended && known.is_none() && !is_member {
            // a series of one point each is what a fork storm would make
            return None;
        }
        let has_room = is_member || self.members.len() < self.members_max;
        if !has_room && known.as_ref().is_none_or(|taken| !taken.is_summed) {
            self.overflowed += 1;
        }
        if !thread.ended {
            self.threads.insert(id, Taken { sums, key, collection: self.collection, is_summed: !has_room });
        }
        if !has_room {
            return None;
        }
        let grown = sums.since(&before);
        let told = (self.level == Level::Thread).then_some(task);
        let member = self.members.entry(key).or_insert_with(|| Member::new(resource, told, start));
        if !member.is_of(resource, told) {
            let mut old = std::mem::replace(member, Member::new(resource, told, start));
            // what was not told under the old name yet is told under the new one
            member.sums = old.sums.since(&old.sent);
            old.sums = old.sent;
            if !old.sent.is_zero() {
                self.ended.push(old);
            }
        }
        member.sums.add(&grown);
        Some(grown)
    }

    /// Forgets the series whose threads are all gone; their last points have been made.
    pub(super) fn sweep(&mut self) {
        self.members.retain(|_, member| member.is_live);
        self.ended.clear();
    }
}

impl Member {
    fn new(resource: &Arc<Resource>, thread: Option<&Arc<Task>>, start: WallNs) -> Self {
        Self {
            resource: Arc::clone(resource),
            thread: thread.cloned(),
            start,
            sums: Sums::default(),
            sent: Sums::default(),
            is_live: true,
        }
    }

    fn is_of(&self, resource: &Arc<Resource>, thread: Option<&Arc<Task>>) -> bool {
        let same = Arc::ptr_eq(&self.resource, resource) || self.resource == *resource;
        same && self.thread.as_ref().map(|task| &task.comm) == thread.map(|task| &task.comm)
    }
}
