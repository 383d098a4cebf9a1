//! The agent's own counters, handed out to components; nothing here is global.
//!
//! A counter is one atomic that its component adds to; readers (`service::telemetry`, the end-of-run
//! line, tests) take a [`Telemetry::snapshot`]. Names are the Collector's `otelcol_*` for what a
//! Collector has too (otel.md 1.7). Refuses to know: how they are exported.

pub mod health;
pub mod otlp;
pub mod process;
pub mod prometheus;

pub use health::{Health, Phase};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sum or current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstrumentKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One series: a name with its attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesKey {
    /// Metric name.
    pub name: &'static str,
    /// Attributes, as given.
    pub attributes: Vec<(&'static str, String)>,
}

/// One series' value at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Name and attributes.
    pub key: SeriesKey,
    /// Sum or current value.
    pub kind: InstrumentKind,
    /// UCUM unit, such as `{span}`.
    pub unit: &'static str,
    /// The value.
    pub value: u64,
}

/// A handle to one series; cheap to clone and to add to.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Adds to a counter.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

type Instruments = BTreeMap<SeriesKey, (InstrumentKind, &'static str, Meter)>;

/// The registry. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    instruments: Arc<Mutex<Instruments>>,
    health: Health,
}

impl Telemetry {
    /// A counter; the same name and attributes give the same series.
    pub fn counter(&self, name: &'static str, unit: &'static str, attributes: &[(&'static str, &str)]) -> Meter {
        self.instrument(InstrumentKind::Counter, name, unit, attributes)
    }

    /// A gauge; the same name and attributes give the same series.
    pub fn gauge(&self, name: &'static str, unit: &'static str, attributes: &[(&'static str, &str)]) -> Meter {
        self.instrument(InstrumentKind::Gauge, name, unit, attributes)
    }

    fn instrument(
        &self,
        kind: InstrumentKind,
        name: &'static str,
        unit: &'static str,
        attributes: &[(&'static str, &str)],
    ) -> Meter {
        let attributes = attributes.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let mut instruments = self.instruments.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, _, meter) =
            instruments.entry(SeriesKey { name, attributes }).or_insert_with(|| (kind, unit, Meter::default()));
        meter.clone()
    }

    /// The agent's condition, which components report to.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Every series now, in order of name.
    pub fn snapshot(&self) -> Vec<Series> {
        let instruments = self.instruments.lock().unwrap_or_else(PoisonError::into_inner);
        let series = instruments.iter().map(|(key, (kind, unit, meter))| Series {
            key: key.clone(),
            kind: *kind,
            unit,
            value: meter.get(),
        });
        series.collect()
    }

    /// The sum of all series of one name.
    pub fn sum(&self, name: &str) -> u64 {
        self.snapshot().iter().filter(|series| series.key.name == name).map(|series| series.value).sum()
    }
}
