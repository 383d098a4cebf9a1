//! A queue on a disk that fills up: what does not fit is refused to its sender, and what was accepted arrives once
//! the endpoint is back and the disk has room again.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::BINARY;
use super::program::{Program, eventually, free_address};

/// What the disk holds, in KiB; a request takes some 11 of it, compressed.
const DISK_KIB: u32 = 512;

pub(super) fn refuses_and_recovers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (at, to, disk) = (free_address()?, free_address()?, folder.path().join("disk"));
    fs::create_dir(&disk)?;
    let mut agent = agent(folder.path(), at, to, &disk)?;
    let mut accepted = 0;
    let refused = loop {
        match post(at)? {
            (200, _) => accepted += 1,
            (503, why) => break why,
            other => anyhow::bail!("{other:?}"),
        }
        ensure!(accepted < DISK_KIB, "the disk of {DISK_KIB} KiB takes everything");
    };
    ensure!(accepted > 5 && refused.contains("the disk is full"), "after {accepted}: {refused}");
    agent.is_alive()?;
    ensure!(agent.output().contains("the disk is full"), "not told:\n{}", agent.output());

    let mut endpoint = endpoint(folder.path(), to)?;
    let room = eventually("room on the disk", Duration::from_secs(20), || Ok((post(at)?.0 == 200).then_some(1)))?;
    ensure!(agent.stop(Signal::INT)?.success(), "{}", agent.output());
    ensure!(endpoint.stop(Signal::INT)?.success(), "{}", endpoint.output());
    let arrived = fs::read_to_string(folder.path().join("arrived.json"))?.matches("\"name\":\"a span ").count();
    ensure!(
        arrived >= accepted as usize + room,
        "{accepted} and {room} accepted, {arrived} arrived:\n{}",
        agent.output()
    );
    Ok(())
}

fn agent(folder: &Path, at: SocketAddr, to: SocketAddr, disk: &Path) -> Result<Program> {
    let config = folder.join("agent.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{at}'}}}}}}}}
extensions: {{file_storage: {{directory: '{}'}}}}
exporters:
  otlp_http:
    endpoint: 'http://{to}'
    sending_queue: {{storage: file_storage, queue_size: 100000}}
    retry_on_failure: {{initial_interval: 50ms, max_interval: 100ms, max_elapsed_time: 0s}}
service:
  extensions: [file_storage]
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_http]}}}}
",
        disk.display()
    );
    fs::write(&config, text)?;
    let mount = format!("mount --make-rprivate / && mount -t tmpfs -o size={DISK_KIB}k none \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &mount]).arg(disk).args([BINARY, "--config"]).arg(config);
    let mut agent = Program::start("schedscope", &mut command, folder)?;
    agent.listens(at)?;
    Ok(agent)
}

/// Another agent takes what the first one sends.
fn endpoint(folder: &Path, at: SocketAddr) -> Result<Program> {
    let config = folder.join("endpoint.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{at}'}}}}}}}}
exporters: {{file: {{path: '{}/arrived.json'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}
",
        folder.display()
    );
    fs::write(&config, text)?;
    let mut endpoint = Program::start("endpoint", Command::new(BINARY).arg("--config").arg(config), folder)?;
    endpoint.listens(at)?;
    Ok(endpoint)
}

/// Sends one span that hardly compresses; the status, and what the answer says.
fn post(at: SocketAddr) -> Result<(u16, String)> {
    let noise: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"name":"a span {noise}"}}]}}]}}]}}"#);
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "POST /v1/traces HTTP/1.0\r\nHost: {at}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    Ok((status, answer))
}
