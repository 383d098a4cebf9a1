//! Pure: metrics and their points.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, SummaryDataPoint, exemplar, metric, number_data_point,
};

use super::common::{self, attribute};
use super::write::{Object, double, quoted};

pub(super) fn resource(out: &mut Vec<u8>, resource: &ResourceMetrics) {
    let mut object = Object::open(out);
    common::resource(&mut object, resource.resource.as_ref(), &resource.schema_url);
    object.list("scopeMetrics", &resource.scope_metrics, scope);
    object.close();
}

fn scope(out: &mut Vec<u8>, scope: &ScopeMetrics) {
    let mut object = Object::open(out);
    common::scope(&mut object, scope.scope.as_ref(), &scope.schema_url);
    object.list("metrics", &scope.metrics, one_metric);
    object.close();
}

fn one_metric(out: &mut Vec<u8>, metric: &Metric) {
    let mut object = Object::open(out);
    object.text("name", &metric.name);
    object.text("description", &metric.description);
    object.text("unit", &metric.unit);
    match &metric.data {
        None => {}
        Some(metric::Data::Gauge(gauge)) => points(&mut object, "gauge", &gauge.data_points, number, 0, false),
        Some(metric::Data::Sum(sum)) => {
            points(&mut object, "sum", &sum.data_points, number, sum.aggregation_temporality, sum.is_monotonic);
        }
        Some(metric::Data::Histogram(data)) => {
            points(&mut object, "histogram", &data.data_points, histogram, data.aggregation_temporality, false);
        }
        Some(metric::Data::ExponentialHistogram(data)) => {
            let temporality = data.aggregation_temporality;
            points(&mut object, "exponentialHistogram", &data.data_points, exponential, temporality, false);
        }
        Some(metric::Data::Summary(data)) => points(&mut object, "summary", &data.data_points, summary, 0, false),
    }
    object.list("metadata", &metric.metadata, attribute);
    object.close();
}

fn points<P>(
    object: &mut Object<'_>,
    kind: &str,
    points: &[P],
    point: fn(&mut Vec<u8>, &P),
    temporality: i32,
    monotonic: bool,
) {
    object.field(kind, |out| {
        let mut object = Object::open(out);
        object.list("dataPoints", points, point);
        object.number("aggregationTemporality", temporality.into());
        object.flag("isMonotonic", monotonic);
        object.close();
    });
}

fn number(out: &mut Vec<u8>, point: &NumberDataPoint) {
    let mut object = Object::open(out);
    object.list("attributes", &point.attributes, attribute);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    match point.value {
        Some(number_data_point::Value::AsDouble(value)) => object.double("asDouble", Some(value)),
        Some(number_data_point::Value::AsInt(value)) => object.field("asInt", |out| quoted(out, value)),
        None => {}
    }
    object.list("exemplars", &point.exemplars, one_exemplar);
    object.number("flags", point.flags.into());
    object.close();
}

fn histogram(out: &mut Vec<u8>, point: &HistogramDataPoint) {
    let mut object = Object::open(out);
    object.list("attributes", &point.attributes, attribute);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    object.long("count", point.count);
    object.double("sum", point.sum);
    object.list("bucketCounts", &point.bucket_counts, |out, count| quoted(out, count));
    object.list("explicitBounds", &point.explicit_bounds, |out, bound| double(out, *bound));
    object.list("exemplars", &point.exemplars, one_exemplar);
    object.number("flags", point.flags.into());
    object.double("min", point.min);
    object.double("max", point.max);
    object.close();
}

fn exponential(out: &mut Vec<u8>, point: &ExponentialHistogramDataPoint) {
    let mut object = Object::open(out);
    object.list("attributes", &point.attributes, attribute);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    object.long("count", point.count);
    object.double("sum", point.sum);
    object.number("scale", point.scale.into());
    object.long("zeroCount", point.zero_count);
    for (name, side) in [("positive", &point.positive), ("negative", &point.negative)] {
        if let Some(side) = side {
            object.field(name, |out| buckets(out, side));
        }
    }
    object.number("flags", point.flags.into());
    object.list("exemplars", &point.exemplars, one_exemplar);
    object.double("min", point.min);
    object.double("max", point.max);
    object.double("zeroThreshold", Some(point.zero_threshold).filter(|threshold| *threshold != 0.0));
    object.close();
}

fn buckets(out: &mut Vec<u8>, buckets: &Buckets) {
    let mut object = Object::open(out);
    object.number("offset", buckets.offset.into());
    object.list("bucketCounts", &buckets.bucket_counts, |out, count| quoted(out, count));
    object.close();
}

fn summary(out: &mut Vec<u8>, point: &SummaryDataPoint) {
    let mut object = Object::open(out);
    object.list("attributes", &point.attributes, attribute);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    object.long("count", point.count);
    object.double("sum", Some(point.sum));
    object.list("quantileValues", &point.quantile_values, quantile);
    object.number("flags", point.flags.into());
    object.close();
}

fn quantile(out: &mut Vec<u8>, value: &ValueAtQuantile) {
    let mut object = Object::open(out);
    object.double("quantile", Some(value.quantile));
    object.double("value", Some(value.value));
    object.close();
}

fn one_exemplar(out: &mut Vec<u8>, exemplar: &Exemplar) {
    let mut object = Object::open(out);
    object.list("filteredAttributes", &exemplar.filtered_attributes, attribute);
    object.long("timeUnixNano", exemplar.time_unix_nano);
    match exemplar.value {
        Some(exemplar::Value::AsDouble(value)) => object.double("asDouble", Some(value)),
        Some(exemplar::Value::AsInt(value)) => object.field("asInt", |out| quoted(out, value)),
        None => {}
    }
    object.id("spanId", &exemplar.span_id);
    object.id("traceId", &exemplar.trace_id);
    object.close();
}
