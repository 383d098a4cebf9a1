//! `filter`: drops spans, metrics, metric points and log records for which any of its conditions holds.
//!
//! Conditions are a subset of OTTL; what is outside it is a config error that says what there is. Scopes and
//! Resources that are left empty go too. Dropped items are counted.

mod condition;
mod parse;
mod paths;
mod subject;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, metric, number_data_point};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::condition::Condition;
use self::parse::parse;
use self::paths::Context;
use self::subject::{Around, MetricSubject, PointSubject, RecordSubject, SpanSubject, metric_kind};
use crate::config::{Body, Checker, Section};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::telemetry::Meter;

/// `filter`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "filter",
    aliases: &[],
    about: "Drops spans, metrics, points and log records by conditions",
    stability: "alpha",
    converts: &[(Signal::Traces, Signal::Traces), (Signal::Metrics, Signal::Metrics), (Signal::Logs, Signal::Logs)],
    needs_receiver: None,
    settings: Settings::of::<FilterSettings>(),
    build,
};

/// Keys of `filter`. Conditions: comparisons of paths and literals with ==, !=, <, <=, >, >=; and, or, not,
/// parentheses; IsMatch(path, "regex").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilterSettings {
    /// What happens when a condition fails; none of this subset can.
    pub error_mode: ErrorMode,
    /// Conditions about spans.
    pub traces: TraceConditions,
    /// Conditions about metrics and their points.
    pub metrics: MetricConditions,
    /// Conditions about log records.
    pub logs: LogConditions,
}

/// What happens when a condition fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorMode {
    /// Drop the data.
    #[default]
    Propagate,
    /// Log it and go on.
    Ignore,
    /// Go on.
    Silent,
}

/// Conditions about traces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceConditions {
    /// A span for which any of them holds is dropped.
    pub span: Vec<String>,
}

/// Conditions about metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MetricConditions {
    /// A metric for which any of them holds is dropped with all its points.
    pub metric: Vec<String>,
    /// A point for which any of them holds is dropped.
    pub datapoint: Vec<String>,
}

/// Conditions about logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogConditions {
    /// A record for which any of them holds is dropped.
    pub log_record: Vec<String>,
}

impl Section for FilterSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        for (key, conditions, context) in [
            ("traces::span", &self.traces.span, Context::Span),
            ("metrics::metric", &self.metrics.metric, Context::Metric),
            ("metrics::datapoint", &self.metrics.datapoint, Context::Datapoint),
            ("logs::log_record", &self.logs.log_record, Context::LogRecord),
        ] {
            for (index, text) in conditions.iter().enumerate() {
                if let Err(why) = parse(text, context) {
                    at.problem(&format!("{key}::{index}"), why);
                }
            }
        }
    }
}

fn build(body: &Body, context: &BuildContext) -> Built<dyn Processor> {
    let settings: FilterSettings = body.decode()?;
    let any = |texts: &[String], of| Condition::Any(texts.iter().filter_map(|text| parse(text, of).ok()).collect());
    let meter = |name, unit| context.telemetry.counter(name, unit, &[("filter", context.id.as_ref())]);
    Ok(Box::new(Filter {
        span: any(&settings.traces.span, Context::Span),
        metric: any(&settings.metrics.metric, Context::Metric),
        datapoint: any(&settings.metrics.datapoint, Context::Datapoint),
        record: any(&settings.logs.log_record, Context::LogRecord),
        spans_filtered: meter("otelcol_processor_filter_spans.filtered", "{span}"),
        points_filtered: meter("otelcol_processor_filter_datapoints.filtered", "{datapoint}"),
        records_filtered: meter("otelcol_processor_filter_logs.filtered", "{record}"),
    }))
}

struct Filter {
    span: Condition,
    metric: Condition,
    datapoint: Condition,
    record: Condition,
    spans_filtered: Meter,
    points_filtered: Meter,
    records_filtered: Meter,
}

impl Processor for Filter {
    fn process(&mut self, mut data: Data, out: &mut Outbox) {
        let before = data.items();
        let filtered = match &mut data {
            Data::Traces(resources) => {
                for block in resources.iter_mut() {
                    for part in &mut block.scope_spans {
                        let around = Around { resource: block.resource.as_ref(), scope: part.scope.as_ref() };
                        part.spans.retain(|span| !self.span.holds(&SpanSubject(around, span)));
                    }
                    block.scope_spans.retain(|part| !part.spans.is_empty());
                }
                resources.retain(|block| !block.scope_spans.is_empty());
                &self.spans_filtered
            }
            Data::Metrics(resources) => {
                self.metrics(resources);
                &self.points_filtered
            }
            Data::Logs(resources) => {
                for block in resources.iter_mut() {
                    for part in &mut block.scope_logs {
                        let around = Around { resource: block.resource.as_ref(), scope: part.scope.as_ref() };
                        part.log_records.retain(|record| !self.record.holds(&RecordSubject(around, record)));
                    }
                    block.scope_logs.retain(|part| !part.log_records.is_empty());
                }
                resources.retain(|block| !block.scope_logs.is_empty());
                &self.records_filtered
            }
            Data::Sched(_) => return out.send(data),
        };
        filtered.add((before - data.items()) as u64);
        out.send(data);
    }
}

impl Filter {
    fn metrics(&self, resources: &mut Vec<ResourceMetrics>) {
        for block in resources.iter_mut() {
            for part in &mut block.scope_metrics {
                let around = Around { resource: block.resource.as_ref(), scope: part.scope.as_ref() };
                part.metrics.retain(|metric| !self.metric.holds(&MetricSubject(around, metric)));
                part.metrics.retain_mut(|metric| self.keep_points(around, metric));
            }
            block.scope_metrics.retain(|part| !part.metrics.is_empty());
        }
        resources.retain(|block| !block.scope_metrics.is_empty());
    }

    /// Drops points; whether any is left.
    fn keep_points(&self, around: Around<'_>, metric: &mut Metric) -> bool {
        let kind = metric_kind(metric);
        let (name, unit) = (&metric.name, &metric.unit);
        let stays = |attributes: &[KeyValue], value: Option<number_data_point::Value>| {
            !self.datapoint.holds(&PointSubject { around, name, unit, kind, attributes, value })
        };
        match &mut metric.data {
            None => true,
            Some(metric::Data::Gauge(of)) => {
                of.data_points.retain(|point| stays(&point.attributes, point.value));
                !of.data_points.is_empty()
            }
            Some(metric::Data::Sum(of)) => {
                of.data_points.retain(|point| stays(&point.attributes, point.value));
                !of.data_points.is_empty()
            }
            Some(metric::Data::Histogram(of)) => {
                of.data_points.retain(|point| stays(&point.attributes, None));
                !of.data_points.is_empty()
            }
            Some(metric::Data::ExponentialHistogram(of)) => {
                of.data_points.retain(|point| stays(&point.attributes, None));
                !of.data_points.is_empty()
            }
            Some(metric::Data::Summary(of)) => {
                of.data_points.retain(|point| stays(&point.attributes, None));
                !of.data_points.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests;
