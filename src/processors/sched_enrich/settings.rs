//! The keys of `processors::sched_enrich`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ByteSize, Checker, Period, Section};

/// Application spans that pass through `otlp` get what their threads suffered, as children and as sums.
///
/// A span names its thread: `process.pid` on its Resource (or on itself) and `thread.id`, the id that the operating
/// system knows, on itself. A span that names none, or another one than it ran on, passes as it came, and is counted.
/// So is what a runtime moved to another thread in between: it must have been on the CPU on the thread that it names
/// when it began and when it ended. The first spans of a process pass as they came too: its threads are watched from
/// then on. The keys of the history stand here, since nobody else asks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedEnrichSettings {
    /// Intervals of the thread become child spans, each under the innermost span that it lies in, of those that came in
    /// the same request or before.
    pub children: bool,
    /// Sums within a span's own time become its attributes.
    pub attributes: bool,
    /// How long all cycles of a process that sends spans are kept, outside the limits of `select`, 1s to 10m. Spans
    /// that come later than that after they began pass as they came, or say that they are incomplete.
    pub history: Period,
    /// Bound of that, all processes together; the oldest go first, and are counted.
    pub history_bytes: ByteSize,
    /// How long a request is held at most until its threads' cycles have come, 0s to 30s.
    pub wait: Period,
    /// Spans that are held at a time; what is over it passes as it came, and is counted.
    pub max_held_spans: usize,
    /// The longest intervals stay, the others are counted on the span.
    pub max_children_per_span: usize,
}

impl Default for SchedEnrichSettings {
    fn default() -> Self {
        Self {
            children: true,
            attributes: true,
            history: Period::secs(30),
            history_bytes: ByteSize::new(64 << 20),
            wait: Period::secs(2),
            max_held_spans: 20_000,
            max_children_per_span: 500,
        }
    }
}

impl Section for SchedEnrichSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let mut range = |key: &str, value: Period, low: Period, high: Period| {
            if value < low || value > high {
                at.problem(key, format!("{value} is out of range; {low} to {high} is allowed"));
            }
        };
        range("history", self.history, Period::secs(1), Period::secs(600));
        range("wait", self.wait, Period::default(), Period::secs(30));
        if self.history_bytes.get() < 1 << 20 {
            at.problem("history_bytes", "at least 1MiB is needed");
        }
        if self.max_held_spans == 0 {
            at.problem("max_held_spans", "at least 1 is needed");
        }
        if !(1..=10_000).contains(&self.max_children_per_span) {
            at.problem("max_children_per_span", "1 to 10000 is allowed");
        }
        if !self.children && !self.attributes {
            at.problem("attributes", "with `children` off as well nothing is left to do; remove the processor");
        }
    }
}
