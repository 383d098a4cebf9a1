//! The thread that turns the text into batches, as the ring's reader does with the kernel's records.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::clock;
use super::super::settings::SchedSettings;
use super::identity::Identities;
use super::instance::Instance;
use super::select::Selector;
use crate::model::{LossReason, Losses, SchedBatch};
use crate::pipeline::{Data, Outlet};
use crate::record::{Chunk, Facts, Feed, FeedSettings, Input, Unowned};
use crate::telemetry::Telemetry;

/// A started instance and what reads it.
pub(in crate::receivers::sched) struct Tracefs {
    instance: Instance,
    identities: Identities,
    feed: Feed,
    selector: Selector,
    outlet: Outlet,
    telemetry: Telemetry,
    /// Losses that no batch has told yet.
    unsent: Losses,
    wants_cycles: bool,
    /// Our own process, where it is excluded.
    left_out: Option<u32>,
}

/// What this host is, as a recording tells it too.
pub(in crate::receivers::sched) fn host_facts() -> Facts {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Facts {
        boot_id: boot_id.trim().to_owned(),
        kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
        wall_minus_boot_ns: Some(clock::wall_offset().wall_minus_boot_ns),
        backend: "tracefs".to_owned(),
        schedscope_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The ring that each CPU gets, KiB.
pub(in crate::receivers::sched) fn ring_kb(settings: &SchedSettings, cpus: u32) -> u32 {
    settings.ring_bytes / 1024 / cpus.max(1)
}

impl Tracefs {
    /// Starts tracing.
    pub(in crate::receivers::sched) fn start(
        settings: &SchedSettings,
        outlet: Outlet,
        telemetry: Telemetry,
    ) -> Result<Self, String> {
        let facts = host_facts();
        let identities = Identities::new(Path::new(&settings.root_path))?;
        let instance = Instance::start(ring_kb(settings, facts.cpus))?;
        let mut feed = Feed::new(FeedSettings {
            name: "tracefs".to_owned(),
            backend: "tracefs",
            unowned: Unowned::Host,
            wall_minus_boot_ns: None,
            collection_interval_ns: settings.collection_interval.as_ns(),
            starvation_ns: settings.starvation.as_ns(),
        });
        tracing::info!(
            "sched: tracefs backend, {} CPUs, throttled time from none, cgroups by /proc; waiting includes throttled time, and threads gone before they were looked at count for the host",
            facts.cpus
        );
        let _ = feed.take(Chunk::Facts(facts));
        let wants_cycles = outlet.wants().cycles;
        let selector = Selector::new(settings.select.resolve());
        let left_out = settings.exclude.own.unwrap_or(true).then(std::process::id);
        let unsent = Losses::default();
        Ok(Self { instance, identities, feed, selector, outlet, telemetry, unsent, wants_cycles, left_out })
    }

    /// Works until `stop`, then tells everything once more.
    pub(in crate::receivers::sched) fn run(mut self, stop: &Arc<AtomicBool>) -> Result<(), String> {
        let pipe = self.instance.pipe(Arc::clone(stop)).map_err(|error| format!("trace_pipe: {error}"))?;
        let mut input = Input::open(Box::new(pipe)).map_err(|error| format!("trace_pipe: {error}"))?;
        loop {
            let mut batches = Vec::new();
            let (identities, feed) = (&mut self.identities, &mut self.feed);
            let more = input.next(&mut |chunk| {
                if let Chunk::Record(record) = &chunk {
                    identities.before(record, &mut |told| batches.extend(feed.take(told)));
                }
                batches.extend(feed.take(chunk));
            });
            let collected = batches.iter().find_map(|batch: &SchedBatch| batch.collection.as_ref().map(|it| it.at));
            if let Some(at) = collected {
                let (identities, feed) = (&mut self.identities, &mut self.feed);
                // what this tells belongs to the time after the collection
                identities.look_again(at, &mut |told| batches.extend(feed.take(told)));
            }
            for batch in batches {
                self.send(batch);
            }
            if !more {
                let last = self.feed.finish();
                self.send(last);
                return Ok(());
            }
        }
    }

    fn send(&mut self, mut batch: SchedBatch) {
        batch.offset = clock::wall_offset();
        if self.wants_cycles {
            batch.cycles.retain(|cycle| Some(cycle.task.process.pid) != self.left_out);
            let limited = self.selector.keep(&mut batch.cycles);
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
