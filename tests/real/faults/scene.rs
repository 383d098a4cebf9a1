//! The agent and the Collector of the fault run, and what is done to them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::needs::part;
use crate::program::{Program, eventually, free_address};

/// Where both programs listen, and where they write.
pub(super) struct Places {
    pub(super) agent: SocketAddr,
    pub(super) collector: SocketAddr,
    /// The agent's own counters, for configs that serve them.
    pub(super) page: SocketAddr,
    pub(super) folder: PathBuf,
}

/// Both programs.
pub(super) struct Scene {
    pub(super) places: Places,
    config: fn(&Places) -> String,
    agent: Option<Program>,
    collector: Option<Program>,
}

impl Scene {
    pub(super) fn start(folder: &Path, config: fn(&Places) -> String) -> Result<Self> {
        let places = Places {
            agent: free_address()?,
            collector: free_address()?,
            page: free_address()?,
            folder: folder.to_owned(),
        };
        let mut scene = Self { places, config, agent: None, collector: None };
        scene.write_agent_config()?;
        scene.start_collector()?;
        scene.start_agent()?;
        Ok(scene)
    }

    pub(super) fn agent(&mut self) -> Result<&mut Program> {
        self.agent.as_mut().context("no agent")
    }

    pub(super) fn wait(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    pub(super) fn start_agent(&mut self) -> Result<()> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedscope"));
        command.arg("--config").arg(self.places.folder.join("agent.yaml"));
        let mut agent = Program::start("schedscope", &mut command, &self.places.folder)?;
        agent.listens(self.places.agent)?;
        self.agent = Some(agent);
        Ok(())
    }

    /// SIGKILL, as the end of a `Program` does it.
    pub(super) fn kill_agent(&mut self) {
        self.agent = None;
    }

    /// Tells the agent of a config that has changed.
    pub(super) fn reload_agent(&mut self) -> Result<()> {
        self.write_agent_config()?;
        let at = self.places.agent;
        let agent = self.agent()?;
        agent.signal(Signal::HUP)?;
        agent.listens(at)
    }

    pub(super) fn start_collector(&mut self) -> Result<()> {
        self.start_collector_with("", "")
    }

    /// One whose memory limiter is over its limit whatever it does.
    pub(super) fn start_refusing_collector(&mut self) -> Result<()> {
        let limiter = "processors: {memory_limiter: {check_interval: 100ms, limit_mib: 1}}\n";
        self.start_collector_with(limiter, "processors: [memory_limiter], ")
    }

    pub(super) fn kill_collector(&mut self) {
        self.collector = None;
    }

    pub(super) fn pause_collector(&mut self, paused: bool) -> Result<()> {
        let collector = self.collector.as_mut().context("no Collector")?;
        collector.signal(if paused { Signal::STOP } else { Signal::CONT })
    }

    pub(super) fn move_collector(&mut self) -> Result<()> {
        self.places.collector = free_address()?;
        Ok(())
    }

    /// Waits until the agent has sent all it holds, then ends both.
    pub(super) fn finish(&mut self) -> Result<()> {
        let queue = self.places.folder.join("queue/otlp_grpc_traces");
        eventually("an empty queue", Duration::from_secs(60), || {
            let names = fs::read_dir(&queue)?.flatten().map(|entry| entry.path());
            let records = names.filter(|path| path.extension().is_some_and(|end| end == "record")).count();
            Ok((records == 0).then_some(()))
        })?;
        self.stop()
    }

    /// Ends both.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.agent.take().context("no agent")?.stop(Signal::TERM)?;
        self.collector.take().context("no Collector")?.stop(Signal::TERM)?;
        Ok(())
    }

    /// The ids of all spans in the Collector's file, as often as they are there. By text: a Collector that is killed
    /// while it writes leaves a part of a line, in front of the next one.
    pub(super) fn received(&self) -> Result<Vec<u64>> {
        let text = fs::read_to_string(self.places.folder.join("traces.json"))?;
        let ids = text.split("\"spanId\":\"").skip(1).filter_map(|rest| u64::from_str_radix(rest.get(..16)?, 16).ok());
        Ok(ids.collect())
    }

    /// Without a queue and with a rotating file, which is not buffered: what is acknowledged is written.
    fn start_collector_with(&mut self, sections: &str, processors: &str) -> Result<()> {
        let (at, files) = (self.places.collector, self.places.folder.display());
        let text = format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}\n{sections}\
             exporters:\n  file/traces: {{path: '{files}/traces.json', rotation: {{max_megabytes: 10000}}}}\n\
             \x20 file/metrics: {{path: '{files}/metrics.json', rotation: {{max_megabytes: 10000}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n\
             \x20   traces: {{receivers: [otlp], {processors}exporters: [file/traces]}}\n\
             \x20   metrics: {{receivers: [otlp], {processors}exporters: [file/metrics]}}\n"
        );
        let config = self.places.folder.join("collector.yaml");
        fs::write(&config, text)?;
        let binary = part("collector").map_err(anyhow::Error::msg)?;
        let mut collector =
            Program::start("collector", Command::new(binary).arg("--config").arg(&config), &self.places.folder)?;
        collector.listens(at)?;
        self.collector = Some(collector);
        Ok(())
    }

    fn write_agent_config(&self) -> Result<()> {
        Ok(fs::write(self.places.folder.join("agent.yaml"), (self.config)(&self.places))?)
    }
}
