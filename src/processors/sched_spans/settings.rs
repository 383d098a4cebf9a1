//! The keys of `processors::sched_spans`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Opaque, Period, Section};
use crate::model::ContextSource;

/// Where a span's parent may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attach {
    /// The thread-context record of OTEP 4947.
    ThreadContext,
    /// The pinned map that other eBPF instrumentation publishes.
    #[serde(rename = "traces_ctx_v1")]
    TracesCtxV1,
    /// Application spans that pass through the `otlp` receiver.
    Otlp,
}

impl Attach {
    /// How a cycle tells that way.
    pub(super) fn source(self) -> ContextSource {
        match self {
            Self::ThreadContext => ContextSource::ThreadContext,
            Self::TracesCtxV1 => ContextSource::TracesCtxV1,
            Self::Otlp => ContextSource::Otlp,
        }
    }
}

/// Selected cycles as spans: a trace per container and window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedSpansSettings {
    /// Length of a standalone trace, 1s to 60s.
    pub window: Period,
    /// The most interesting stay, the rest is summed on the parent.
    pub max_spans_per_trace: usize,
    /// Where parents come from, in this order; empty: standalone only.
    pub attach: Vec<Attach>,
    /// Key of the id hashes; empty: derived from the machine id.
    pub id_key: Opaque,
    /// Span links from a wait to the traces of the containers and units that had the CPU meanwhile.
    pub links: bool,
    /// Shorter intervals are summed on their thread, and counted there.
    pub min_duration: Period,
}

impl Default for SchedSpansSettings {
    fn default() -> Self {
        Self {
            window: Period::secs(10),
            max_spans_per_trace: 2000,
            attach: vec![Attach::ThreadContext, Attach::TracesCtxV1],
            id_key: Opaque::default(),
            links: false,
            min_duration: Period::default(),
        }
    }
}

impl Section for SchedSpansSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.window < Period::secs(1) || self.window > Period::secs(60) {
            at.problem("window", format!("{} is out of range; 1s to 60s is allowed", self.window));
        }
        if self.attach.contains(&Attach::Otlp) {
            at.problem(
                "attach",
                "spans that pass through `otlp` are the work of the processor `sched_enrich`, in their own pipeline",
            );
        }
        if !(3..=100_000).contains(&self.max_spans_per_trace) {
            at.problem("max_spans_per_trace", "3 to 100000 is allowed");
        }
    }
}
