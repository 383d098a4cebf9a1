//! Pure: metrics as the bytes of their request, equal to those of prost in a fraction of the time. Kinds that no sender
//! of ours has stay with prost.

use bytes::Bytes;
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as OfExemplar;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as OfPoint;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use prost::Message as _;

use super::backward::Backward;
use super::resource::{RESOURCE_BYTES, attributes, resource, scope, signed};

/// Room for a metric with its points, which nearly all have enough of.
const METRIC_BYTES: usize = 320;

/// An `ExportMetricsServiceRequest` of these resources.
pub(super) fn encode(resources: &[ResourceMetrics]) -> Bytes {
    let metrics: usize = resources.iter().flat_map(|of| &of.scope_metrics).map(|scope| scope.metrics.len()).sum();
    let mut to = Backward::with_capacity(metrics * METRIC_BYTES + resources.len() * RESOURCE_BYTES);
    for resource in resources.iter().rev() {
        to.message(1, |to| resource_metrics(to, resource));
    }
    to.finish()
}

fn resource_metrics(to: &mut Backward, of: &ResourceMetrics) {
    to.bytes(3, of.schema_url.as_bytes());
    for scope in of.scope_metrics.iter().rev() {
        to.message(2, |to| scope_metrics(to, scope));
    }
    if let Some(resource) = &of.resource {
        to.message(1, |to| self::resource(to, resource));
    }
}

fn scope_metrics(to: &mut Backward, of: &ScopeMetrics) {
    to.bytes(3, of.schema_url.as_bytes());
    for metric in of.metrics.iter().rev() {
        to.message(2, |to| self::metric(to, metric));
    }
    if let Some(scope) = &of.scope {
        to.message(1, |to| self::scope(to, scope));
    }
}

fn metric(to: &mut Backward, of: &Metric) {
    attributes(to, 12, &of.metadata);
    match &of.data {
        None => {}
        Some(Data::Gauge(gauge)) => to.message(5, |to| numbers(to, &gauge.data_points)),
        Some(Data::Sum(sum)) => to.message(7, |to| {
            to.uint(3, u64::from(sum.is_monotonic));
            to.uint(2, signed(sum.aggregation_temporality));
            numbers(to, &sum.data_points);
        }),
        Some(Data::Histogram(histogram)) => to.message(9, |to| {
            to.uint(2, signed(histogram.aggregation_temporality));
            for point in histogram.data_points.iter().rev() {
                to.message(1, |to| histogram_point(to, point));
            }
        }),
        Some(Data::ExponentialHistogram(histogram)) => to.bytes_always(10, &histogram.encode_to_vec()),
        Some(Data::Summary(summary)) => to.bytes_always(11, &summary.encode_to_vec()),
    }
    to.bytes(3, of.unit.as_bytes());
    to.bytes(2, of.description.as_bytes());
    to.bytes(1, of.name.as_bytes());
}

fn numbers(to: &mut Backward, all: &[NumberDataPoint]) {
    for point in all.iter().rev() {
        to.message(1, |to| number(to, point));
    }
}

fn number(to: &mut Backward, of: &NumberDataPoint) {
    to.uint(8, u64::from(of.flags));
    attributes(to, 7, &of.attributes);
    exemplars(to, 5, &of.exemplars);
    // its lowest number orders a oneof
    match of.value {
        None => {}
        Some(OfPoint::AsDouble(number)) => to.fixed64_always(4, number.to_bits()),
        Some(OfPoint::AsInt(number)) => to.fixed64_always(6, number as u64),
    }
    to.fixed64(3, of.time_unix_nano);
    to.fixed64(2, of.start_time_unix_nano);
}

fn histogram_point(to: &mut Backward, of: &HistogramDataPoint) {
    let double = |to: &mut Backward, field, value: Option<f64>| {
        if let Some(value) = value {
            to.fixed64_always(field, value.to_bits());
        }
    };
    double(to, 12, of.max);
    double(to, 11, of.min);
    to.uint(10, u64::from(of.flags));
    attributes(to, 9, &of.attributes);
    exemplars(to, 8, &of.exemplars);
    to.packed(7, of.explicit_bounds.iter().map(|bound| bound.to_bits()));
    to.packed(6, of.bucket_counts.iter().copied());
    double(to, 5, of.sum);
    to.fixed64(4, of.count);
    to.fixed64(3, of.time_unix_nano);
    to.fixed64(2, of.start_time_unix_nano);
}

