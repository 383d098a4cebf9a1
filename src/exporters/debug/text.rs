//! Pure: batches as text for people.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::pipeline::Data;

/// One line: how much there is.
pub(super) fn summary(data: &Data) -> String {
    let (resources, what) = match data {
        Data::Sched(_) => (1, "cycles"),
        Data::Traces(resources) => (resources.len(), "spans"),
        Data::Metrics(resources) => (resources.len(), "data points"),
        Data::Logs(resources) => (resources.len(), "log records"),
    };
    format!("{}: {} resources, {} {what}\n", data.signal(), resources, data.items())
}

/// One line for each item.
pub(super) fn lines(data: &Data) -> String {
    let mut text = String::new();
    each(data, |_, item| {
        let line = match item {
            Item::Span(span) => format!("{} {} {}", span.name, hex(&span.trace_id), hex(&span.span_id)),
            Item::Point(metric, value, _) => format!("{} {value}", metric.name),
            Item::Record(body) => body.map(any_value).unwrap_or_default(),
        };
        let attributes: Vec<String> =
            item.attributes().iter().map(|attribute| format!("{}={}", attribute.key, value(attribute))).collect();
        text.push_str(&format!("{line} {}\n", attributes.join(" ")));
    });
    text
}

/// Everything, a line for each fact.
pub(super) fn details(data: &Data) -> String {
    let mut text = String::new();
    let mut last: Option<*const Resource> = None;
    each(data, |resource, item| {
        let this = resource.map(std::ptr::from_ref);
        if this != last {
            last = this;
            text.push_str("Resource\n");
            text.push_str(&attributes(resource.map(|resource| resource.attributes.as_slice()).unwrap_or_default()));
        }
        match item {
            Item::Span(span) => text.push_str(&span_details(span)),
            Item::Point(metric, value, [start, end]) => text.push_str(&format!(
                "Point\n    Metric : {} [{}]\n    Value  : {value}\n    Start  : {}\n    Time   : {}\n",
                metric.name,
                metric.unit,
                time(*start),
                time(*end)
            )),
            Item::Record(body) => {
                text.push_str(&format!("Record\n    Body : {}\n", body.map(any_value).unwrap_or_default()))
            }
        }
        text.push_str(&attributes(item.attributes()));
    });
    text
}

fn span_details(span: &Span) -> String {
    let status = span.status.as_ref();
    format!(
        "Span\n    Trace ID  : {}\n    Parent ID : {}\n    ID        : {}\n    Name      : {}\n    Kind      : {:?}\n    \
         Start     : {}\n    End       : {}\n    Status    : {:?} {}\n",
        hex(&span.trace_id),
        hex(&span.parent_span_id),
        hex(&span.span_id),
        span.name,
        span.kind(),
        time(span.start_time_unix_nano),
        time(span.end_time_unix_nano),
        status.map(|status| status.code()).unwrap_or_default(),
        status.map(|status| status.message.as_str()).unwrap_or_default(),
    )
}

fn attributes(attributes: &[KeyValue]) -> String {
    attributes.iter().map(|attribute| format!("    -> {}: {}\n", attribute.key, value(attribute))).collect()
}

/// One item, with its attributes at hand.
enum Item<'a> {
    Span(&'a Span),
    /// The metric, the point's value in words, its start and end.
    Point(PointOf<'a>, String, [u64; 2]),
    Record(Option<&'a AnyValue>),
}

/// A metric and the attributes of one of its points.
struct PointOf<'a> {
    name: &'a str,
    unit: &'a str,
    attributes: &'a [KeyValue],
}

impl<'a> Item<'a> {
    fn attributes(&self) -> &'a [KeyValue] {
        match self {
            Self::Span(span) => &span.attributes,
            Self::Point(point, _, _) => point.attributes,
            Self::Record(_) => &[],
        }
    }
}

fn each<'a>(data: &'a Data, mut visit: impl FnMut(Option<&'a Resource>, &Item<'a>)) {
    match data {
        Data::Sched(_) => {}
        Data::Traces(resources) => {
            for resource in resources {
                for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
                    visit(resource.resource.as_ref(), &Item::Span(span));
                }
            }
        }
        Data::Metrics(resources) => {
            for resource in resources {
                for metric in resource.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
                    points(metric, |point| visit(resource.resource.as_ref(), &point));
                }
            }
        }
        Data::Logs(resources) => {
            for resource in resources {
                for record in resource.scope_logs.iter().flat_map(|scope| &scope.log_records) {
                    visit(resource.resource.as_ref(), &Item::Record(record.body.as_ref()));
                }
            }
        }
    }
}

