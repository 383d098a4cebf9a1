//! Where the events come from, as one stream of chunks.
//!
//! Refuses to know: what becomes of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::settings::{Backend, SchedSettings};
use super::ring::{RingReader, RingSource};
use super::text::{Instance, TracePipe};
use crate::record::{Chunk, Input};

/// Takes what a source gives.
pub(super) trait Taker {
    /// The next event, or what could not be read.
    fn take(&mut self, chunk: Chunk);

    /// A portion is over: the time for what is done now and then.
    ///
    /// # Errors
    /// Ends the reading.
    fn portion(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// A started source; dropping it ends the tracing.
pub(super) enum Source {
    Ring(RingSource),
    Text(Instance),
}

/// Reads a source, on any thread.
pub(super) enum SourceReader {
    Ring(RingReader),
    Text(TracePipe),
}

impl Source {
    /// Starts tracing by the backend that the settings name, or by the first that starts; the kernel holds up to so many
    /// of the configured rings until they are read.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(super) fn start(settings: &SchedSettings, rings: u32) -> Result<Self, String> {
        let ring = || RingSource::start(settings.ring_bytes.saturating_mul(rings)).map(Self::Ring);
        let text =
            || Instance::start((settings.ring_bytes / 1024 / cpus().max(1)).saturating_mul(rings)).map(Self::Text);
        match settings.backend {
            Backend::Tracefs => text(),
            Backend::Tracepoint => ring().map_err(|why| format!("receivers::sched::backend: tracepoint: {why}")),
            Backend::Auto | Backend::TpBtf => {
                ring().or_else(|why| text().map_err(|other| if why == other { why } else { format!("{why}; {other}") }))
            }
        }
    }

    /// As the backend is told.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ring(_) => "tracepoint",
            Self::Text(_) => "tracefs",
        }
    }

    /// Whether an event tells that an interrupt was on the CPU. Without it no waker can be named.
    pub(super) fn tells_wakers(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// What reads until `stop`, and then what was there.
    ///
    /// # Errors
    /// Where the source cannot be opened.
    pub(super) fn reader(&self, stop: &Arc<AtomicBool>) -> Result<SourceReader, String> {
        let stop = Arc::clone(stop);
        match self {
            Self::Ring(ring) => ring.reader(stop).map(SourceReader::Ring),
            Self::Text(text) => text.pipe(stop).map(SourceReader::Text).map_err(|error| failed(&error)),
        }
    }
}

impl SourceReader {
    /// Reads to the end.
    ///
    /// # Errors
    /// Where the source cannot be read, and what `to` says.
    pub(super) fn read(self, to: &mut impl Taker) -> Result<(), String> {
        let pipe = match self {
            Self::Ring(ring) => return ring.read(to),
            Self::Text(pipe) => pipe,
        };
        let mut input = Input::open(Box::new(pipe)).map_err(|error| failed(&error))?;
        while input.next(&mut |chunk| to.take(chunk)) {
            to.portion()?;
        }
        to.portion()
    }
}

fn failed(error: &std::io::Error) -> String {
    format!("trace_pipe: {error}")
}

/// CPUs that are online.
pub(super) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32)
}
