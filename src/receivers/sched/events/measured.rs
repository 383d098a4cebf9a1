//! A measurement by events without pipelines, read when asked. For `doctor`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::super::meter::{CgroupReading, Reading};
use super::super::settings::SchedSettings;
use super::backend::host_facts;
use super::identity::Identities;
use super::source::{Source, Taker};
use crate::record::{Chunk, Feed, FeedSettings, Unowned};

/// As large as so many of the agent's rings.
const RINGS: u32 = 8;

/// What the events have come to so far.
struct Sums {
    identities: Identities,
    feed: Feed,
}

/// Who reads the source, and what ends it once it has read everything.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sums, String>>,
}

/// The source, and who reads it meanwhile; dropping it ends the tracing.
pub(in crate::receivers::sched) struct MeasuredEvents {
    reader: Option<Reader>,
    source: Source,
}

impl MeasuredEvents {
    /// Starts tracing.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(in crate::receivers::sched) fn start(settings: &SchedSettings) -> Result<Self, String> {
        let identities = Identities::new(Path::new(&settings.root_path))?;
        // for some seconds, of a load that does little but switch
        let source = Source::start(settings, RINGS)?;
        let mut feed = Feed::new(FeedSettings {
            name: source.name().to_owned(),
            backend: source.name(),
            unowned: Unowned::Host,
            // collected when asked
            collection_interval_ns: u64::MAX,
            ..FeedSettings::default()
        });
        let _ = feed.take(Chunk::Facts(host_facts(source.name())));
        let mut measured = Self { reader: None, source };
        measured.go_on(Sums { identities, feed })?;
        Ok(measured)
    }

    /// By what is measured.
    pub(in crate::receivers::sched) fn backend(&self) -> &'static str {
        self.source.name()
    }

    fn go_on(&mut self, mut sums: Sums) -> Result<(), String> {
        let stop = Arc::<AtomicBool>::default();
        let source = self.source.reader(&stop)?;
        let work = move || source.read(&mut sums).map(|()| sums);
        let thread = std::thread::Builder::new().name("schedscope-events".into()).spawn(work);
        self.reader = Some(Reader { stop, thread: thread.map_err(|error| format!("no thread: {error}"))? });
        Ok(())
    }

    /// Reads all that was written until now, and looks where everybody is.
    ///
    /// # Errors
    /// Where the source broke off.
    pub(in crate::receivers::sched) fn read(&mut self) -> Result<Reading, String> {
        let Some(reader) = self.reader.take() else { return Err("the events broke off before".to_owned()) };
        reader.stop.store(true, Ordering::Release);
        let mut sums = reader.thread.join().map_err(|_| "the reader of the events ended".to_owned())??;
        let Sums { identities, feed } = &mut sums;
        // not the time of this look: events that are still to be read may be older
        identities.look_again(feed.now(), &mut |told| drop(feed.take(told)));
        let batch = feed.finish();
        let collection = batch.collection.unwrap_or_default();
        let path = |key| batch.cgroups.get(key).and_then(|facts| facts.path.clone());
        let cgroups: Vec<CgroupReading> = (collection.cgroups.iter())
            .map(|(key, totals)| CgroupReading { path: path(key), totals: totals.clone() })
            .collect();
        let tasks = cgroups.iter().map(|cgroup| cgroup.totals.threads).sum();
        self.go_on(sums)?;
        Ok(Reading {
            at: collection.at,
            cgroups,
            switches: collection.switches.unwrap_or(0),
            idle_switches: None,
            tasks,
            losses: collection.losses,
        })
    }
}

impl Taker for Sums {
    fn take(&mut self, chunk: Chunk) {
        let Self { identities, feed } = self;
        if let Chunk::Record(record) = &chunk {
            identities.before(record, &mut |told| drop(feed.take(told)));
        }
        // single cycles are nobody's here
        drop(feed.take(chunk));
    }
}

impl Drop for MeasuredEvents {
    fn drop(&mut self) {
        // a trace instance can go only once its pipe is closed
        if let Some(reader) = self.reader.take() {
            reader.stop.store(true, Ordering::Release);
            let _ = reader.thread.join();
        }
    }
}
