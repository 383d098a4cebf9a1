//! A measurement by text without pipelines, read when asked. For `doctor`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::super::meter::{CgroupReading, Reading};
use super::super::settings::SchedSettings;
use super::backend::{host_facts, ring_kb};
use super::identity::Identities;
use super::instance::Instance;
use crate::record::{Chunk, Feed, FeedSettings, Input, Unowned};

/// As large as so many of the agent's rings.
const RINGS: u32 = 8;

/// What the text has come to so far.
struct Sums {
    identities: Identities,
    feed: Feed,
}

/// A reader of the pipe, and what ends it once it has read everything.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sums, String>>,
}

/// The instance, and who reads its text meanwhile; dropping it removes the instance.
pub(in crate::receivers::sched) struct MeasuredText {
    reader: Option<Reader>,
    instance: Instance,
}

impl MeasuredText {
    /// Starts tracing.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(in crate::receivers::sched) fn start(settings: &SchedSettings) -> Result<Self, String> {
        let facts = host_facts();
        let identities = Identities::new(Path::new(&settings.root_path))?;
        // for some seconds, of a load that does little but switch
        let instance = Instance::start(ring_kb(settings, facts.cpus).saturating_mul(RINGS))?;
        let mut feed = Feed::new(FeedSettings {
            name: "tracefs".to_owned(),
            backend: "tracefs",
            unowned: Unowned::Host,
            // collected when asked
            collection_interval_ns: u64::MAX,
            ..FeedSettings::default()
        });
        let _ = feed.take(Chunk::Facts(facts));
        let mut text = Self { reader: None, instance };
        text.go_on(Sums { identities, feed })?;
        Ok(text)
    }

    fn go_on(&mut self, mut sums: Sums) -> Result<(), String> {
        let stop = Arc::<AtomicBool>::default();
        let failed = |error: std::io::Error| format!("trace_pipe: {error}");
        let pipe = self.instance.pipe(Arc::clone(&stop)).map_err(failed)?;
        let work = move || {
            let mut input = Input::open(Box::new(pipe)).map_err(failed)?;
            while input.next(&mut |chunk| sums.take(chunk)) {}
            Ok(sums)
        };
        let thread = std::thread::Builder::new().name("schedscope-text".into()).spawn(work);
        self.reader = Some(Reader { stop, thread: thread.map_err(|error| format!("no thread: {error}"))? });
        Ok(())
    }

    /// Reads all that was written until now, and looks where everybody is.
    ///
    /// # Errors
    /// Where the text broke off.
    pub(in crate::receivers::sched) fn read(&mut self) -> Result<Reading, String> {
        let Some(reader) = self.reader.take() else { return Err("the text broke off before".to_owned()) };
        reader.stop.store(true, Ordering::Release);
        let mut sums = reader.thread.join().map_err(|_| "the reader of the text ended".to_owned())??;
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

impl Sums {
    fn take(&mut self, chunk: Chunk) {
        let Self { identities, feed } = self;
        if let Chunk::Record(record) = &chunk {
            identities.before(record, &mut |told| drop(feed.take(told)));
        }
        // single cycles are nobody's here
        drop(feed.take(chunk));
    }
}

impl Drop for MeasuredText {
    fn drop(&mut self) {
        // the instance can go only once its pipe is closed
        if let Some(reader) = self.reader.take() {
            reader.stop.store(true, Ordering::Release);
            let _ = reader.thread.join();
        }
    }
}
