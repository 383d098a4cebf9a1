//! The one thread that owns the kernel side: drains the ring, reads the totals, sends batches. It never waits
//! on a pipeline: no room means that the batch is dropped and counted, and the next one says so.

mod collect;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::collect::keep_threads;
use super::assemble::{Assembled, Assembler};
use super::cgroups::CgroupPaths;
use super::chosen::Chosen;
use super::clock;
use super::contexts::Upkeep;
use super::driver::{Driver, DriverError};
use super::ext::ExtWatch;
use super::keeping::Keeping;
use super::limits::LimitFiles;
use super::loss_log::LossLog;
use super::overhead::Overhead;
use super::totals::{Measured, Totals};
use super::unseen::Unseen;
use crate::model::{
    BootNs, CgroupFacts, CgroupKey, ClockOffset, Collection, HostFacts, LossReason, Losses, SchedBatch,
};
use crate::pipeline::{Data, Outlet};
use crate::telemetry::Telemetry;

/// A cgroup may be removed a moment before its last thread has left its CPU, which is when that is booked.
const FINAL_AFTER: Duration = Duration::from_millis(200);

/// How the thread goes about its work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Between two reads of the totals.
    pub collection: Duration,
    /// Between two readings of the wall clock.
    pub clock_sync: Duration,
    /// The ring is drained at least this often.
    pub drain: Duration,
    /// Something may be selected at all.
    pub spans: bool,
    /// Threads are told apart.
    pub threads: bool,
    /// What the totals can tell.
    pub measured: Measured,
}

/// The thread's state beside the driver.
pub(super) struct Reader {
    pace: Pace,
    outlet: Outlet,
    facts: Arc<HostFacts>,
    paths: CgroupPaths,
    totals: Totals,
    offset: ClockOffset,
    generation: u64,
    /// Removed cgroups: slot, and when their totals are final.
    leaving: HashMap<CgroupKey, (u32, Instant)>,
    /// Kernel-side losses as last read.
    kernel_losses: Losses,
    /// Losses since the last batch that was taken.
    unsent: Losses,
    /// Losses since the start.
    all: Losses,
    loss_log: LossLog,
    telemetry: Telemetry,
    /// A collection that found no room; totals are cumulative, so the newest is enough.
    waiting: Option<(Collection, HashSet<CgroupKey>)>,
    chosen: Chosen,
    contexts: Upkeep,
    limits: Option<LimitFiles>,
    keeping: Keeping,
    assembler: Assembler,
    ext: ExtWatch,
    unseen: Unseen,
    /// Where a limit is set.
    overhead: Option<Overhead>,
}

impl Reader {
    /// A reader that has sent nothing yet.
    pub(super) fn new(
        pace: Pace,
        outlet: Outlet,
        facts: Arc<HostFacts>,
        paths: CgroupPaths,
        telemetry: Telemetry,
        chosen: Chosen,
        contexts: Upkeep,
    ) -> Self {
        Self {
            pace,
            outlet,
            facts,
            paths,
            totals: Totals::default(),
            offset: clock::wall_offset(),
            generation: 1,
            leaving: HashMap::new(),
            kernel_losses: Losses::default(),
            unsent: Losses::default(),
            all: Losses::default(),
            loss_log: LossLog::default(),
            telemetry,
            waiting: None,
            chosen,
            contexts,
            limits: None,
            keeping: Keeping::new(None),
            assembler: Assembler::default(),
            ext: ExtWatch::default(),
            unseen: Unseen::default(),
            overhead: None,
        }
    }

    /// With quotas and pressure beside the totals.
    pub(super) fn with_limits(self, limits: Option<LimitFiles>) -> Self {
        Self { limits, ..self }
    }

    /// With a limit of our own cost.
    pub(super) fn with_overhead(self, overhead: Option<Overhead>) -> Self {
        Self { overhead, ..self }
    }

    /// With a history to fill.
    pub(super) fn with_history(self, keeping: Keeping) -> Self {
        Self { keeping, ..self }
    }

    /// With what came while it was made, and the switches that the program had seen before the first collection.
    pub(super) fn with_early(self, assembler: Assembler, switches: u64) -> Self {
        Self { assembler, unseen: Unseen::beginning_at(switches), ..self }
    }

