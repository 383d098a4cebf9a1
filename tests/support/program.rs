//! A program that a test starts: its output kept in a file, ended with the test.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Asks again and again until there is an answer, or `patience` is over.
pub(crate) fn eventually<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().with_context(|| format!("while waiting for {what}"))? {
            return Ok(answer);
        }
        ensure!(Instant::now() < end, "{what} did not come within {patience:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

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

    /// Waits until it has printed that.
    pub(crate) fn says(&mut self, words: &str) -> Result<()> {
        let what = format!("{words:?} from {}", self.name);
        let said = eventually(&what, Duration::from_secs(30), || {
            let is_said = self.output().contains(words);
            if !is_said {
                self.is_alive()?;
            }
            Ok(is_said.then_some(()))
        });
        said.with_context(|| format!("{} said:\n{}", self.name, self.output()))
    }

    /// Fails, with what it said last, where it has ended.
    pub(crate) fn is_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let output = self.output();
                let lines: Vec<&str> = output.lines().collect();
                let tail = lines[lines.len().saturating_sub(10)..].join("\n");
                bail!("{} ended with {status}:\n{tail}", self.name)
            }
        }
    }

    /// Its process, or that of the wrapper that has not become it.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// What it has printed so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        self.is_alive()?;
        Ok(kill_process(self.pid(), signal)?)
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.is_alive()?;
        kill_process(self.pid(), signal)?;
        let what = format!("the end of {}", self.name);
        eventually(&what, Duration::from_secs(20), || Ok(self.child.try_wait()?))
    }
}

/// An address on this host that nothing listens on now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
