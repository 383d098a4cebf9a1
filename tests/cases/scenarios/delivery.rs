//! E23, E25, E27, E28: a collector that is slow, away, moved or not yet known. Played without a kernel: an
//! application sends to the agent's own receiver.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::agent::Agent;
use super::endpoint::{Application, Endpoint};
use crate::program::free_address;

/// An agent that passes spans on to `to`, with this queue.
fn relay(wrapper: &[&str], to: &str, queue: &str) -> Result<(Agent, Application)> {
    let listen = free_address()?;
    let config = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{listen}'}}}}}}}}
exporters: {{otlp_grpc: {{endpoint: '{to}', tls: {{insecure: true}}, {queue}}}}}
service:
  shutdown_timeout: 10s
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_grpc]}}}}"
    );
    let agent = Agent::start(wrapper, &config)?;
    Ok((agent, Application::connect(listen)?))
}

/// E23: ten full batches are queued when the signal comes.
pub(super) fn drains(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::from_millis(50))?;
    let queue = "sending_queue: {num_consumers: 1, queue_size: 100}";
    let (mut agent, mut application) = relay(&[], &endpoint.address.to_string(), queue)?;
    for _ in 0..10 {
        application.send(1000)?;
    }
    let at_signal = endpoint.spans();
    let begin = Instant::now();
    let status = agent.stop()?;
    ensure!(at_signal < 10_000, "nothing was left to drain");
    ensure!(
        endpoint.spans() == 10_000 && status.success(),
        "expected 10,000 spans and exit 0\ngot {} ({at_signal} at the signal) and {status} after {:?}:\n{}",
        endpoint.spans(),
        begin.elapsed(),
        agent.log()
    );
    Ok(())
}

/// E25: away for long enough to fill the queue and to give up on what is in it.
pub(super) fn away(_: &Value) -> Result<()> {
    let address = free_address()?;
    let queue = "sending_queue: {num_consumers: 2, queue_size: 5}, retry_on_failure: {initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 2s}";
    let (mut agent, mut application) = relay(&[], &address.to_string(), queue)?;
    application.send(100)?;
    let before = agent.resident_mib()?;
    let mut sent = 100;
    for _ in 0..160 {
        // a full queue is told to the sender, and counted all the same
        if let Err(refusal) = application.send(100) {
            ensure!(format!("{refusal:#}").contains("queue is full"), "refused for another reason: {refusal:#}");
        }
        sent += 100;
        std::thread::sleep(Duration::from_millis(25));
    }
    let grown = agent.resident_mib()? - before;
    let lost = |agent: &Agent, how: &str| agent.counter(&format!("otelcol_exporter_{how}_failed_spans"), "");
    let (refused, failed) = (lost(&agent, "enqueue")?, lost(&agent, "send")?);
    ensure!(
        refused > 0.0 && failed > 0.0,
        "expected both to be counted, got enqueue_failed {refused}, send_failed {failed}:\n{}",
        agent.log()
    );
    ensure!(grown < 20.0, "expected bounded memory, got {grown:.1} MiB more");

    let endpoint = Endpoint::start(&address.to_string(), Duration::ZERO)?;
    agent.waits("data after the end of the outage", 10, || Ok((endpoint.spans() > 0).then_some(())))?;
    // the queue may be full until what waited has gone
    agent.waits("room in the queue", 10, || {
        sent += 100;
        Ok(application.send(100).ok())
    })?;
    agent.waits("all to be accounted for", 10, || {
        let lost = lost(&agent, "enqueue")? + lost(&agent, "send")?;
        Ok((endpoint.spans() as f64 + lost >= f64::from(sent)).then_some(()))
    })?;
    let total = endpoint.spans() as f64 + lost(&agent, "enqueue")? + lost(&agent, "send")?;
    let status = agent.stop()?;
    ensure!(total == f64::from(sent) && status.success(), "expected {sent} sent or counted\ngot {total}, {status}");
    Ok(())
}

/// A hosts file of the agent's own, and the wrapper that gives it to the agent; no DNS is asked.
struct Hosts {
    _folder: tempfile::TempDir,
    file: PathBuf,
    script: String,
}

impl Hosts {
    fn new(line: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (file, empty) = (folder.path().join("hosts"), folder.path().join("resolv.conf"));
        fs::write(&file, line)?;
        fs::write(&empty, "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")?;
        let script = format!(
            "mount --bind {} /etc/hosts && mount --bind {} \"$(readlink -f /etc/resolv.conf)\" && exec \"$@\"",
            file.display(),
            empty.display()
        );
        Ok(Self { _folder: folder, file, script })
    }

    fn wrapper(&self) -> [&str; 8] {
        ["unshare", "-m", "--propagation", "private", "sh", "-c", &self.script, "sh"]
    }

    /// Changes it in its place, as the mount needs.
    fn set(&self, line: &str) -> Result<()> {
        Ok(fs::write(&self.file, line)?)
    }
}

const RETRY: &str = "retry_on_failure: {initial_interval: 200ms, max_interval: 1s}";

/// E27: another address behind the same name.
pub(super) fn moved(_: &Value) -> Result<()> {
    let first = Endpoint::start("127.0.0.2:0", Duration::ZERO)?;
    let port = first.address.port();
    let hosts = Hosts::new("127.0.0.2 collector.test\n")?;
    let (mut agent, mut application) = relay(&hosts.wrapper(), &format!("collector.test:{port}"), RETRY)?;
    application.send(10)?;
    agent.waits("data at the first address", 10, || Ok((first.spans() == 10).then_some(())))?;
    let second = Endpoint::start(&SocketAddr::from(([127, 0, 0, 3], port)).to_string(), Duration::ZERO)?;
    hosts.set("127.0.0.3 collector.test\n")?;
    drop(first);
    application.send(20)?;
    agent.waits("data at the new address", 60, || Ok((second.spans() == 20).then_some(())))?;
    agent.stop()?;
    Ok(())
}

/// E28: the name is not known at the start.
pub(super) fn unknown(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let hosts = Hosts::new("")?;
    let to = format!("http://not-yet.test:{}", endpoint.address.port());
    let (mut agent, mut application) = relay(&hosts.wrapper(), &to, RETRY)?;
    application.send(10)?;
    std::thread::sleep(Duration::from_secs(3));
    agent.program.is_alive()?;
    let log = agent.log();
    let warned =
        log.lines().any(|line| line.contains("not-yet.test") && (line.contains("warn") || line.contains("WARN")));
    ensure!(warned, "expected a warning that names the endpoint:\n{log}");
    ensure!(endpoint.spans() == 0, "the name was known");
    hosts.set("127.0.0.1 not-yet.test\n")?;
    agent.waits("what was buffered", 60, || Ok((endpoint.spans() == 10).then_some(())))?;
    agent.stop()?;
    Ok(())
}
