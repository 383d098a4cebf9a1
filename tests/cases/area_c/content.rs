//! What is in a request: its size, its texts, its JSON.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use schedscope::pipeline::delivery::Sizer;
use schedscope::pipeline::delivery::split::split;
use schedscope::pipeline::{Data, client::payload, json as otlp_json};
use schedscope::timeline::Comm;
use serde_json::{Value, json};

use super::{bytes_of_hex, check, count, text};

fn request(spans: Vec<Span>) -> Data {
    let scope_spans = vec![ScopeSpans { spans, schema_url: "scope".into(), ..ScopeSpans::default() }];
    Data::Traces(vec![ResourceSpans { scope_spans, schema_url: "resource".into(), ..ResourceSpans::default() }])
}

/// A span of so many bytes.
fn span(number: u64, bytes: u64) -> Span {
    let mut span = Span {
        trace_id: (number / 100).to_be_bytes().repeat(2),
        span_id: (number + 1).to_be_bytes().to_vec(),
        parent_span_id: if number.is_multiple_of(100) { Vec::new() } else { vec![1; 8] },
        ..Span::default()
    };
    let room = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(span.encoded_len() + 4);
    span.name = "x".repeat(room);
    span
}

pub fn batch(case: &Value, expect: &Value) -> Result<(), String> {
    let mut spans: Vec<Span> =
        (0..count(case, "spans")).map(|number| span(number, count(case, "bytes_per_span"))).collect();
    let oversize = ["oversize_span_bytes", "one_span_bytes", "big_span_bytes"].map(|key| count(case, key));
    spans.extend(oversize.iter().filter(|bytes| **bytes > 0).map(|bytes| span(1 << 40, *bytes)));
    let split = split(request(spans), count(case, "max_request_bytes"), Sizer::Bytes);
    let largest = split.parts.iter().map(|part| payload::encode(part).len()).max().unwrap_or(0);
    let sum: usize = split.parts.iter().map(Data::items).sum();
    for part in &split.parts {
        let Data::Traces(resources) = part else { return Err("not spans".to_owned()) };
        let kept = |resource: &ResourceSpans| {
            resource.schema_url == "resource" && resource.scope_spans.iter().all(|scope| scope.schema_url == "scope")
        };
        if !resources.iter().all(kept) {
            return Err("a part lost its resource or scope".to_owned());
        }
    }
    let mut expect = expect.clone();
    if let Some(most) = expect.as_object_mut().and_then(|expect| expect.remove("every_request_at_most"))
        && most.as_u64().is_some_and(|most| largest as u64 > most)
    {
        return Err(format!("a request of {largest} bytes, at most {most} expected"));
    }
    let oversize = split.oversize_items;
    check(&expect, &json!({"sum_of_spans": sum, "dropped": oversize, "requests": split.parts.len()}))
}

pub fn utf8(case: &Value, expect: &Value) -> Result<(), String> {
    let name = Comm::new(&bytes_of_hex(text(case, "comm_hex"))).text();
    let value = AnyValue { value: Some(any_value::Value::StringValue(name.to_string())) };
    let attribute = KeyValue { key: "thread.name".into(), value: Some(value), ..KeyValue::default() };
    let bytes = payload::encode(&request(vec![Span { attributes: vec![attribute], ..span(1, 0) }]));
    // A receiver decodes strings strictly: invalid UTF-8 is an error.
    let valid = opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest::decode(bytes).is_ok();
    check(expect, &json!({"attribute_value": name.as_ref(), "request_is_valid_utf8": valid}))
}

pub fn json(case: &Value, expect: &Value) -> Result<(), String> {
    match (case.get("span"), case.get("double_values").and_then(Value::as_array)) {
        (Some(span), _) => json_span(span, expect),
        (None, Some(values)) => json_doubles(values, expect),
        (None, None) => Err("neither a span nor doubles".to_owned()),
    }
}

fn written(span: Span) -> Result<Value, String> {
    let text = otlp_json::encode(&request(vec![span]));
    let text: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    text.pointer("/resourceSpans/0/scopeSpans/0/spans/0").cloned().ok_or_else(|| text.to_string())
}

fn any(value: &Value) -> any_value::Value {
    match value {
        Value::Bool(value) => any_value::Value::BoolValue(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => any_value::Value::IntValue(value),
            None => any_value::Value::DoubleValue(number.as_f64().unwrap_or(f64::NAN)),
        },
        other => any_value::Value::StringValue(other.as_str().map_or_else(|| other.to_string(), str::to_owned)),
    }
}

fn json_span(given: &Value, expect: &Value) -> Result<(), String> {
    let attribute = |(key, value): (&String, &Value)| KeyValue {
        key: key.clone(),
        value: Some(AnyValue { value: Some(any(value)) }),
        ..KeyValue::default()
    };
    let kinds = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"];
    let kind = kinds.iter().position(|kind| *kind == text(given, "kind")).unwrap_or(0);
    let got = written(Span {
        trace_id: bytes_of_hex(text(given, "trace_id_hex")),
        span_id: bytes_of_hex(text(given, "span_id_hex")),
        parent_span_id: bytes_of_hex(text(given, "parent")),
        name: text(given, "name").to_owned(),
        kind: i32::try_from(kind).unwrap_or(0),
        start_time_unix_nano: count(given, "start_ns"),
        end_time_unix_nano: count(given, "end_ns"),
        attributes: given.get("attr").and_then(Value::as_object).into_iter().flatten().map(attribute).collect(),
        ..Span::default()
    })?;
    if let Some(subset) = expect.get("json_subset") {
        check(subset, &got)?;
    }
    if let Some(parent) = expect.get("parentSpanId") {
        let absent = json!("absent");
        check(parent, got.get("parentSpanId").unwrap_or(&absent))?;
    }
    Ok(())
}

fn json_doubles(values: &[Value], expect: &Value) -> Result<(), String> {
    let mut got = Vec::new();
    for value in values {
        let double = match value.as_str() {
            Some("NaN") => f64::NAN,
            Some("+Inf" | "Inf" | "Infinity") => f64::INFINITY,
            Some("-Inf" | "-Infinity") => f64::NEG_INFINITY,
            _ => value.as_f64().ok_or("not a double")?,
        };
        let value = Some(AnyValue { value: Some(any_value::Value::DoubleValue(double)) });
        let attributes = vec![KeyValue { key: "d".into(), value, ..KeyValue::default() }];
        let span = written(Span { attributes, ..Span::default() })?;
        got.push(span.pointer("/attributes/0/value/doubleValue").cloned().unwrap_or_default());
    }
    check(expect, &json!({"json_values": got}))
}
