//! `schedscope top` as a person and as a script use it: on a terminal of 80 columns by its keys, and as JSON.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cgroup::{Cgroup, container_id};
use crate::program::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedscope");
const BUSY: &str = "while :; do :; done";

pub(crate) fn tells_a_script() -> Result<()> {
    let id = container_id(7);
    let mut container = Cgroup::docker(&id)?;
    container.run(BUSY)?;
    let output = Command::new(PROGRAM).args(["top", "--once", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let row = rows.iter().find(|row| row["id"] == id.as_str()).with_context(|| text.to_string())?;
    let (ran, interval) = (row["run"].as_f64().context("run")?, row["interval"].as_f64().context("interval")?);
    println!("  {} ran {ran:.3} s of {interval:.3} s", row["name"]);
    ensure!(ran > 0.1 * interval && ran < 1.2 * interval, "{row}");
    Ok(())
}

/// The terminal, and the program in it, which end with the test.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn is_used_over_a_pty() -> Result<()> {
    let id = container_id(8);
    let mut container = Cgroup::docker(&id)?;
    let pid = container.run(BUSY)?;
    let inside = format!("stty cols 80 rows 24; exec {PROGRAM} top");
    let mut command = Command::new("script");
    command.args(["-qefc", &inside, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut terminal = Terminal(child);
    let mut keys = terminal.0.stdin.take().context("stdin")?;
    let mut screen = terminal.0.stdout.take().context("stdout")?;
    let shown = Arc::new(Mutex::new(String::new()));
    let reader = Arc::clone(&shown);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            reader.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
    });
    let sees = |words: &str| {
        eventually(words, Duration::from_secs(20), || {
            Ok(shown.lock().unwrap_or_else(PoisonError::into_inner).contains(words).then_some(()))
        })
    };
    sees(&id[..12])?;
    // opened by its name, so that the host above it is not in the way
    keys.write_all(format!("/{}\r\r", &id[..8]).as_bytes())?;
    // only what changes is drawn, so that words stand alone
    sees("WAIT+THROTTLED")?;
    sees(&pid.to_string())?;
    keys.write_all(b"?")?;
    sees("runnable,")?;
    keys.write_all(b"qq")?;
    let ended = eventually("its end", Duration::from_secs(10), || Ok(terminal.0.try_wait()?))?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
