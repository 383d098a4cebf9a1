//! A worker as we hold it: a process that is told when to begin, and ends with us.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::habit::{Habit, SUBCOMMAND, own_program};

/// A started worker; dropping it ends it.
pub(super) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts one, which waits for its turn.
    pub(super) fn start(habit: Habit, length: Duration, cpu: Option<usize>) -> io::Result<Self> {
        let mut command = Command::new(own_program()?);
        command.args([SUBCOMMAND, habit.name(), &length.as_millis().to_string()]);
        command.args(cpu.map(|cpu| cpu.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("a worker without an output"))?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it can begin; or says why it cannot.
    pub(super) fn gets_ready(&mut self) -> Result<Option<String>, String> {
        let line = self.line()?;
        match line.strip_prefix("cannot ") {
            Some(why) => Ok(Some(why.to_owned())),
            None if line == "ready" => Ok(None),
            None => Err(format!("a worker said `{line}` for `ready`")),
        }
    }

    /// Waits for its next word.
    pub(super) fn says(&mut self, word: &str) -> Result<(), String> {
        let line = self.line()?;
        if line == word { Ok(()) } else { Err(format!("a worker said `{line}` for `{word}`")) }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim_end().to_owned())
    }

    /// Lets it begin.
    pub(super) fn go(&mut self) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("a worker without an input")?;
        input.write_all(b"go\n").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