fn exemplars(to: &mut Backward, field: u32, all: &[Exemplar]) {
    for one in all.iter().rev() {
        to.message(field, |to| {
            attributes(to, 7, &one.filtered_attributes);
            to.bytes(5, &one.trace_id);
            to.bytes(4, &one.span_id);
            match one.value {
                None => {}
                Some(OfExemplar::AsDouble(number)) => to.fixed64_always(3, number.to_bits()),
                Some(OfExemplar::AsInt(number)) => to.fixed64_always(6, number as u64),
            }
            to.fixed64(2, one.time_unix_nano);
        });
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, Sum, Summary, SummaryDataPoint,
    };
    use proptest::prelude::*;

    use super::super::resource::any;
    use super::*;

    prop_compose! {
        fn exemplar()(
            filtered_attributes in any::attributes(),
            time_unix_nano in any::<u64>(),
            trace_id in prop::collection::vec(any::<u8>(), 0..17),
            span_id in prop::collection::vec(any::<u8>(), 0..9),
            value in prop::option::of(prop_oneof![
                any::<f64>().prop_map(OfExemplar::AsDouble), any::<i64>().prop_map(OfExemplar::AsInt),
            ]),
        ) -> Exemplar {
            Exemplar { filtered_attributes, time_unix_nano, trace_id, span_id, value }
        }
    }

    prop_compose! {
        fn number()(
            attributes in any::attributes(),
            times in any::<[u64; 2]>(),
            exemplars in prop::collection::vec(exemplar(), 0..3),
            flags in 0..3_u32,
            value in prop::option::of(prop_oneof![
                any::<f64>().prop_map(OfPoint::AsDouble), any::<i64>().prop_map(OfPoint::AsInt),
            ]),
        ) -> NumberDataPoint {
            let [start_time_unix_nano, time_unix_nano] = times;
            NumberDataPoint { attributes, start_time_unix_nano, time_unix_nano, exemplars, flags, value }
        }
    }

    prop_compose! {
        fn histogram()(
            attributes in any::attributes(),
            numbers in any::<[u64; 3]>(),
            doubles in any::<[Option<f64>; 3]>(),
            bucket_counts in prop::collection::vec(any::<u64>(), 0..20),
            explicit_bounds in prop::collection::vec(any::<f64>(), 0..20),
            exemplars in prop::collection::vec(exemplar(), 0..3),
            flags in 0..3_u32,
        ) -> HistogramDataPoint {
            let ([start_time_unix_nano, time_unix_nano, count], [sum, min, max]) = (numbers, doubles);
            HistogramDataPoint {
                attributes, start_time_unix_nano, time_unix_nano, count, sum, bucket_counts, explicit_bounds,
                exemplars, flags, min, max,
            }
        }
    }

    fn data() -> impl Strategy<Value = Data> {
        let numbers = || prop::collection::vec(number(), 0..4);
        let exponential = ExponentialHistogramDataPoint { scale: -3, count: 7, ..Default::default() };
        let exponential = ExponentialHistogram { data_points: vec![exponential], aggregation_temporality: 2 };
        let summary = Summary { data_points: vec![SummaryDataPoint { count: 7, ..Default::default() }] };
        prop_oneof![
            numbers().prop_map(|data_points| Data::Gauge(Gauge { data_points })),
            (numbers(), any::<i32>(), any::<bool>()).prop_map(
                |(data_points, aggregation_temporality, is_monotonic)| {
                    Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic })
                }
            ),
            (prop::collection::vec(histogram(), 0..3), 0..3).prop_map(|(data_points, aggregation_temporality)| {
                Data::Histogram(Histogram { data_points, aggregation_temporality })
            }),
            Just(Data::ExponentialHistogram(exponential)),
            Just(Data::Summary(summary)),
        ]
    }

    fn metric() -> impl Strategy<Value = Metric> {
        let texts = (".*", ".*", ".*");
        let all = (texts, any::attributes(), prop::option::of(data()));
        all.prop_map(|((name, description, unit), metadata, data)| Metric { name, description, unit, metadata, data })
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_prost(
            metrics in prop::collection::vec(metric(), 0..6),
            resource in any::resource(),
            scope in any::scope(),
            url in ".*",
            copies in 0..10_usize,
        ) {
            let of_one = ScopeMetrics { scope: Some(scope), metrics, schema_url: url.clone() };
            let one = ResourceMetrics {
                resource: Some(resource),
                scope_metrics: vec![of_one.clone(), ScopeMetrics { scope: None, ..of_one }, ScopeMetrics::default()],
                schema_url: url,
            };
            let mut resource_metrics = vec![one; copies];
            resource_metrics.push(ResourceMetrics::default());
            let bytes = encode(&resource_metrics);
            prop_assert_eq!(bytes, ExportMetricsServiceRequest { resource_metrics }.encode_to_vec());
        }
    }
}
