//! The bounded queue between a pipeline and an exporter. Weight counts what waits and what is under way,
//! so that the bound holds for all that the exporter owns.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::pipeline::Data;

/// Where a waiting request is.
pub(super) enum Payload {
    /// Here.
    Memory(Data),
    /// In the store, under this id.
    Stored(u64),
}

/// What has to be settled when a request is done with.
pub(super) struct Ticket {
    /// Spans, points, records.
    pub(super) items: u64,
    /// In units of the queue's sizer.
    pub(super) weight: u64,
    /// The record to remove.
    pub(super) stored: Option<u64>,
    /// Who waits for the result.
    pub(super) waiter: Option<oneshot::Sender<()>>,
}

/// One waiting request.
pub(super) struct Entry {
    pub(super) payload: Payload,
    pub(super) ticket: Ticket,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    weight: u64,
    queued_items: u64,
    in_flight_items: u64,
    in_flight_requests: u64,
    closed: bool,
}

/// How much a queue holds, in items but for the weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) weight: u64,
    pub(super) queued_items: u64,
    pub(super) in_flight_items: u64,
    pub(super) in_flight_requests: u64,
}

/// Why there was no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Others have it; it may come.
    Full,
    /// It is larger than the whole queue.
    Never,
    /// The queue takes nothing more.
    Closed,
}

pub(super) struct Queue {
    state: Mutex<State>,
    pub(super) capacity: u64,
    arrived: Notify,
    freed: Notify,
}

impl Queue {
    pub(super) fn new(capacity: u64) -> Self {
        Self { state: Mutex::default(), capacity, arrived: Notify::new(), freed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn load(&self) -> Load {
        let state = self.lock();
        Load {
            weight: state.weight,
            queued_items: state.queued_items,
            in_flight_items: state.in_flight_items,
            in_flight_requests: state.in_flight_requests,
        }
    }

    /// Takes room for `weight`, to be filled by [`Self::push`] or given back by [`Self::release`].
    pub(super) fn reserve(&self, weight: u64) -> Result<(), NoRoom> {
        let mut state = self.lock();
        if state.closed {
            return Err(NoRoom::Closed);
        }
        if weight > self.capacity {
            return Err(NoRoom::Never);
        }
        if state.weight.saturating_add(weight) > self.capacity {
            return Err(NoRoom::Full);
        }
        state.weight += weight;
        Ok(())
    }

    /// As [`Self::reserve`], waiting for room that may come.
    pub(super) async fn reserve_waiting(&self, weight: u64) -> Result<(), NoRoom> {
        loop {
            let freed = self.freed.notified();
            match self.reserve(weight) {
                Err(NoRoom::Full) => freed.await,
                settled => return settled,
            }
        }
    }

    /// An export begins, or one ends.
    pub(super) fn count_requests(&self, begins: bool) {
        let mut state = self.lock();
        state.in_flight_requests =
            if begins { state.in_flight_requests + 1 } else { state.in_flight_requests.saturating_sub(1) };
    }

    /// Gives room back.
    pub(super) fn release(&self, weight: u64) {
        let mut state = self.lock();
        state.weight = state.weight.saturating_sub(weight);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Adds an entry whose room has been reserved. After the close it is still added, and counted as left.
    pub(super) fn push(&self, entry: Entry) {
        let mut state = self.lock();
        state.queued_items += entry.ticket.items;
        state.entries.push_back(entry);
        drop(state);
        self.arrived.notify_one();
    }

    /// Adds what an earlier process left, over the bound if need be.
    pub(super) fn restore(&self, entry: Entry) {
        self.lock().weight += entry.ticket.weight;
        self.push(entry);
    }

    /// The oldest entry, which is then in flight; `None` when the queue is closed and empty.
    pub(super) async fn take(&self) -> Option<Entry> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut state = self.lock();
                if let Some(entry) = state.entries.pop_front() {
                    state.queued_items -= entry.ticket.items;
                    state.in_flight_items += entry.ticket.items;
                    if !state.entries.is_empty() {
                        self.arrived.notify_one();
                    }
                    return Some(entry);
                }
                if state.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Items that go in flight without having waited (no queue).
    pub(super) fn begin(&self, items: u64) {
        self.lock().in_flight_items += items;
    }

    /// `items` have got their fate, which the caller counts.
    pub(super) fn settle(&self, items: u64) {
        let mut state = self.lock();
        state.in_flight_items = state.in_flight_items.saturating_sub(items);
    }

    /// Takes nothing more; what is in it can still be taken out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
        self.freed.notify_waiters();
    }

    /// Empties it: the items that waited or were under way.
    pub(super) fn abandon(&self) -> u64 {
        let mut state = self.lock();
        let left = state.queued_items + state.in_flight_items;
        *state = State { closed: true, ..State::default() };
        left
    }
}
