//! `batch`: gathers small batches into larger ones, by size or after a time, as the Collector's does.
//!
//! Resource blocks keep their order and stay whole: a window's root span leaves in the same request as its
//! children wherever `send_batch_max_size` lets it. Refuses to know: where the batches go.

mod cut;

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Period, Section};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::telemetry::Meter;

/// `batch`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "batch",
    aliases: &[],
    about: "Gathers small batches into larger ones, by size or after a time",
    stability: "beta",
    converts: &[(Signal::Traces, Signal::Traces), (Signal::Metrics, Signal::Metrics), (Signal::Logs, Signal::Logs)],
    needs_receiver: None,
    settings: Settings::of::<BatchSettings>(),
    build,
};

/// Keys of `batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSettings {
    /// Spans, points or records that make a batch go at once.
    pub send_batch_size: usize,
    /// A batch goes after this time whatever its size; 0s: without waiting.
    pub timeout: Period,
    /// A larger batch is split; 0: never. Not below `send_batch_size`.
    pub send_batch_max_size: usize,
    /// Batching apart by client metadata; not supported, must stay empty.
    pub metadata_keys: Vec<String>,
    /// Bound of `metadata_keys` combinations; without effect.
    pub metadata_cardinality_limit: usize,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            send_batch_size: 8192,
            timeout: Period::millis(200),
            send_batch_max_size: 0,
            metadata_keys: Vec::new(),
            metadata_cardinality_limit: 1000,
        }
    }
}

impl Section for BatchSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.send_batch_max_size > 0 && self.send_batch_max_size < self.send_batch_size {
            at.problem(
                "send_batch_max_size",
                format!("must be 0 or at least send_batch_size, which is {}", self.send_batch_size),
            );
        }
        if !self.metadata_keys.is_empty() {
            at.problem("metadata_keys", "is not supported: client metadata does not travel with the data; remove it");
        }
    }
}

fn build(body: &Body, context: &BuildContext) -> Built<dyn Processor> {
    let settings: BatchSettings = body.decode()?;
    let trigger = |name| context.telemetry.counter(name, "{times}", &[("processor", context.id.as_ref())]);
    Ok(Box::new(Batch {
        settings,
        making: <[Making; 3]>::default(),
        by_size: trigger("otelcol_processor_batch_batch_size_trigger_send"),
        by_timeout: trigger("otelcol_processor_batch_timeout_trigger_send"),
    }))
}

/// The batches in the making, one per signal.
struct Batch {
    settings: BatchSettings,
    making: [Making; 3],
    by_size: Meter,
    by_timeout: Meter,
}

/// One batch in the making.
#[derive(Default)]
struct Making {
    held: Option<Data>,
    held_items: usize,
    due: Option<Instant>,
}

impl Making {
    /// Adds at the end.
    fn add(&mut self, data: Data) {
        self.held_items += data.items();
        self.held = match self.held.take() {
            None => Some(data),
            Some(held) => Some(cut::join(held, data)),
        };
    }

    /// Sends what is full, or everything; how many batches that were.
    fn release(&mut self, settings: &BatchSettings, everything: bool, out: &mut Outbox) -> u64 {
        let mut sent = 0;
        let max = settings.send_batch_max_size;
        while let Some(data) = self.held.take() {
            let full = self.held_items >= settings.send_batch_size || settings.timeout.0.is_zero();
            if !(everything || full) {
                self.held = Some(data);
                return sent;
            }
            sent += 1;
            if max == 0 || self.held_items <= max {
                self.held_items = 0;
                out.send(data);
            } else {
                let (first, rest) = cut::cut(data, max);
                self.held_items = rest.items();
                out.send(first);
                self.held = Some(rest);
            }
        }
        self.due = None;
        sent
    }
}

impl Processor for Batch {
    fn process(&mut self, data: Data, out: &mut Outbox) {
        let making = match data.signal() {
            Signal::Traces => &mut self.making[0],
            Signal::Metrics => &mut self.making[1],
            Signal::Logs => &mut self.making[2],
            Signal::Sched => return out.send(data),
        };
        making.add(data);
        if making.due.is_none() {
            making.due = Some(Instant::now() + self.settings.timeout.0);
        }
        self.by_size.add(making.release(&self.settings, false, out));
    }

    fn next_tick(&self) -> Option<Instant> {
        self.making.iter().filter_map(|making| making.due).min()
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox) {
        for making in &mut self.making {
            if making.due.is_some_and(|due| due <= now) {
                self.by_timeout.add(making.release(&self.settings, true, out));
            }
        }
    }

    fn flush(&mut self, out: &mut Outbox) {
        for making in &mut self.making {
            making.release(&self.settings, true, out);
        }
    }
}

#[cfg(test)]
mod tests;
