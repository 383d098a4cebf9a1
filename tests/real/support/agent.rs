//! The agent under test: the binary that cargo built, with a config that the test writes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::collector::Collector;
use super::jaeger::Jaeger;
use crate::program::Program;

/// How it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Http,
}

/// A running agent.
pub(crate) struct Agent {
    program: Program,
}

impl Agent {
    /// Starts it with this config; ready when it says so.
    pub(crate) fn start(folder: &Path, config: &str) -> Result<Self> {
        let file = folder.join("agent.yaml");
        fs::write(&file, config)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedscope"));
        command.arg("--config").arg(&file);
        let mut program = Program::start("schedscope", &mut command, folder)?;
        program.says("Everything is ready")?;
        Ok(Self { program })
    }

    /// Starts one of several behind a command that becomes it, with this name for its config and log.
    pub(crate) fn start_as(name: &'static str, mut wrapper: Command, folder: &Path, config: &str) -> Result<Self> {
        let file = folder.join(format!("{name}.yaml"));
        fs::write(&file, config)?;
        wrapper.arg(env!("CARGO_BIN_EXE_schedscope")).arg("--config").arg(&file);
        let mut program = Program::start(name, &mut wrapper, folder)?;
        program.says("Everything is ready")?;
        Ok(Self { program })
    }

    /// Waits until it has said that.
    pub(crate) fn says(&mut self, words: &str) -> Result<()> {
        self.program.says(words)
    }

    /// Memory that it holds now.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.program.pid().as_raw_nonzero()))?;
        let pages: f64 = text.split(' ').nth(1).context("statm")?.parse()?;
        Ok(pages * rustix::param::page_size() as f64 / f64::from(1 << 20))
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus> {
        self.program.stop(Signal::INT)
    }

    /// What it has logged and printed.
    pub(crate) fn output(&self) -> String {
        self.program.output()
    }
}

/// The pipelines of the design, in windows short enough for a test: traces to Jaeger and the Collector, metrics to the Collector.
pub(crate) fn to_collector_and_jaeger(protocol: Protocol, collector: &Collector, jaeger: &Jaeger) -> String {
    let (exporter, scheme, collector, jaeger) = match protocol {
        Protocol::Grpc => ("otlp_grpc", "", collector.grpc, jaeger.grpc),
        Protocol::Http => ("otlp_http", "http://", collector.http, jaeger.http),
    };
    format!(
        "receivers:
  sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{rate_per_cgroup: 0}}}}
processors:
  container: {{}}
  sched_spans: {{window: 2s}}
  sched_metrics: {{}}
  batch: {{}}
exporters:
  {exporter}/collector: {{endpoint: '{scheme}{collector}', tls: {{insecure: true}}}}
  {exporter}/jaeger: {{endpoint: '{scheme}{jaeger}', tls: {{insecure: true}}}}
service:
  pipelines:
    traces: {{receivers: [sched], processors: [container, sched_spans, batch], exporters: [{exporter}/collector, {exporter}/jaeger]}}
    metrics: {{receivers: [sched], processors: [container, sched_metrics, batch], exporters: [{exporter}/collector]}}
"
    )
}

/// Metrics alone, to the Collector.
pub(crate) fn to_collector(protocol: Protocol, collector: &Collector) -> String {
    let (exporter, endpoint) = match protocol {
        Protocol::Grpc => ("otlp_grpc", collector.grpc.to_string()),
        Protocol::Http => ("otlp_http", format!("http://{}", collector.http)),
    };
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}}}
processors: {{container: {{}}, sched_metrics: {{}}, batch: {{}}}}
exporters: {{{exporter}: {{endpoint: '{endpoint}', tls: {{insecure: true}}}}}}
service:
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics, batch], exporters: [{exporter}]}}
"
    )
}

/// Metrics to the first file, spans in windows of a second to the other, the agent's own metrics on a page.
pub(crate) fn to_files(sched: &str, files: &[PathBuf; 2], page: SocketAddr) -> String {
    format!(
        "receivers: {{sched: {sched}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_metrics: {{}}, sched_spans: {{window: 1s}}}}
exporters: {{file/metrics: {{path: '{}'}}, file/spans: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: detailed, readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {}}}}}}}}}]}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file/metrics]}}
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file/spans]}}
",
        files[0].display(),
        files[1].display(),
        page.port()
    )
}
