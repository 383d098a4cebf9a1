//! The events into a file of ours, for `schedscope record`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::super::settings::{Backend, SchedSettings};
use super::backend::host_facts;
use super::identity::Identities;
use super::source::{Source, Taker};
use crate::model::BootNs;
use crate::record::{Chunk, Entry, Writer};
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
    let identities = Identities::new(Path::new(&settings.root_path))?;
    // a recording tells wakers too
    let source = Source::start(&SchedSettings { backend: Backend::Tracefs, ..settings.clone() }, 1)?;
    let reader = source.reader(stop)?;
    let writer = Writer::new(to, &host_facts(source.name())).map_err(|error| unwritten(&error))?;
    let now = Instant::now();
    let file = File { writer, failed: Ok(()), recorded: Recorded::default() };
    let mut recording = Recording { identities, file, last: None, flushed: now, looked: now };
    reader.read(&mut recording)?;
    recording.file.writer.finish().map_err(|error| unwritten(&error))?;
    Ok(recording.file.recorded)
}

fn unwritten(error: &io::Error) -> String {
    format!("the recording cannot be written: {error}")
}

/// What comes into the file.
struct Recording<W: Write> {
    identities: Identities,
    file: File<W>,
    /// Of this portion.
    last: Option<BootNs>,
    flushed: Instant,
    looked: Instant,
}

struct File<W: Write> {
    writer: Writer<W>,
    /// The first failure; nothing is written after it.
    failed: io::Result<()>,
    recorded: Recorded,
}

impl<W: Write> File<W> {
    fn write(&mut self, chunk: &Chunk) {
        self.recorded.count(chunk);
        if let Some(entry) = entry(chunk)
            && self.failed.is_ok()
        {
            self.failed = self.writer.push(&entry);
        }
    }
}

impl<W: Write> Taker for Recording<W> {
    fn take(&mut self, chunk: Chunk) {
        let Self { identities, file, last, .. } = self;
        if let Chunk::Record(record) = &chunk {
            *last = Some(record.at);
            identities.before(record, &mut |told| file.write(&told));
        }
        file.write(&chunk);
    }

    fn portion(&mut self) -> Result<(), String> {
        let Self { identities, file, last, .. } = self;
        if let Some(at) = last.take()
            && self.looked.elapsed() > LOOK_EVERY
        {
            self.looked = Instant::now();
            identities.look_again(at, &mut |told| file.write(&told));
        }
        std::mem::replace(&mut file.failed, Ok(())).map_err(|error| unwritten(&error))?;
        if self.flushed.elapsed() > FLUSH_EVERY {
            self.flushed = Instant::now();
            file.writer.flush().map_err(|error| unwritten(&error))?;
        }
        Ok(())
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
