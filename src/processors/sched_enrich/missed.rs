//! Why a span passes as it came; each is counted under its name.

use crate::telemetry::{Meter, Telemetry};

/// The reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub(super) enum Missed {
    /// It names no process.
    NoProcess,
    /// It names no thread.
    NoThread,
    /// Its trace is not recorded.
    NotSampled,
    /// It has no ids, no time, or ended before it began.
    NoTime,
    /// No receiver fills the history.
    NoReceiver,
    /// No process of this host has that id, as it sees itself.
    UnknownProcess,
    /// Its process has no thread of that id, as it sees itself.
    UnknownThread,
    /// It ended before its process was watched.
    BeforeWatch,
    /// Too many processes are watched.
    TooManyProcesses,
    /// Of its time nothing is known: it is too long ago, or nothing has come so far.
    NotTold,
    /// The thread that it names did not run when it began, or when it ended.
    OtherThread,
    /// Too many spans are held.
    QueueFull,
}

impl Missed {
    const ALL: [(Self, &'static str); 12] = [
        (Self::NoProcess, "no_process_id"),
        (Self::NoThread, "no_thread_id"),
        (Self::NotSampled, "not_sampled"),
        (Self::NoTime, "no_time"),
        (Self::NoReceiver, "no_receiver"),
        (Self::UnknownProcess, "unknown_process"),
        (Self::UnknownThread, "unknown_thread"),
        (Self::BeforeWatch, "before_watch"),
        (Self::TooManyProcesses, "too_many_processes"),
        (Self::NotTold, "not_told"),
        (Self::OtherThread, "other_thread"),
        (Self::QueueFull, "queue_full"),
    ];
}

/// Spans that were told, and those that were not.
pub(super) struct Counts {
    told: Meter,
    incomplete: Meter,
    missed: Vec<(Missed, Meter)>,
}

impl Counts {
    pub(super) fn new(telemetry: &Telemetry, id: &str) -> Self {
        let told = |complete| {
            let attributes = [("processor", id), ("complete", complete)];
            telemetry.counter("sched.processor.enrich.told", "{span}", &attributes)
        };
        let missed = |(reason, name)| {
            let attributes = [("processor", id), ("reason", name)];
            (reason, telemetry.counter("sched.processor.enrich.missed", "{span}", &attributes))
        };
        Self { told: told("true"), incomplete: told("false"), missed: Missed::ALL.into_iter().map(missed).collect() }
    }

    pub(super) fn told(&self, complete: bool) {
        if complete { &self.told } else { &self.incomplete }.add(1);
    }

    pub(super) fn missed(&self, why: Missed, spans: usize) {
        if let Some((_, meter)) = self.missed.iter().find(|(reason, _)| *reason == why) {
            meter.add(spans as u64);
        }
    }
}