fn points<'a>(metric: &'a Metric, mut visit: impl FnMut(Item<'a>)) {
    let mut point = |attributes: &'a [KeyValue], value: String, times: [u64; 2]| {
        visit(Item::Point(PointOf { name: &metric.name, unit: &metric.unit, attributes }, value, times));
    };
    let numbers = match &metric.data {
        Some(metric::Data::Gauge(gauge)) => gauge.data_points.as_slice(),
        Some(metric::Data::Sum(sum)) => sum.data_points.as_slice(),
        _ => &[],
    };
    for number in numbers {
        let value = match number.value {
            Some(number_data_point::Value::AsInt(value)) => value.to_string(),
            Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
            None => "none".to_owned(),
        };
        point(&number.attributes, value, [number.start_time_unix_nano, number.time_unix_nano]);
    }
    for histogram in histograms(metric) {
        point(histogram.0, histogram.1, histogram.2);
    }
}

/// Points that are more than a number: attributes, value in words, times.
fn histograms(metric: &Metric) -> Vec<(&[KeyValue], String, [u64; 2])> {
    let words = |count: u64, sum: Option<f64>| match sum {
        Some(sum) => format!("count={count} sum={sum}"),
        None => format!("count={count}"),
    };
    match &metric.data {
        Some(metric::Data::Histogram(data)) => (data.data_points.iter())
            .map(|point| {
                let value = format!(
                    "{} buckets={:?} bounds={:?}",
                    words(point.count, point.sum),
                    point.bucket_counts,
                    point.explicit_bounds
                );
                (point.attributes.as_slice(), value, [point.start_time_unix_nano, point.time_unix_nano])
            })
            .collect(),
        Some(metric::Data::ExponentialHistogram(data)) => (data.data_points.iter())
            .map(|point| {
                let value =
                    format!("{} scale={} zero={}", words(point.count, point.sum), point.scale, point.zero_count);
                (point.attributes.as_slice(), value, [point.start_time_unix_nano, point.time_unix_nano])
            })
            .collect(),
        Some(metric::Data::Summary(data)) => (data.data_points.iter())
            .map(|point| {
                let value = words(point.count, Some(point.sum));
                (point.attributes.as_slice(), value, [point.start_time_unix_nano, point.time_unix_nano])
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn value(attribute: &KeyValue) -> String {
    attribute.value.as_ref().map(any_value).unwrap_or_default()
}

fn any_value(any: &AnyValue) -> String {
    match &any.value {
        None => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(Value::BytesValue(bytes)) => hex(bytes),
        Some(Value::ArrayValue(array)) => {
            format!("[{}]", array.values.iter().map(any_value).collect::<Vec<_>>().join(", "))
        }
        Some(Value::KvlistValue(map)) => {
            let entries: Vec<_> = map.values.iter().map(|entry| format!("{}: {}", entry.key, value(entry))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Some(Value::StringValueStrindex(_)) => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn time(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(|_| unix_ns.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::{Gauge, NumberDataPoint, ResourceMetrics, ScopeMetrics};

    use super::*;

    #[test]
    fn each_verbosity_says_more() {
        let attribute = KeyValue {
            key: "linux.sched.state".into(),
            value: Some(AnyValue { value: Some(Value::StringValue("running".into())) }),
            ..KeyValue::default()
        };
        let point = NumberDataPoint {
            attributes: vec![attribute],
            time_unix_nano: 1_767_225_600_000_000_000,
            value: Some(number_data_point::Value::AsDouble(1.5)),
            ..NumberDataPoint::default()
        };
        let gauge = metric::Data::Gauge(Gauge { data_points: vec![point] });
        let metric =
            Metric { name: "linux.sched.time".into(), unit: "s".into(), data: Some(gauge), ..Metric::default() };
        let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
        let data = Data::Metrics(vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }]);
        assert_eq!(summary(&data), "Metrics: 1 resources, 1 data points\n");
        assert_eq!(lines(&data), "linux.sched.time 1.5 linux.sched.state=running\n");
        let details = details(&data);
        assert!(details.contains("Time   : 2026-01-01T00:00:00Z") && details.contains("-> linux.sched.state: running"));
    }
}
