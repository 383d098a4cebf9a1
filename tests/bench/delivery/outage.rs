//! A reload, and what an hour without an endpoint takes on disk.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::forward::Load;
use crate::program::{Program, free_address};

const READY: &str = "Everything is ready";
const RELOADED: &str = "the new config runs";

/// An agent with its queue on disk, whose endpoint is not there.
fn start(folder: &Path, at: SocketAddr) -> Result<Program> {
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}
extensions: {{file_storage: {{directory: '{}/queue', create_directory: true}}}}
exporters:
  otlp_grpc:
    endpoint: '127.0.0.1:1'
    tls: {{insecure: true}}
    sending_queue: {{storage: file_storage, queue_size: 1000000}}
    retry_on_failure: {{max_elapsed_time: 0s}}
service:
  extensions: [file_storage]
  shutdown_timeout: 1s
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_grpc]}}}}
",
        folder.display()
    );
    let config = folder.join("outage.yaml");
    fs::write(&config, text)?;
    let mut agent = Program::start(
        "schedscope",
        Command::new(env!("CARGO_BIN_EXE_schedscope")).arg("--config").arg(config),
        folder,
    )?;
    agent.listens(at)?;
    Ok(agent)
}

/// From the signal to the line that says that all runs again; the median of eleven.
pub(crate) fn reload(folder: &Path) -> Result<String> {
    let mut agent = start(folder, free_address()?)?;
    agent.says(READY)?;
    let mut times = Vec::new();
    for number in 1..=11 {
        let begin = Instant::now();
        agent.signal(Signal::HUP)?;
        while agent.output().matches(RELOADED).count() < number {
            ensure!(begin.elapsed() < Duration::from_secs(20), "no reload:\n{}", agent.output());
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(begin.elapsed());
    }
    times.sort();
    agent.stop(Signal::INT)?;
    Ok(format!("| reload of an otlp pipeline with a queue on disk | {:.0} ms |\n", times[5].as_secs_f64() * 1e3))
}

/// A minute of 1,000 spans a second, told for an hour.
pub(crate) fn disk(folder: &Path) -> Result<String> {
    let at = free_address()?;
    let mut agent = start(folder, at)?;
    let load = Load::start(at, 1000, 100)?;
    std::thread::sleep(Duration::from_secs(60));
    let sent = load.stop()?;
    let (mut bytes, mut blocks) = (0, 0);
    for entry in fs::read_dir(folder.join("queue/otlp_grpc_traces"))? {
        use std::os::unix::fs::MetadataExt;
        let file = entry?.metadata()?;
        bytes += file.len();
        blocks += file.blocks() * 512;
    }
    agent.stop(Signal::INT)?;
    let hour = |bytes: u64| bytes as f64 / sent as f64 * 3.6e6 / 1e6;
    Ok(format!(
        "| an hour's outage at 1,000 spans a second, from a minute's | {:.0} MB ({:.0} MB in blocks of the file system) |\n",
        hour(bytes),
        hour(blocks)
    ))
}
