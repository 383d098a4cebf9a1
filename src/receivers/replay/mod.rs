//! The `replay` receiver: a recording or a tracer's text in the place of a live kernel.
//!
//! Reads as fast as the pipelines take, and says in the agent's condition when the input has ended.
//! Refuses to know: formats (`record`), what events mean (`timeline`).

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::{Checker, Period, Section};
use crate::model::SchedBatch;
use crate::pipeline::{BuildContext, Data, Outlet, Receiver, ReceiverFactory, Settings, Signal, StartError};
use crate::record::{Chunk, Feed, FeedSettings, Input, Unowned};
use crate::telemetry::{Meter, Telemetry};

/// The `replay` receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    name: "replay",
    aliases: &[],
    about: "A recording, or the text of ftrace, trace-cmd or perf, in the place of a live kernel",
    stability: "alpha",
    emits: &[Signal::Sched],
    settings: Settings::of::<ReplaySettings>(),
    build: |body, context| Ok(Box::new(Replay::new(body.decode()?, context))),
};

/// What is replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplaySettings {
    /// The file; `-` is standard input. Recordings and text are told apart, gzip and zstd are unpacked.
    pub path: String,
    /// When the traced host was booted, as RFC 3339, for text that has only seconds since the boot. Without
    /// it such times are placed at the epoch.
    pub boot_time: Option<String>,
    /// Time in the trace between two collections of totals.
    pub collection_interval: Period,
}

impl Default for ReplaySettings {
    fn default() -> Self {
        Self { path: String::new(), boot_time: None, collection_interval: Period::secs(10) }
    }
}

impl ReplaySettings {
    fn boot_ns(&self) -> Option<Result<i64, String>> {
        let text = self.boot_time.as_deref()?;
        let parsed = text.parse::<jiff::Timestamp>().map_err(|why| format!("not a time as in RFC 3339: {why}"));
        Some(parsed.and_then(|at| i64::try_from(at.as_nanosecond()).map_err(|_| "out of range".to_owned())))
    }
}

impl Section for ReplaySettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.path.is_empty() {
            at.problem("path", "name a file, or `-` for standard input");
        }
        if let Some(Err(why)) = self.boot_ns() {
            at.problem("boot_time", &why);
        }
        if self.collection_interval.0.is_zero() {
            at.problem("collection_interval", "must be more than 0");
        }
    }
}

/// Waits that are open for longer are told as starving.
const STARVATION_NS: u64 = 1_000_000_000;
/// Unreadable places that are logged one by one.
const MAX_TOLD: u64 = 10;
/// How long a full or refusing pipeline is left alone before it is asked again.
const PATIENCE: Duration = Duration::from_millis(200);

struct Replay {
    id: Arc<str>,
    settings: ReplaySettings,
    telemetry: Telemetry,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the reader counts.
struct Counters {
    records: Meter,
    unreadable: Meter,
    lost: Meter,
}

impl Replay {
    fn new(settings: ReplaySettings, context: &BuildContext) -> Self {
        let (id, telemetry) = (Arc::clone(&context.id), context.telemetry.clone());
        Self { id, settings, telemetry, stop: Arc::default(), tasks: Vec::new() }
    }

