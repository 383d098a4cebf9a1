//! The same text into a file of ours, for `schedscope record`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::super::settings::SchedSettings;
use super::backend::{host_facts, ring_kb};
use super::identity::Identities;
use super::instance::Instance;
use crate::record::{Chunk, Entry, Input, Writer};
use crate::timeline::Event;

/// What is held back is written out this often, so that a reader at the other end sees it.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Threads are looked at again this often: where they live now.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What came into the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events, and what is known of threads and cgroups.
    pub records: u64,
    /// Events that the kernel's ring had no room for; the file has a mark at each place.
    pub lost: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
}

/// Records until `stop`.
///
/// # Errors
/// Where tracing cannot be started, or the file cannot be written.
pub fn record(settings: &SchedSettings, to: impl Write, stop: &Arc<AtomicBool>) -> Result<Recorded, String> {
    let facts = host_facts();
    let mut identities = Identities::new(Path::new(&settings.root_path))?;
    let instance = Instance::start(ring_kb(settings, facts.cpus))?;
    let pipe = instance.pipe(Arc::clone(stop)).map_err(|error| format!("trace_pipe: {error}"))?;
    let written = |error: std::io::Error| format!("the recording cannot be written: {error}");
    let mut writer = Writer::new(to, &facts).map_err(written)?;
    let mut input = Input::open(Box::new(pipe)).map_err(|error| format!("trace_pipe: {error}"))?;
    let mut recorded = Recorded::default();
    let (mut flushed, mut looked) = (Instant::now(), Instant::now());
    loop {
        let mut failed = Ok(());
        let mut last = None;
        let mut write = |chunk: &Chunk| {
            recorded.count(chunk);
            if let Some(entry) = entry(chunk)
                && failed.is_ok()
            {
                failed = writer.push(&entry);
            }
        };
        let more = input.next(&mut |chunk| {
            if let Chunk::Record(record) = &chunk {
                last = Some(record.at);
                identities.before(record, &mut |told| write(&told));
            }
            write(&chunk);
        });
        if let Some(at) = last
            && looked.elapsed() > LOOK_EVERY
        {
            looked = Instant::now();
            identities.look_again(at, &mut |told| write(&told));
        }
        failed.map_err(written)?;
        if !more {
            writer.finish().map_err(written)?;
            return Ok(recorded);
        }
        if flushed.elapsed() > FLUSH_EVERY {
            flushed = Instant::now();
            writer.flush().map_err(written)?;
        }
    }
}

fn entry(chunk: &Chunk) -> Option<Entry> {
    match chunk {
        Chunk::Record(record) => Some(Entry::Record(*record)),
        Chunk::Cgroup { key, path } => Some(Entry::Cgroup { key: *key, path: Arc::clone(path) }),
        Chunk::Facts(_) | Chunk::Unreadable { .. } => None,
    }
}

impl Recorded {
    fn count(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::Record(record) => {
                self.records += 1;
                if let Event::Lost { count, .. } = record.event {
                    self.lost += count.max(1);
                }
            }
            Chunk::Cgroup { .. } => self.records += 1,
            Chunk::Unreadable { .. } => self.unreadable += 1,
            Chunk::Facts(_) => {}
        }
    }
}