    /// Works until `stop`, then reads everything once more.
    ///
    /// # Errors
    /// Where the kernel side breaks while running.
    pub(super) fn run(mut self, driver: &Driver<'_>, stop: &AtomicBool) -> Result<(), DriverError> {
        let assembler = RefCell::new(std::mem::take(&mut self.assembler));
        let slots = |slot: u32| slot_key(driver, slot);
        self.choose(driver);
        let ring = driver.ring(|record| assembler.borrow_mut().record(record, &slots))?;
        let (mut next_collection, mut next_sync) = (self.next_collection(), Instant::now());
        let mut last_cycles = None::<Instant>;
        loop {
            let now = Instant::now();
            let ending = stop.load(Ordering::Acquire);
            if now >= next_sync {
                self.offset = clock::wall_offset();
                next_sync = now + self.pace.clock_sync;
            }
            let until = clock::boot_now();
            // with no spans asked for, the ring holds only the coming and going of cgroups
            let drain = if self.pace.spans { self.pace.drain } else { self.pace.collection };
            let patience = next_collection.saturating_duration_since(now).min(drain);
            ring.drain(if ending { Duration::ZERO } else { patience })?;
            let mut assembled = assembler.borrow_mut().take();
            self.cgroup_events(driver, &assembled);
            self.chosen.narrow(&mut assembled, &self.paths);
            self.contexts.step(driver, &assembled.processes);
            let not_kept = self.keeping.step(driver, &mut assembled, until);
            self.lose(LossReason::HistoryFull, not_kept.cycles);
            self.lose(LossReason::MapFull, not_kept.processes);
            if assembled.moved {
                // books what the process' other threads did in their old cgroup; the series come in their time
                self.generation = driver.collect()?.generation;
            }
            if !assembled.cycles.is_empty() {
                last_cycles = Some(now);
            }
            let collection = if ending || Instant::now() >= next_collection {
                let mut collected = self.collect(driver)?;
                if self.pace.threads {
                    // what the collection told of them is in the ring by now
                    ring.drain(Duration::ZERO)?;
                    self.add_threads(&mut collected.0, assembler.borrow_mut().take_threads());
                }
                next_collection = self.next_collection();
                Some(collected)
            } else {
                None
            };
            // windows downstream close by the time we say has come
            let closing = last_cycles.is_some_and(|at| now - at < Duration::from_secs(90));
            if collection.is_some() || !assembled.cycles.is_empty() || closing {
                self.send(driver, assembled, collection, until);
            }
            if ending {
                return Ok(());
            }
        }
    }

    /// Marks the cgroups that were there at start.
    fn choose(&self, driver: &Driver<'_>) {
        if self.chosen.is_all() {
            return;
        }
        for index in 1..driver.slots() {
            let id = driver.slot(index).id;
            if id == 0 {
                // slots are handed out from the lowest
                return;
            }
            let gives = self.chosen.gives_spans(id, self.paths.get(id).as_deref());
            driver.set_gives_spans(u32::try_from(index).unwrap_or(0), gives);
        }
    }

    /// Collections fall on multiples of the interval in wall time, where trace windows end: a window's sums
    /// are then totals of its own time.
    fn next_collection(&self) -> Instant {
        let interval = u64::try_from(self.pace.collection.as_nanos()).unwrap_or(u64::MAX).max(1);
        let wall = self.offset.wall(clock::boot_now()).0;
        // a read that comes a moment early belongs to the multiple it was meant for
        let past = (wall + 5_000_000) % interval;
        Instant::now() + Duration::from_nanos(interval - past + 5_000_000)
    }

    fn cgroup_events(&mut self, driver: &Driver<'_>, assembled: &Assembled) {
        if self.paths.compose(&assembled.nodes) {
            self.choose(driver);
        }
        for event in &assembled.cgroup_events {
            let key = CgroupKey { id: event.id, serial: event.serial };
            if event.removed {
                self.leaving.insert(key, (event.slot, Instant::now() + FINAL_AFTER));
            } else {
                let path: Arc<str> = String::from_utf8_lossy(&event.path).into();
                if !self.chosen.is_all() && event.slot != 0 {
                    driver.set_gives_spans(event.slot, self.chosen.gives_spans(event.id, Some(&path)));
                }
                self.paths.learn(event.id, path);
            }
        }
    }

