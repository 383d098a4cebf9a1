//! Pure: every cycle of the processes that somebody asks about, for a while. The `sched` receiver fills it, the
//! `sched_enrich` processor asks, `container` tells it who owns what.
//!
//! One for each run: a reload begins a new one, as it begins to measure anew. Those who share it copy pointers under
//! its lock and wait for nobody meanwhile, so that the reader of the kernel's ring is never held up by a pipeline.
//! Refuses to know: spans, the kernel.

mod clocks;
mod store;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::store::Store;
pub use self::store::{Asked, Bounds, Change};
use crate::model::{BootNs, CgroupKey, ClockOffset, Cycle, HostFacts, Owner, ProcessKey, WallNs};

/// The history of a run. Clones share it.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Store>>);

impl History {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody will ask, and wants this much kept; the largest wish counts.
    pub fn want(&self, bounds: Bounds) {
        self.store().want(bounds);
    }

    /// Whether somebody will ask.
    pub fn is_wanted(&self) -> bool {
        self.store().is_wanted()
    }

    /// A receiver begins to fill it; false where nobody wants that, or another one does already.
    pub fn open(&self, facts: &Arc<HostFacts>) -> bool {
        self.store().open(facts)
    }

    /// What the host's measurement can tell, once a receiver fills it.
    pub fn facts(&self) -> Option<Arc<HostFacts>> {
        self.store().facts().cloned()
    }

    /// Processes that came and went since the last call, for the receiver.
    pub fn changes(&self) -> Vec<Change> {
        self.store().changes()
    }

    /// The kernel side shows every switch of a process from here on.
    pub fn began(&self, pid: u32, at: BootNs) {
        self.store().began(pid, at);
    }

    /// Cycles of such processes, and the time up to which there are no others; how many old ones had to go for want
    /// of room before their time was over.
    pub fn deliver(&self, cycles: Vec<Cycle>, until: BootNs, offset: ClockOffset) -> u64 {
        // made outside the lock
        let cycles: Vec<Arc<Cycle>> = cycles.into_iter().map(Arc::new).collect();
        self.store().deliver(cycles, until, offset)
    }

    /// Who owns these cgroups; `None`: the host.
    pub fn learn(&self, owners: impl IntoIterator<Item = (CgroupKey, Option<Arc<Owner>>)>) {
        self.store().learn(owners);
    }

    /// Who owns a cgroup: `None` where nobody has said so, `Some(None)` where it is the host.
    pub fn owner(&self, cgroup: CgroupKey) -> Option<Option<Arc<Owner>>> {
        self.store().owner(cgroup)
    }

    /// A process sends spans: what is known of it, and that it be watched from now on.
    pub fn ask(&self, process: ProcessKey) -> Asked {
        self.store().ask(process)
    }

    /// Everything up to here has been delivered.
    pub fn until(&self) -> BootNs {
        self.store().until()
    }

    /// Kernel time of a wall time, by the offset that held then, and that offset.
    pub fn boot(&self, at: WallNs) -> (BootNs, ClockOffset) {
        self.store().boot(at)
    }

    /// When the last known cycle of a thread ended.
    pub fn last_end(&self, process: ProcessKey, tid: u32) -> Option<BootNs> {
        self.store().last_end(process, tid)
    }

    /// The cycles of a thread that touch this stretch of time, in order.
    pub fn cycles(&self, process: ProcessKey, tid: u32, from: BootNs, to: BootNs) -> Vec<Arc<Cycle>> {
        self.store().cycles(process, tid, from, to)
    }
}
