//! Which processes the switch program follows, and why: those that publish their active spans, those whose every cycle
//! is wanted.

use libbpf_rs::{MapCore, MapFlags};

use super::memory::bytes_of;
use super::{Driver, context_place};
use crate::model::ProcessKey;

/// Process ids that the switch program tells apart before it looks one up (`FOLLOW_FILTER` of `bpf/sched.h`).
pub(super) const FILTER: usize = 8192;
/// `struct orders` in words: the filter, how often the places of contexts changed, how far selection is tightened.
pub(super) const ORDERS_WORDS: usize = FILTER / 8 + 2;

/// Why a process' threads are followed (`enum follow` of `bpf/sched.h`).
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Follow {
    Context = 1,
    History = 1 << 1,
}

impl Driver<'_> {
    /// Tells the switch program where the threads of a process publish their active span; false where it knows too
    /// many processes already.
    pub(in crate::receivers::sched) fn set_context_place(&self, pid: u32, mut place: context_place) -> bool {
        let known = self.skel.maps.context_places.update(&pid.to_ne_bytes(), bytes_of(&mut place), MapFlags::ANY);
        self.places_changed();
        self.follow(pid, Follow::Context);
        known.is_ok()
    }

    fn follow(&self, pid: u32, why: Follow) {
        let at = pid as usize % FILTER;
        // never taken back: a process that shares the byte costs a lookup more
        self.orders.set(at / 8, self.orders.get(at / 8) | (why as u64) << (at % 8 * 8));
    }

    /// Tells the switch program that all cycles of a process are wanted; false where it knows too many already.
    pub(in crate::receivers::sched) fn watch(&self, process: ProcessKey) -> bool {
        let start = process.start.0.to_ne_bytes();
        let known = self.skel.maps.watched.update(&process.pid.to_ne_bytes(), &start, MapFlags::ANY);
        self.follow(process.pid, Follow::History);
        known.is_ok()
    }

    /// They are wanted no longer.
    pub(in crate::receivers::sched) fn unwatch(&self, pid: u32) {
        // it may not be there: a map that was full
        let _ = self.skel.maps.watched.delete(&pid.to_ne_bytes());
    }

    /// The process publishes no longer.
    pub(in crate::receivers::sched) fn forget_context_place(&self, pid: u32) {
        // it may be gone already: the exec program forgets by itself
        let _ = self.skel.maps.context_places.delete(&pid.to_ne_bytes());
        self.places_changed();
    }

    /// What a CPU keeps of them is looked up anew.
    fn places_changed(&self) {
        let at = FILTER / 8;
        self.orders.set(at, self.orders.get(at) + 1);
    }

    /// Halves the rates of selected cycles so many times; at most 15.
    pub(in crate::receivers::sched) fn tighten(&self, steps: u32) {
        self.orders.set(FILTER / 8 + 1, u64::from(steps));
    }
}
