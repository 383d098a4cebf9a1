//! Where the events come from, as one stream of chunks.
//!
//! Refuses to know: what becomes of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::settings::SchedSettings;
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
pub(super) struct Source(Instance);

/// Reads a source, on any thread.
pub(super) struct SourceReader(TracePipe);

impl Source {
    /// Starts tracing; the kernel holds up to so many of the configured rings until they are read.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(super) fn start(settings: &SchedSettings, cpus: u32, rings: u32) -> Result<Self, String> {
        let kb = (settings.ring_bytes / 1024 / cpus.max(1)).saturating_mul(rings);
        Instance::start(kb).map(Self)
    }

    /// As the backend is told.
    pub(super) fn name(&self) -> &'static str {
        "tracefs"
    }

    /// What reads until `stop`, and then what was there.
    ///
    /// # Errors
    /// Where the source cannot be opened.
    pub(super) fn reader(&self, stop: &Arc<AtomicBool>) -> Result<SourceReader, String> {
        self.0.pipe(Arc::clone(stop)).map(SourceReader).map_err(|error| failed(&error))
    }
}

impl SourceReader {
    /// Reads to the end.
    ///
    /// # Errors
    /// Where the source cannot be read, and what `to` says.
    pub(super) fn read(self, to: &mut impl Taker) -> Result<(), String> {
        let mut input = Input::open(Box::new(self.0)).map_err(|error| failed(&error))?;
        while input.next(&mut |chunk| to.take(chunk)) {
            to.portion()?;
        }
        to.portion()
    }
}

fn failed(error: &std::io::Error) -> String {
    format!("trace_pipe: {error}")
}
