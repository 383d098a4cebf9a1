//! A real OpenTelemetry Collector: takes OTLP over gRPC and HTTP, writes what it got to files.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::{Map, Value};

use super::span::Span;
use crate::needs::part;
use crate::program::{Program, free_address};

/// A running Collector.
pub(crate) struct Collector {
    program: Program,
    folder: PathBuf,
    /// Where it takes OTLP over gRPC.
    pub(crate) grpc: SocketAddr,
    /// Where it takes OTLP over HTTP.
    pub(crate) http: SocketAddr,
}

/// One point of a sum, gauge or histogram.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) resource: Map<String, Value>,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) start_ns: u64,
    pub(crate) time_ns: u64,
    /// The value, or a histogram's sum.
    pub(crate) value: f64,
    /// A histogram's count.
    pub(crate) count: u64,
}

impl Collector {
    /// Starts one that writes into the folder; ready when it listens.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let (grpc, http) = (free_address()?, free_address()?);
        let config = folder.join("collector.yaml");
        let files = folder.display();
        let text = format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{grpc}'}}, http: {{endpoint: '{http}'}}}}}}}}\n\
             exporters:\n  file/traces: {{path: '{files}/traces.json'}}\n  file/metrics: {{path: '{files}/metrics.json'}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n\
             \x20   traces: {{receivers: [otlp], exporters: [file/traces]}}\n\
             \x20   metrics: {{receivers: [otlp], exporters: [file/metrics]}}\n"
        );
        fs::write(&config, text)?;
        let binary = part("collector").map_err(anyhow::Error::msg)?;
        let mut program = Program::start("collector", Command::new(binary).arg("--config").arg(&config), folder)?;
        for address in [grpc, http] {
            program.listens(address)?;
        }
        Ok(Self { program, folder: folder.to_owned(), grpc, http })
    }

    /// Ends it, so that everything is in its files.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.program.stop(Signal::TERM)?;
        Ok(())
    }

    /// Every metric point it got, in order.
    pub(crate) fn points(&self) -> Result<Vec<Point>> {
        points_in(&self.folder.join("metrics.json"))
    }

    /// Every span it got, in order.
    pub(crate) fn spans(&self) -> Result<Vec<Span>> {
        spans_in(&self.folder.join("traces.json"))
    }
}

/// Every span of a file of OTLP JSON lines, in order.
pub(crate) fn spans_in(file: &Path) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    for request in lines(file)? {
        for resource in list(&request, "resourceSpans") {
            let found = list(resource, "scopeSpans").flat_map(|scope| list(scope, "spans"));
            spans.extend(found.map(|span| self::span(&resource["resource"], span)));
        }
    }
    Ok(spans)
}

/// Every metric point of a file of OTLP JSON lines, the Collector's or the agent's own, in order.
pub(crate) fn points_in(file: &Path) -> Result<Vec<Point>> {
    Ok(lines(file)?.iter().flat_map(points_of).collect())
}

/// Every metric point of one request.
pub(crate) fn points_of(request: &Value) -> Vec<Point> {
    let mut points = Vec::new();
    for resource in list(request, "resourceMetrics") {
        for metric in list(resource, "scopeMetrics").flat_map(|scope| list(scope, "metrics")) {
            for kind in ["sum", "gauge", "histogram", "exponentialHistogram"] {
                let data = list(&metric[kind], "dataPoints");
                points.extend(data.map(|data| point(&resource["resource"], metric, data)));
            }
        }
    }
    points
}

/// The documents of a file of JSON lines; none where it was never written. A last line that is still being written is left out.
fn lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).with_context(|| format!("{}: not JSON: {line}", path.display())))
        .collect()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[key].as_array().into_iter().flatten()
}

fn point(resource: &Value, metric: &Value, data: &Value) -> Point {
    let value = ["asDouble", "asInt", "sum"].iter().find_map(|key| number(&data[*key])).unwrap_or_default();
    Point {
        metric: text(&metric["name"]),
        unit: text(&metric["unit"]),
        resource: attributes(resource),
        attributes: attributes(data),
        start_ns: whole(&data["startTimeUnixNano"]),
        time_ns: whole(&data["timeUnixNano"]),
        value,
        count: whole(&data["count"]),
    }
}

fn span(resource: &Value, span: &Value) -> Span {
    Span {
        trace_id: text(&span["traceId"]),
        span_id: text(&span["spanId"]),
        parent_id: text(&span["parentSpanId"]),
        name: text(&span["name"]),
        start_ns: whole(&span["startTimeUnixNano"]),
        end_ns: whole(&span["endTimeUnixNano"]),
        attributes: attributes(span),
        resource: attributes(resource),
    }
}

/// OTLP JSON's attributes as a plain object.
fn attributes(of: &Value) -> Map<String, Value> {
    list(of, "attributes").map(|pair| (text(&pair["key"]), any_value(&pair["value"]))).collect()
}

fn any_value(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else { return Value::Null };
    match kind.as_str() {
        "intValue" => Value::from(number(inner).unwrap_or_default() as i64),
        "arrayValue" => list(inner, "values").map(any_value).collect(),
        _ => inner.clone(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// OTLP JSON writes 64-bit integers as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn whole(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}
