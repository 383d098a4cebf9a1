//! The keys of `processors::sched_metrics`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Section};

/// What a metric point is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A container, a systemd unit, or the host.
    #[default]
    Container,
    /// A process.
    Process,
    /// A thread.
    Thread,
}

/// How points relate in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Temporality {
    /// Since a start that does not move.
    #[default]
    Cumulative,
    /// Since the point before.
    Delta,
}

/// Form of the histograms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistogramForm {
    /// Explicit bounds, 1 us to 1 s.
    #[default]
    Explicit,
    /// Exponential buckets.
    Exponential,
}

/// The victim x culprit metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Contention {
    /// Culprits named per container; the rest is `other`.
    pub top: usize,
}

impl Default for Contention {
    fn default() -> Self {
        Self { top: 20 }
    }
}

/// Whether one metric is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Send it.
    pub enabled: bool,
}

/// Scheduling totals as OTLP metrics, per container, systemd unit and host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedMetricsSettings {
    /// What the points of time, context switches and migrations are about. By process or thread, each process has a
    /// Resource of its own, threads are told by `thread.id` and `thread.name`, and the container's own points hold
    /// the rest, with `otel.metric.overflow`: kernel threads, what lived for less than a collection, what found no room.
    /// All other metrics stay the container's.
    pub level: Level,
    /// Containers, systemd units and the host that have series of their own at the same time, and as many processes or
    /// threads; the rest is summed in points with `otel.metric.overflow`.
    pub max_series: usize,
    /// How points relate in time.
    pub temporality: Temporality,
    /// Form of the histograms.
    pub histogram: HistogramForm,
    /// The trace and span of an application that suffered it, on points of the wait and throttle histograms.
    pub exemplars: bool,
    /// Who had the CPU while a container waited.
    pub contention: Contention,
    /// Root of our own metric names.
    pub prefix: String,
    /// Metrics switched on or off by name.
    pub metrics: BTreeMap<String, Switch>,
}

impl Default for SchedMetricsSettings {
    fn default() -> Self {
        Self {
            level: Level::Container,
            max_series: 2000,
            temporality: Temporality::Cumulative,
            histogram: HistogramForm::Explicit,
            exemplars: true,
            contention: Contention::default(),
            prefix: "linux.sched".into(),
            metrics: BTreeMap::new(),
        }
    }
}

/// Every metric: its name after the prefix, and whether it is sent by default.
pub(super) const METRICS: [(&str, bool); 16] = [
    ("time", true),
    ("wait.duration", true),
    ("throttle.duration", true),
    ("run.duration", false),
    ("block.duration", false),
    ("process.context_switches", true),
    ("contention.time", true),
    ("wait.longest", true),
    ("wait.open", true),
    ("records.lost", true),
    ("migrations", false),
    ("quota.limit", true),
    ("quota.periods", true),
    ("pressure.time", true),
    ("steal.time", true),
    ("ext.active", true),
];

impl SchedMetricsSettings {
    /// The full name of a metric.
    pub(super) fn full_name(&self, short: &str) -> String {
        if short.starts_with("process.") { short.to_owned() } else { [self.prefix.as_str(), ".", short].concat() }
    }

    /// Whether a metric is sent.
    pub(super) fn sends(&self, short: &str) -> bool {
        let default = METRICS.iter().find(|(name, _)| *name == short).is_some_and(|(_, on)| *on);
        if self.metrics.is_empty() {
            // asked for each metric of each owner
            return default;
        }
        self.metrics.get(&self.full_name(short)).map_or(default, |switch| switch.enabled)
    }
}

impl Section for SchedMetricsSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let known: Vec<String> = METRICS.iter().map(|(short, _)| self.full_name(short)).collect();
        for name in self.metrics.keys().filter(|name| !known.contains(name)) {
            at.problem(&format!("metrics::{name}"), format!("no such metric; there are {}", known.join(", ")));
        }
        if !(2..=100_000).contains(&self.max_series) {
            at.problem("max_series", format!("{} is out of range; 2 to 100000 is allowed", self.max_series));
        }
        if self.histogram != HistogramForm::Explicit {
            at.problem(
                "histogram",
                "only `explicit` is built so far: exponential buckets that nest in the kernel's are not",
            );
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_';
        if self.prefix.is_empty() || !self.prefix.chars().all(fits) || self.prefix.ends_with('.') {
            at.problem("prefix", "must be lower-case words joined by dots, such as linux.sched");
        }
        if self.contention.top > 1000 {
            at.problem("contention::top", "at most 1000 culprits can be named per container");
        }
    }
}
