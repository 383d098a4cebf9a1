//! The thread that turns events into batches, as the ring's reader does with the kernel's records.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::clock;
use super::super::settings::SchedSettings;
use super::identity::Identities;
use super::select::Selector;
use super::source::{Source, Taker, cpus};
use crate::model::{LossReason, Losses, SchedBatch};
use crate::pipeline::{Data, Outlet};
use crate::record::{Chunk, Facts, Feed, FeedSettings, Unowned};
use crate::telemetry::Telemetry;

/// A started source and what becomes of its events.
pub(in crate::receivers::sched) struct EventBackend {
    source: Source,
    work: Work,
}

struct Work {
    identities: Identities,
    feed: Feed,
    selector: Selector,
    outlet: Outlet,
    telemetry: Telemetry,
    /// Of the portion that is being read.
    batches: Vec<SchedBatch>,
    /// Losses that no batch has told yet.
    unsent: Losses,
    wants_cycles: bool,
    tells_wakers: bool,
    /// Our own process, where it is excluded.
    left_out: Option<u32>,
}

/// What this host is, as a recording tells it too.
pub(super) fn host_facts(backend: &str) -> Facts {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Facts {
        boot_id: boot_id.trim().to_owned(),
        kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: cpus(),
        wall_minus_boot_ns: Some(clock::wall_offset().wall_minus_boot_ns),
        backend: backend.to_owned(),
        schedscope_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

impl EventBackend {
    /// Starts tracing.
    pub(in crate::receivers::sched) fn start(
        settings: &SchedSettings,
        outlet: Outlet,
        telemetry: Telemetry,
    ) -> Result<Self, String> {
        let identities = Identities::new(Path::new(&settings.root_path))?;
        let source = Source::start(settings, 1)?;
        let facts = host_facts(source.name());
        let mut feed = Feed::new(FeedSettings {
            name: source.name().to_owned(),
            backend: source.name(),
            unowned: Unowned::Host,
            wall_minus_boot_ns: None,
            collection_interval_ns: settings.collection_interval.as_ns(),
            starvation_ns: settings.starvation.as_ns(),
        });
        tracing::info!(
            "sched: {} backend, {} CPUs, throttled time from none, cgroups by /proc; waiting includes throttled time, and threads gone before they were looked at count for the host",
            source.name(),
            facts.cpus
        );
        let _ = feed.take(Chunk::Facts(facts));
        let work = Work {
            identities,
            feed,
            selector: Selector::new(settings.select.resolve()),
            wants_cycles: outlet.wants().cycles,
            tells_wakers: source.tells_wakers(),
            outlet,
            telemetry,
            batches: Vec::new(),
            unsent: Losses::default(),
            left_out: settings.exclude.own.unwrap_or(true).then(std::process::id),
        };
        Ok(Self { source, work })
    }

    /// Works until `stop`, then tells everything once more.
    pub(in crate::receivers::sched) fn run(mut self, stop: &Arc<AtomicBool>) -> Result<(), String> {
        self.source.reader(stop)?.read(&mut self.work)?;
        let last = self.work.feed.finish();
        self.work.send(last);
        Ok(())
    }
}

impl Taker for Work {
    fn take(&mut self, chunk: Chunk) {
        let Self { identities, feed, batches, .. } = self;
        if let Chunk::Record(record) = &chunk {
            identities.before(record, &mut |told| batches.extend(feed.take(told)));
        }
        batches.extend(feed.take(chunk));
    }

    fn portion(&mut self) -> Result<(), String> {
        let Self { identities, feed, batches, .. } = self;
        if let Some(at) = batches.iter().find_map(|batch| batch.collection.as_ref().map(|it| it.at)) {
            // what this tells belongs to the time after the collection
            identities.look_again(at, &mut |told| batches.extend(feed.take(told)));
        }
        for batch in std::mem::take(&mut self.batches) {
            self.send(batch);
        }
        Ok(())
    }
}

impl Work {
    fn send(&mut self, mut batch: SchedBatch) {
        batch.offset = clock::wall_offset();
        if self.wants_cycles {
            batch.cycles.retain(|cycle| Some(cycle.task.process.pid) != self.left_out);
            let limited = self.selector.keep(&mut batch.cycles);
            if !self.tells_wakers {
                batch.cycles.iter_mut().for_each(|cycle| cycle.waker = None);
            }
            batch.losses.add(LossReason::RateLimited, limited);
        } else {
            batch.cycles.clear();
        }
        for (reason, count) in batch.losses.iter().filter(|(_, count)| *count > 0) {
            let attributes = [("receiver", "sched"), ("reason", reason.name())];
            self.telemetry.counter("sched.receiver.events.lost", "{event}", &attributes).add(count);
        }
        batch.losses.merge(&self.unsent);
        self.unsent = Losses::default();
        let batch = Arc::new(batch);
        if self.outlet.try_send(&Data::Sched(Arc::clone(&batch))).is_err() {
            self.unsent = batch.losses;
            self.unsent.add(LossReason::PipelineFull, batch.cycles.len() as u64);
        }
    }
}
