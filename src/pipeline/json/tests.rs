use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, exemplar, exponential_histogram_data_point::Buckets, metric,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use serde_json::{Value, json};

use super::*;

fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn traces() -> Data {
    let nested = KeyValueList { values: vec![attribute("é\"\n", any_value::Value::BytesValue(vec![0, 255, 1]))] };
    let several = ArrayValue { values: vec![AnyValue { value: Some(any_value::Value::BoolValue(false)) }] };
    let span = Span {
        trace_id: (0..16).map(|at| at * 16 + at).collect(),
        span_id: vec![0x9a, 11, 0x1c, 0x2d, 0x3e, 0x4f, 0x50, 0x61],
        name: "sched.run".into(),
        kind: 1,
        start_time_unix_nano: 1_767_225_600_300_000_000,
        end_time_unix_nano: 1_767_225_601_300_000_000,
        attributes: vec![
            attribute("thread.id", any_value::Value::IntValue(-4711)),
            attribute("many", any_value::Value::ArrayValue(several)),
            attribute("map", any_value::Value::KvlistValue(nested)),
        ],
        events: vec![Event { time_unix_nano: 7, name: "e".into(), ..Event::default() }],
        links: vec![Link { trace_id: vec![1; 16], span_id: vec![2; 8], ..Link::default() }],
        status: Some(Status { code: 2, message: "bad".into() }),
        ..Span::default()
    };
    let resource =
        Resource { attributes: vec![attribute("r", any_value::Value::DoubleValue(0.5))], ..Resource::default() };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    Data::Traces(vec![ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() }])
}

fn metrics() -> Data {
    let of = |name: &str, data| Metric { name: name.into(), unit: "s".into(), data: Some(data), ..Metric::default() };
    let exemplar = Exemplar { span_id: vec![3; 8], value: Some(exemplar::Value::AsInt(5)), ..Exemplar::default() };
    let number = |value| NumberDataPoint {
        time_unix_nano: u64::MAX,
        value: Some(value),
        exemplars: vec![exemplar.clone()],
        ..NumberDataPoint::default()
    };
    let histogram = HistogramDataPoint {
        count: 3,
        sum: Some(1.5),
        bucket_counts: vec![1, 0, 2],
        explicit_bounds: vec![0.001, 1.0],
        ..HistogramDataPoint::default()
    };
    let exponential = ExponentialHistogramDataPoint {
        count: 2,
        scale: -3,
        positive: Some(Buckets { offset: -7, bucket_counts: vec![2] }),
        zero_threshold: 1e-9,
        ..ExponentialHistogramDataPoint::default()
    };
    let metrics = vec![
        of(
            "g",
            metric::Data::Gauge(Gauge {
                data_points: vec![
                    number(number_data_point::Value::AsInt(0)),
                    number(number_data_point::Value::AsDouble(2.0)),
                ],
            }),
        ),
        of("h", metric::Data::Histogram(Histogram { data_points: vec![histogram], aggregation_temporality: 2 })),
        of(
            "x",
            metric::Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential],
                aggregation_temporality: 1,
            }),
        ),
    ];
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    Data::Metrics(vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }])
}

/// The generated types read back what is written here.
#[test]
fn the_generated_types_read_it_back() {
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Line {
        resource_spans: Vec<ResourceSpans>,
        resource_metrics: Vec<ResourceMetrics>,
    }
    let read = |data: &Data| serde_json::from_slice::<Line>(&encode(data)).unwrap();
    assert!(matches!(traces(), Data::Traces(resources) if resources == read(&traces()).resource_spans));
    assert!(matches!(metrics(), Data::Metrics(resources) if resources == read(&metrics()).resource_metrics));
}

#[test]
fn the_text_is_as_the_specification_has_it() {
    let text: Value = serde_json::from_slice(&encode(&traces())).unwrap();
    let span = &text["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "00112233445566778899aabbccddeeff");
    assert_eq!(span["startTimeUnixNano"], "1767225600300000000");
    assert_eq!(span["kind"], 1);
    assert_eq!(span["attributes"][0], json!({"key": "thread.id", "value": {"intValue": "-4711"}}));
    assert_eq!(span["attributes"][2]["value"]["kvlistValue"]["values"][0]["value"], json!({"bytesValue": "AP8B"}));
    assert!(span.get("parentSpanId").is_none());
    let text: Value = serde_json::from_slice(&encode(&metrics())).unwrap();
    let metrics = &text["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics[0]["gauge"]["dataPoints"][0]["asInt"], "0");
    assert_eq!(metrics[1]["histogram"]["dataPoints"][0]["bucketCounts"], json!(["1", "0", "2"]));
    assert_eq!(metrics[1]["histogram"]["aggregationTemporality"], 2);
}

#[test]
fn doubles_that_are_not_finite_are_text() {
    for (value, text) in
        [(f64::NAN, r#""NaN""#), (f64::INFINITY, r#""Infinity""#), (f64::NEG_INFINITY, r#""-Infinity""#), (0.5, "0.5")]
    {
        let mut out = Vec::new();
        common::any_value(&mut out, &AnyValue { value: Some(any_value::Value::DoubleValue(value)) });
        assert_eq!(String::from_utf8(out).unwrap(), format!("{{\"doubleValue\":{text}}}"));
    }
}