    fn send(
        &mut self,
        driver: &Driver<'_>,
        assembled: Assembled,
        collection: Option<(Collection, HashSet<CgroupKey>)>,
        until: BootNs,
    ) {
        let kernel = kernel_losses(driver);
        for (reason, count) in kernel.iter() {
            self.lose(reason, count - self.kernel_losses.get(reason));
        }
        self.kernel_losses = kernel;
        for (reason, count) in assembled.losses.iter() {
            self.lose(reason, count);
        }
        if collection.is_some()
            && let Some(lost) = self.loss_log.news(&self.all)
        {
            tracing::warn!("sched: records lost since the last collection: {lost}");
        }
        let (mut collection, gone) =
            self.newest(collection).map_or_else(Default::default, |(all, gone)| (Some(all), gone));
        let mut named = assembled.named;
        if let Some(collection) = &mut collection {
            collection.losses = self.all;
            named.extend(collection.cgroups.iter().map(|(key, _)| *key));
        }
        let facts = |key: CgroupKey| CgroupFacts { path: self.paths.get(key.id), gone: gone.contains(&key) };
        let batch = SchedBatch {
            facts: Arc::clone(&self.facts),
            offset: self.offset,
            delivered_until: until,
            cgroups: named.iter().map(|key| (*key, facts(*key))).collect(),
            cycles: assembled.cycles,
            collection,
            losses: self.unsent,
            targets: self.chosen.by_name(),
            ..SchedBatch::default()
        };
        self.unsent = Losses::default();
        let batch = Arc::new(batch);
        if self.outlet.try_send(&Data::Sched(Arc::clone(&batch))).is_ok() {
            for key in &gone {
                self.paths.forget(key.id);
            }
            return;
        }
        self.unsent = batch.losses;
        self.lose(LossReason::PipelineFull, batch.cycles.len() as u64);
        self.waiting = batch.collection.clone().map(|collection| (collection, gone));
    }

    /// The collection to send: this one, with what one that found no room had last to say.
    fn newest(
        &mut self,
        collection: Option<(Collection, HashSet<CgroupKey>)>,
    ) -> Option<(Collection, HashSet<CgroupKey>)> {
        match (self.waiting.take(), collection) {
            (Some((old, mut ended)), Some((mut new, gone))) => {
                let last = old.cgroups.into_iter().filter(|(key, _)| ended.contains(key));
                new.cgroups.extend(last);
                keep_threads(old.threads, &mut new.threads);
                ended.extend(gone);
                Some((new, ended))
            }
            (waiting, collection) => collection.or(waiting),
        }
    }

    fn lose(&mut self, reason: LossReason, count: u64) {
        if count > 0 {
            self.unsent.add(reason, count);
            self.all.add(reason, count);
            let attributes = [("receiver", "sched"), ("reason", reason.name())];
            self.telemetry.counter("sched.receiver.events.lost", "{event}", &attributes).add(count);
        }
    }
}

pub(super) fn slot_key(driver: &Driver<'_>, slot: u32) -> CgroupKey {
    let place = driver.slot(slot as usize);
    CgroupKey { id: place.id, serial: place.serial }
}

fn kernel_losses(driver: &Driver<'_>) -> Losses {
    let mut losses = Losses::default();
    for cpu in (0..driver.cpus()).map(|cpu| driver.cpu(cpu)) {
        losses.add(LossReason::RingFull, cpu.ring_full);
        losses.add(LossReason::RateLimited, cpu.rate_limited);
        losses.add(LossReason::NoStorage, cpu.no_storage);
        losses.add(LossReason::MapFull, cpu.map_full);
        losses.add(LossReason::UnknownStart, cpu.unknown_start);
        losses.add(LossReason::Clock, cpu.clock_backwards);
    }
    losses.add(LossReason::RingFull, driver.side_records_lost());
    losses
}
