//! Pure: the `service` section: which pipelines there are, and how the agent itself behaves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Opaque, Period, Section};

/// What runs, and how the agent reports on itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceSettings {
    /// Extensions to start, in this order; ids defined under `extensions`.
    pub extensions: Vec<String>,
    /// Pipelines by `traces`, `metrics` or `logs`, each with an optional `/name`.
    pub pipelines: BTreeMap<String, Option<PipelineSettings>>,
    /// How long a shutdown may drain what is queued.
    pub shutdown_timeout: Period,
    /// The agent's own logs and metrics.
    pub telemetry: TelemetrySettings,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            extensions: Vec::new(),
            pipelines: BTreeMap::new(),
            shutdown_timeout: Period::secs(10),
            telemetry: TelemetrySettings::default(),
        }
    }
}

impl Section for ServiceSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        for (index, reader) in self.telemetry.metrics.readers.iter().enumerate() {
            if reader.pull.is_some() == reader.periodic.is_some() {
                at.problem(
                    &format!("telemetry::metrics::readers::{index}"),
                    "a reader is either `pull` (Prometheus) or `periodic` (OTLP)",
                );
            }
        }
    }
}

/// One pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineSettings {
    /// Ids defined under `receivers`; at least one.
    pub receivers: Vec<String>,
    /// Ids defined under `processors`, in the order in which data passes them.
    pub processors: Vec<String>,
    /// Ids defined under `exporters`; at least one.
    pub exporters: Vec<String>,
}

impl Section for PipelineSettings {}

/// What the agent tells about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Its log.
    pub logs: LogSettings,
    /// Its counters.
    pub metrics: MetricSettings,
    /// Attributes of its own Resource, over `service.name`, `service.version` and `service.instance.id`; null removes one.
    pub resource: BTreeMap<String, Option<String>>,
}

/// The least severe line that is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What an operator reads.
    #[default]
    Info,
    /// What needs attention.
    Warn,
    /// What failed.
    Error,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogEncoding {
    /// Text for people.
    #[default]
    Console,
    /// One JSON object a line.
    Json,
}

/// The agent's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Lines below this are not written.
    pub level: LogLevel,
    /// Text or JSON.
    pub encoding: LogEncoding,
    /// Where lines go: `stderr`, `stdout` or file paths.
    pub output_paths: Vec<String>,
    /// Where the logger's own errors go.
    pub error_output_paths: Vec<String>,
    /// Thins out lines that repeat.
    pub sampling: LogSampling,
    /// Fields added to every line.
    pub initial_fields: BTreeMap<String, String>,
    /// Leaves the source position out.
    pub disable_caller: bool,
    /// Accepted for the Collector's sake; there are no stack traces here.
    pub disable_stacktrace: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            encoding: LogEncoding::Console,
            output_paths: vec!["stderr".into()],
            error_output_paths: vec!["stderr".into()],
            sampling: LogSampling::default(),
            initial_fields: BTreeMap::new(),
            disable_caller: false,
            disable_stacktrace: false,
        }
    }
}

/// In each `tick`, of lines with the same text, the first `initial` are written, then every `thereafter`th.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSampling {
    /// Whether repeated lines are thinned out.
    pub enabled: bool,
    /// The length of one count.
    pub tick: Period,
    /// Lines written in full in each tick.
    pub initial: u32,
    /// One line of this many is written after those; 0: none.
    pub thereafter: u32,
}

impl Default for LogSampling {
    fn default() -> Self {
        Self { enabled: true, tick: Period::secs(10), initial: 10, thereafter: 100 }
    }
}

/// How much the agent measures of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricLevel {
    /// Nothing.
    None,
    /// What dashboards need.
    Basic,
    /// The usual.
    #[default]
    Normal,
    /// All there is.
    Detailed,
}

/// The agent's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MetricSettings {
    /// How much is measured.
    pub level: MetricLevel,
    /// Who reads them.
    pub readers: Vec<MetricReader>,
}

impl Default for MetricSettings {
    fn default() -> Self {
        let pull = PullReader { exporter: PullExporter { prometheus: PrometheusSettings::default() } };
        Self { level: MetricLevel::Normal, readers: vec![MetricReader { pull: Some(pull), periodic: None }] }
    }
}

/// One reader of the agent's counters: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MetricReader {
    /// Waits to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullReader>,
    /// Sends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic: Option<PeriodicReader>,
}

/// A reader that is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PullReader {
    /// How it answers.
    pub exporter: PullExporter,
}

/// The ways to answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PullExporter {
    /// A page for Prometheus.
    pub prometheus: PrometheusSettings,
}

/// Where Prometheus finds the counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrometheusSettings {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on.
    pub port: u16,
    /// Leaves scope name and version out.
    pub without_scope_info: bool,
    /// Leaves units out of names, so that they keep the historic `otelcol_*` form.
    pub without_units: bool,
    /// Leaves `_total` out of names.
    pub without_type_suffix: bool,
}

impl Default for PrometheusSettings {
    fn default() -> Self {
        Self {
            host: "localhost".into(),
            port: 8888,
            without_scope_info: true,
            without_units: true,
            without_type_suffix: true,
        }
    }
}

/// A reader that sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodicReader {
    /// Milliseconds between two reports.
    pub interval: u64,
    /// Milliseconds that one report may take.
    pub timeout: u64,
    /// Where it sends.
    pub exporter: PeriodicExporter,
}

impl Default for PeriodicReader {
    fn default() -> Self {
        Self { interval: 60_000, timeout: 30_000, exporter: PeriodicExporter::default() }
    }
}

/// The ways to send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodicExporter {
    /// By OTLP.
    pub otlp: OtlpReaderSettings,
}

/// Where the agent's own counters are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpReaderSettings {
    /// How it is carried.
    pub protocol: OwnProtocol,
    /// The URL of the receiver; with `http/protobuf` the full one, path included.
    pub endpoint: String,
    /// Sent with each request.
    pub headers: BTreeMap<String, Opaque>,
}

impl Default for OtlpReaderSettings {
    fn default() -> Self {
        Self { protocol: OwnProtocol::Grpc, endpoint: "http://localhost:4317".into(), headers: BTreeMap::new() }
    }
}

/// How OTLP is carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OwnProtocol {
    /// gRPC.
    #[default]
    #[serde(rename = "grpc")]
    Grpc,
    /// HTTP with protobuf bodies.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}
