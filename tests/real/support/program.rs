//! A program that a test starts: its output kept in a file, ended with the test.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// A running program.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it; what it prints goes to `NAME.log` in the folder.
    pub(crate) fn start(name: &'static str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name}: {command:?}"))?;
        Ok(Self { name, child, log })
    }

    /// Waits until something listens there.
    pub(crate) fn listens(&mut self, address: SocketAddr) -> Result<()> {
        let what = format!("{} on {address}", self.name);
        eventually(&what, Duration::from_secs(30), || {
            self.is_alive()?;
            Ok(TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok().map(drop))
        })
    }

    /// Fails, with what it said last, where it has ended.
    pub(crate) fn is_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.output()),
        }
    }

    /// What it has printed so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.is_alive()?;
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal)?;
        let what = format!("the end of {}", self.name);
        eventually(&what, Duration::from_secs(20), || Ok(self.child.try_wait()?))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request without a library: HTTP/1.0, so the answer is whole and unchunked.
pub(crate) fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{method} {path}: {head}\n{body}");
    Ok(body.to_owned())
}
