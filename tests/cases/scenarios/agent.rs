//! The agent of a scenario: the binary that cargo built, its config, and what it tells of itself.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::program::{Program, eventually, free_address};

/// A running agent with its page of own counters.
pub(super) struct Agent {
    /// Its config and its log.
    _folder: TempDir,
    pub(super) program: Program,
    page: SocketAddr,
}

/// A config of one pipeline, in the words that scenarios change.
pub(super) struct Config<'a> {
    /// Body of `receivers::sched`, beside the interval.
    pub(super) sched: &'a str,
    /// Body of `processors::container`, beside that nobody is asked for names.
    pub(super) container: &'a str,
    /// Body of `processors::sched_metrics`.
    pub(super) metrics: &'a str,
    /// Send spans too.
    pub(super) spans: bool,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Self { sched: "", container: "kubernetes: {source: none}", metrics: "", spans: false }
    }
}

impl Config<'_> {
    /// From the kernel to an OTLP endpoint, once a second.
    pub(super) fn to(&self, endpoint: SocketAddr) -> String {
        let traces = "    traces: {receivers: [sched], processors: [container, sched_spans], exporters: [otlp_grpc]}\n";
        format!(
            "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, {}}}}}
processors: {{container: {{runtimes: [], {}}}, sched_metrics: {{{}}}, sched_spans: {{window: 1s}}}}
exporters: {{otlp_grpc: {{endpoint: '{endpoint}', tls: {{insecure: true}}, retry_on_failure: {{initial_interval: 100ms, max_interval: 500ms}}}}}}
service:
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [otlp_grpc]}}
{}",
            self.sched,
            self.container,
            self.metrics,
            if self.spans { traces } else { "" }
        )
    }
}

impl Agent {
    /// Starts it behind a wrapper (which becomes it, or has it as its child) without waiting.
    pub(super) fn spawn(wrapper: &[&str], config: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let page = free_address()?;
        let file = folder.path().join("agent.yaml");
        let text = format!(
            "{config}\n  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {}}}}}}}}}]}}}}\n",
            page.port()
        );
        fs::write(&file, text)?;
        let mut line: Vec<&str> = wrapper.to_vec();
        line.push(env!("CARGO_BIN_EXE_schedscope"));
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).arg("--config").arg(&file);
        let program = Program::start("schedscope", &mut command, folder.path())?;
        Ok(Self { _folder: folder, program, page })
    }

    /// Starts it and waits until it is ready.
    pub(super) fn start(wrapper: &[&str], config: &str) -> Result<Self> {
        let mut agent = Self::spawn(wrapper, config)?;
        agent.program.says("Everything is ready")?;
        Ok(agent)
    }

    /// What it has logged.
    pub(super) fn log(&self) -> String {
        self.program.output()
    }

    /// Ends it as an orchestrator does.
    pub(super) fn stop(&mut self) -> Result<ExitStatus> {
        self.program.stop(Signal::TERM).with_context(|| self.log())
    }

    /// The sum of one of its own counters over all attributes that contain `with`.
    pub(super) fn counter(&self, name: &str, with: &str) -> Result<f64> {
        let page = http_get(self.page, "/metrics")?;
        let lines = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(with)
        });
        Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }

    /// Resident memory in MiB.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        Ok(self.counter("otelcol_process_memory_rss", "")? / f64::from(1 << 20))
    }

    /// Waits for something of it, and shows its log where that does not come.
    pub(super) fn waits<T>(&self, what: &str, seconds: u64, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        eventually(what, Duration::from_secs(seconds), ask).with_context(|| self.log())
    }
}

fn http_get(address: SocketAddr, path: &str) -> Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}
