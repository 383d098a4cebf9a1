//! The events of the programs on classic tracepoints, in the order of their time.

use std::cell::RefCell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::clock;
use super::super::driver::{DriverError, EventPrograms, EventRing};
use super::raw::Layout;
use super::source::Taker;
use super::text::mounted;
use crate::model::BootNs;
use crate::record::Chunk;
use crate::timeline::Record;

/// Events that are taken from the ring at once.
const PORTION_EVENTS: usize = 32_768;
/// More than so many in a portion, and the next is taken without a pause.
const BUSY_EVENTS: usize = 4_096;
const PAUSE: Duration = Duration::from_millis(50);
/// How long an event may take from its place in the ring to its time.
const HELD_BACK_NS: u64 = 2_000_000;

/// Attached programs, and where their events' fields lie.
pub(super) struct RingSource {
    programs: EventPrograms,
    layout: Layout,
}

/// Reads them, on any thread.
pub(super) struct RingReader {
    ring: EventRing,
    layout: Layout,
    stop: Arc<AtomicBool>,
}

impl RingSource {
    /// Loads and attaches.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(super) fn start(ring_bytes: u32) -> Result<Self, String> {
        let events = mounted("events")?;
        let layout = Layout::read(|tracepoint| {
            let file = events.join(tracepoint).join("format");
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
        })?;
        let programs = EventPrograms::start(ring_bytes).map_err(|error| error.to_string())?;
        Ok(Self { programs, layout })
    }

    pub(super) fn reader(&self, stop: Arc<AtomicBool>) -> Result<RingReader, String> {
        let ring = self.programs.ring().map_err(|error| error.to_string())?;
        Ok(RingReader { ring, layout: self.layout.clone(), stop })
    }
}

impl RingReader {
    /// Reads until told to stop, then what was there.
    pub(super) fn read(self, to: &mut impl Taker) -> Result<(), String> {
        let Self { ring, layout, stop } = self;
        let told = |error: DriverError| error.to_string();
        let unread = RefCell::new(Vec::new());
        let ring = ring.open(|event| unread.borrow_mut().extend(layout.records(event).into_iter().flatten()));
        let ring = ring.map_err(told)?;
        loop {
            let stopping = stop.load(Ordering::Acquire);
            let before = clock::boot_now();
            let taken = ring.take(PORTION_EVENTS).map_err(told)?;
            // our own switches go on while we end: what was there at the stop is enough
            let is_last = stopping && taken < PORTION_EVENTS;
            let until = if is_last { BootNs(u64::MAX) } else { BootNs(before.0.saturating_sub(HELD_BACK_NS)) };
            for record in in_order(&mut unread.borrow_mut(), until, taken == PORTION_EVENTS) {
                to.take(Chunk::Record(record));
            }
            to.portion()?;
            if is_last {
                return Ok(());
            }
            if taken < BUSY_EVENTS && !stopping {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Takes out what is old enough that nothing earlier can follow; `more`: the ring holds later ones still.
fn in_order(unread: &mut Vec<Record>, until: BootNs, more: bool) -> Vec<Record> {
    // a gap stays before the event that told it
    unread.sort_by_key(|record| record.at);
    let newest = unread.last().map_or(0, |record| record.at.0);
    let until = if more { BootNs(until.0.min(newest.saturating_sub(HELD_BACK_NS))) } else { until };
    let later = unread.split_off(unread.partition_point(|record| record.at <= until));
    std::mem::replace(unread, later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Event;

    fn record(at: u64, cpu: u32) -> Record {
        Record::new(at, cpu, Event::Lost { count: 0, everywhere: false })
    }

    #[test]
    fn events_come_in_order_and_the_newest_wait() {
        let mut unread = vec![record(5, 0), record(4, 1), record(9, 0)];
        let told = in_order(&mut unread, BootNs(6), false);
        assert_eq!(told, [record(4, 1), record(5, 0)]);
        unread.push(record(8, 1));
        assert_eq!(in_order(&mut unread, BootNs(u64::MAX), false), [record(8, 1), record(9, 0)]);
        assert!(unread.is_empty());
    }

    #[test]
    fn a_full_portion_is_not_told_beyond_what_may_follow_it() {
        let mut unread = vec![record(1, 0), record(3_000_000, 0)];
        assert_eq!(in_order(&mut unread, BootNs(50_000_000), true), [record(1, 0)]);
    }
}
