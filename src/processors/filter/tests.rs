use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, ScopeMetrics, Sum};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::*;
use crate::telemetry::Telemetry;

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Any::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

fn number(key: &str, value: i64) -> KeyValue {
    let value = Some(AnyValue { value: Some(Any::IntValue(value)) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

/// Two Resources `web` and `db`, with the spans `GET /cart` (server, error, 500) and `ping` (internal) in each.
fn traces() -> Data {
    let block = |service: &str| {
        let cart = Span {
            name: "GET /cart".into(),
            kind: 2,
            status: Some(Status { code: 2, message: "late".into() }),
            attributes: vec![number("http.response.status_code", 500)],
            trace_id: vec![0xab; 16],
            ..Span::default()
        };
        let ping = Span { name: "ping".into(), kind: 1, ..Span::default() };
        ResourceSpans {
            resource: Some(Resource { attributes: vec![text("service.name", service)], ..Resource::default() }),
            scope_spans: vec![ScopeSpans { spans: vec![cart, ping], ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }
    };
    Data::Traces(vec![block("web"), block("db")])
}

fn filtered(yaml: &str, data: Data) -> (Option<Data>, Telemetry) {
    let telemetry = Telemetry::default();
    let context = BuildContext::new("filter".into(), telemetry.clone(), "0");
    let mut out = Outbox::default();
    build(&Body::from_yaml("processors::filter", yaml).unwrap(), &context).unwrap().process(data, &mut out);
    (out.drain().next(), telemetry)
}

/// The spans that stay, `service:name`.
fn staying(condition: &str) -> String {
    let yaml = format!("traces:\n  span:\n    - '{}'", condition.replace('\'', "''"));
    let Some(Data::Traces(blocks)) = filtered(&yaml, traces()).0 else { return String::new() };
    let mut names = Vec::new();
    for block in &blocks {
        let service = block.resource.as_ref().unwrap().attributes[0].value.as_ref().unwrap();
        let service = crate::pipeline::actions::text_of(service);
        names.extend(block.scope_spans[0].spans.iter().map(|span| format!("{service}:{}", span.name)));
    }
    names.join(" ")
}

#[test]
fn conditions_decide() {
    for (condition, expected) in [
        (r#"name == "ping""#, "web:GET /cart db:GET /cart"),
        (r#"span.name != "ping""#, "web:ping db:ping"),
        (r#"resource.attributes["service.name"] == "db""#, "web:GET /cart web:ping"),
        (r#"attributes["http.response.status_code"] >= 500"#, "web:ping db:ping"),
        (r#"attributes["http.response.status_code"] >= 499.5 and kind == SPAN_KIND_SERVER"#, "web:ping db:ping"),
        (r#"attributes["http.response.status_code"] == "500""#, "web:GET /cart web:ping db:GET /cart db:ping"),
        (r#"attributes["none"] == nil and not (name == "ping")"#, "web:ping db:ping"),
        (r#"IsMatch(name, "^GET /") and status.code == STATUS_CODE_ERROR"#, "web:ping db:ping"),
        (r#"name == "ping" or resource.attributes["service.name"] == "web""#, "db:GET /cart"),
        (r#"name == "ping" or name == "x" and kind == 1"#, "web:GET /cart db:GET /cart"),
        (r#"trace_id.string == "abababababababababababababababab""#, "web:ping db:ping"),
        ("true", ""),
    ] {
        assert_eq!(staying(condition), expected, "{condition}");
    }
}

#[test]
fn points_and_metrics_go_with_what_is_left_empty() {
    let point = |state: &str, value| NumberDataPoint {
        attributes: vec![text("state", state)],
        value: Some(number_data_point::Value::AsInt(value)),
        ..NumberDataPoint::default()
    };
    let metric = |name: &str| Metric {
        name: name.into(),
        data: Some(metric::Data::Sum(Sum {
            data_points: vec![point("running", 1), point("other", 0)],
            ..Sum::default()
        })),
        ..Metric::default()
    };
    let scope = ScopeMetrics { metrics: vec![metric("a"), metric("b")], ..ScopeMetrics::default() };
    let data = Data::Metrics(vec![ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() }]);
    let (left, telemetry) =
        filtered("{metrics: {metric: ['name == \"a\"'], datapoint: ['value_int == 0']}}", data.clone());
    let Some(Data::Metrics(blocks)) = left else { panic!("nothing left") };
    assert_eq!(blocks[0].scope_metrics[0].metrics.len(), 1);
    assert_eq!(blocks[0].scope_metrics[0].metrics[0].name, "b");
    assert_eq!(telemetry.sum("otelcol_processor_filter_datapoints.filtered"), 3);
    let (left, _) = filtered("{metrics: {datapoint: ['metric.type == METRIC_DATA_TYPE_SUM']}}", data);
    assert!(left.is_none(), "what is empty goes no further");
}

#[test]
fn what_is_outside_the_subset_is_told() {
    for (condition, expected) in [
        ("name", "expected a comparison"),
        (r#"Substring(name, 0, 1) == "a""#, "function `Substring` is not supported"),
        (r#"events["x"] == 1"#, "path `events[\"x\"]` is not supported"),
        (r#"name == "a"#, "quote is not closed"),
        (r#"name == "a" name == "b""#, "join conditions"),
        (r#"IsMatch(name, "(")"#, "regex parse error"),
        (r#"(name == "a""#, "expected `)` instead of the end"),
        ("name == $", "unexpected `$`"),
        ("", "ends too early"),
    ] {
        let why = parse(condition, Context::Span).unwrap_err();
        assert!(why.contains(expected), "{condition}: {why}");
    }
    let deep = format!("{}true{}", "(".repeat(60), ")".repeat(60));
    assert!(parse(&deep, Context::Span).unwrap_err().contains("nested deeper"));
    let body = Body::from_yaml("processors::filter", "{traces: {span: ['true', 'nope']}}").unwrap();
    let told = (FACTORY.settings.check)(&body).to_string();
    assert!(told.starts_with("processors::filter::traces::span::1: ") || told.contains("span::1"), "{told}");
}
