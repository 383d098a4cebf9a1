//! What travels between components.

use std::fmt;
use std::sync::Arc;

use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric};
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

use crate::model::SchedBatch;

/// The kinds of data that a component takes or gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Scheduling cycles and totals, our own model.
    Sched,
    /// OTLP spans.
    Traces,
    /// OTLP metric points.
    Metrics,
    /// OTLP log records, passed through from `otlp`.
    Logs,
}

impl fmt::Display for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sched => "Sched",
            Self::Traces => "Traces",
            Self::Metrics => "Metrics",
            Self::Logs => "Logs",
        })
    }
}

/// One batch of one signal.
#[derive(Debug, Clone)]
pub enum Data {
    /// Shared by the pipelines behind it; a processor that changes it uses `Arc::make_mut`.
    Sched(Arc<SchedBatch>),
    /// Spans by Resource and scope.
    Traces(Vec<ResourceSpans>),
    /// Metrics by Resource and scope.
    Metrics(Vec<ResourceMetrics>),
    /// Log records by Resource and scope.
    Logs(Vec<ResourceLogs>),
}

impl Data {
    /// Which signal it is.
    pub fn signal(&self) -> Signal {
        match self {
            Self::Sched(_) => Signal::Sched,
            Self::Traces(_) => Signal::Traces,
            Self::Metrics(_) => Signal::Metrics,
            Self::Logs(_) => Signal::Logs,
        }
    }

    /// Spans, metric points, log records or cycles in it.
    pub fn items(&self) -> usize {
        match self {
            Self::Sched(batch) => batch.cycles.len(),
            Self::Traces(resources) => {
                resources.iter().flat_map(|resource| &resource.scope_spans).map(|scope| scope.spans.len()).sum()
            }
            Self::Metrics(resources) => resources
                .iter()
                .flat_map(|resource| &resource.scope_metrics)
                .flat_map(|scope| &scope.metrics)
                .map(|metric| metric.data.as_ref().map_or(0, points))
                .sum(),
            Self::Logs(resources) => {
                resources.iter().flat_map(|resource| &resource.scope_logs).map(|scope| scope.log_records.len()).sum()
            }
        }
    }

    /// Nothing to send. (A Sched batch is never empty: it says how far time has come.)
    pub fn is_empty(&self) -> bool {
        !matches!(self, Self::Sched(_)) && self.items() == 0
    }
}

/// Points of one metric.
fn points(data: &metric::Data) -> usize {
    match data {
        metric::Data::Gauge(gauge) => gauge.data_points.len(),
        metric::Data::Sum(sum) => sum.data_points.len(),
        metric::Data::Histogram(histogram) => histogram.data_points.len(),
        metric::Data::ExponentialHistogram(histogram) => histogram.data_points.len(),
        metric::Data::Summary(summary) => summary.data_points.len(),
    }
}
