//! Pure: the items of OTLP as subjects of conditions.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::condition::{Path, Scalar, Subject};

/// What surrounds an item.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) resource: Option<&'a Resource>,
    pub(super) scope: Option<&'a InstrumentationScope>,
}

/// A span.
pub(super) struct SpanSubject<'a>(pub(super) Around<'a>, pub(super) &'a Span);

/// A metric.
pub(super) struct MetricSubject<'a>(pub(super) Around<'a>, pub(super) &'a Metric);

/// A metric point.
pub(super) struct PointSubject<'a> {
    pub(super) around: Around<'a>,
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) kind: i64,
    pub(super) attributes: &'a [KeyValue],
    pub(super) value: Option<number_data_point::Value>,
}

/// A log record.
pub(super) struct RecordSubject<'a>(pub(super) Around<'a>, pub(super) &'a LogRecord);

fn scalar(value: Option<&AnyValue>) -> Scalar {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => Scalar::Text(text.clone()),
        Some(Any::BoolValue(flag)) => Scalar::Bool(*flag),
        Some(Any::IntValue(number)) => Scalar::Int(*number),
        Some(Any::DoubleValue(number)) => Scalar::Double(*number),
        _ => Scalar::Nil,
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Scalar {
    scalar(attributes.iter().find(|one| one.key == key).and_then(|one| one.value.as_ref()))
}

fn hex(bytes: &[u8]) -> Scalar {
    Scalar::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn time(ns: u64) -> Scalar {
    Scalar::Int(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// The OTTL number of a metric's type.
pub(super) fn metric_kind(metric: &Metric) -> i64 {
    match metric.data {
        None => 0,
        Some(metric::Data::Gauge(_)) => 1,
        Some(metric::Data::Sum(_)) => 2,
        Some(metric::Data::Histogram(_)) => 3,
        Some(metric::Data::ExponentialHistogram(_)) => 4,
        Some(metric::Data::Summary(_)) => 5,
    }
}

impl Around<'_> {
    fn value(&self, path: &Path) -> Scalar {
        match path {
            Path::ResourceAttribute(key) => {
                self.resource.map_or(Scalar::Nil, |resource| attribute(&resource.attributes, key))
            }
            Path::ScopeName => self.scope.map_or(Scalar::Nil, |scope| Scalar::Text(scope.name.clone())),
            Path::ScopeVersion => self.scope.map_or(Scalar::Nil, |scope| Scalar::Text(scope.version.clone())),
            _ => Scalar::Nil,
        }
    }
}

impl Subject for SpanSubject<'_> {
    fn value(&self, path: &Path) -> Scalar {
        let Self(around, span) = self;
        let status = span.status.as_ref();
        match path {
            Path::Attribute(key) => attribute(&span.attributes, key),
            Path::Name => Scalar::Text(span.name.clone()),
            Path::Kind => Scalar::Int(span.kind.into()),
            Path::StatusCode => Scalar::Int(status.map_or(0, |status| status.code.into())),
            Path::StatusMessage => Scalar::Text(status.map_or_else(String::new, |status| status.message.clone())),
            Path::StartTime => time(span.start_time_unix_nano),
            Path::EndTime => time(span.end_time_unix_nano),
            Path::TraceId => hex(&span.trace_id),
            Path::SpanId => hex(&span.span_id),
            Path::ParentSpanId => hex(&span.parent_span_id),
            other => around.value(other),
        }
    }
}

impl Subject for MetricSubject<'_> {
    fn value(&self, path: &Path) -> Scalar {
        let Self(around, metric) = self;
        match path {
            Path::MetricName => Scalar::Text(metric.name.clone()),
            Path::MetricUnit => Scalar::Text(metric.unit.clone()),
            Path::MetricType => Scalar::Int(metric_kind(metric)),
            other => around.value(other),
        }
    }
}

impl Subject for PointSubject<'_> {
    fn value(&self, path: &Path) -> Scalar {
        match path {
            Path::Attribute(key) => attribute(self.attributes, key),
            Path::MetricName => Scalar::Text(self.name.to_owned()),
            Path::MetricUnit => Scalar::Text(self.unit.to_owned()),
            Path::MetricType => Scalar::Int(self.kind),
            Path::ValueInt => match self.value {
                Some(number_data_point::Value::AsInt(number)) => Scalar::Int(number),
                _ => Scalar::Nil,
            },
            Path::ValueDouble => match self.value {
                Some(number_data_point::Value::AsDouble(number)) => Scalar::Double(number),
                _ => Scalar::Nil,
            },
            other => self.around.value(other),
        }
    }
}

impl Subject for RecordSubject<'_> {
    fn value(&self, path: &Path) -> Scalar {
        let Self(around, record) = self;
        match path {
            Path::Attribute(key) => attribute(&record.attributes, key),
            Path::SeverityNumber => Scalar::Int(record.severity_number.into()),
            Path::SeverityText => Scalar::Text(record.severity_text.clone()),
            Path::Body => scalar(record.body.as_ref()),
            other => around.value(other),
        }
    }
}