    fn counters(&self) -> Counters {
        let of = [("receiver", self.id.as_ref())];
        let counter = |name, unit| self.telemetry.counter(name, unit, &of);
        Counters {
            records: counter("otelcol_receiver_replay_records", "{record}"),
            unreadable: counter("otelcol_receiver_replay_unreadable", "{place}"),
            lost: counter("otelcol_receiver_replay_lost_events", "{event}"),
        }
    }
}

#[async_trait]
impl Receiver for Replay {
    async fn start(&mut self, outlet: Outlet) -> Result<(), StartError> {
        let path = self.settings.path.clone();
        let name = if path == "-" { "standard input".to_owned() } else { path.clone() };
        let opened = tokio::task::spawn_blocking(move || open(&path)).await;
        let input = opened.map_err(|why| StartError::new(why.to_string()))?;
        let input = input.map_err(|why| StartError::new(format!("{name}: {why}")))?;
        let base = Path::new(&name).file_name().map_or_else(|| name.clone(), |name| name.to_string_lossy().into());
        let feed = Feed::new(FeedSettings {
            name: base,
            backend: "replay",
            unowned: Unowned::Input,
            wall_minus_boot_ns: self.settings.boot_ns().and_then(Result::ok),
            collection_interval_ns: self.settings.collection_interval.as_ns(),
            starvation_ns: STARVATION_NS,
        });
        let (batches, taken) = mpsc::channel(4);
        let reader = Reading { name, input, feed, counters: self.counters(), stop: Arc::clone(&self.stop), batches };
        self.tasks.push(tokio::task::spawn_blocking(move || reader.run()));
        let (stop, telemetry, id) = (Arc::clone(&self.stop), self.telemetry.clone(), Arc::clone(&self.id));
        self.tasks.push(tokio::spawn(async move {
            forward(taken, &outlet, &stop).await;
            telemetry.health().input_ended(&id);
        }));
        Ok(())
    }

    async fn shutdown(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            // a task that panicked has said so itself
            let _ = task.await;
        }
    }
}

fn open(path: &str) -> io::Result<Input> {
    let source: Box<dyn Read + Send> = if path == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    Input::open(source)
}

/// Hands batches to the pipelines, asking again for as long as they have no room.
async fn forward(mut batches: mpsc::Receiver<SchedBatch>, outlet: &Outlet, stop: &AtomicBool) {
    while let Some(batch) = batches.recv().await {
        let batch = Arc::new(batch);
        while let Err(refused) = outlet.send(Data::Sched(Arc::clone(&batch)), PATIENCE).await {
            if stop.load(Ordering::Relaxed) {
                tracing::warn!("a batch was not delivered: {refused}");
                return;
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

/// The blocking side.
struct Reading {
    name: String,
    input: Input,
    feed: Feed,
    counters: Counters,
    stop: Arc<AtomicBool>,
    batches: mpsc::Sender<SchedBatch>,
}

impl Reading {
    fn run(mut self) {
        let (mut records, mut lost, mut unreadable) = (0u64, 0u64, 0u64);
        let mut gone = false;
        while !gone && !self.stop.load(Ordering::Relaxed) {
            let mut on = |chunk: Chunk| {
                match &chunk {
                    Chunk::Record(record) => match record.event {
                        crate::timeline::Event::Lost { count, .. } => lost = lost.saturating_add(count.max(1)),
                        _ => records += 1,
                    },
                    Chunk::Unreadable { place, why, .. } => {
                        unreadable += 1;
                        if unreadable <= MAX_TOLD {
                            tracing::warn!("{}:{place}: {why}", self.name);
                        }
                    }
                    Chunk::Facts(_) | Chunk::Cgroup { .. } => {}
                }
                if let Some(batch) = self.feed.take(chunk) {
                    gone |= self.batches.blocking_send(batch).is_err();
                }
            };
            let more = self.input.next(&mut on);
            self.counters.records.add(std::mem::take(&mut records));
            self.counters.lost.add(std::mem::take(&mut lost));
            if !more {
                break;
            }
        }
        self.counters.unreadable.add(unreadable);
        if unreadable > MAX_TOLD {
            tracing::warn!("{}: {} more places could not be read", self.name, unreadable - MAX_TOLD);
        }
        if self.counters.records.get() == 0 {
            tracing::warn!(
                "{}: no scheduler event in it; expected a schedscope recording, or the text of ftrace, \
                 `trace-cmd report` or `perf script`",
                self.name
            );
        }
        // nobody takes it where the pipelines have been shut down
        let _ = self.batches.blocking_send(self.feed.finish());
    }
}
