//! What a running agent may be told, and the process signals that tell it.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What a running agent may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Drain and end; told again: end at once.
    Stop,
    /// Take the config anew.
    Reload,
}

/// A second signal to stop within this time is the first one again: a supervisor that signals the process and
/// its group (coreutils' `timeout`, a terminal's Ctrl-C under a wrapper that passes signals on) sends it twice.
const ECHO: Duration = Duration::from_millis(500);

/// Tells an echo from a person who has lost patience.
#[derive(Default)]
struct Patience {
    stopped: Option<Instant>,
}

impl Patience {
    /// Whether the command counts. Every echo is measured from the signal that counted.
    fn takes(&mut self, command: Command, now: Instant) -> bool {
        if command != Command::Stop {
            return true;
        }
        let is_echo = self.stopped.is_some_and(|stopped| now.saturating_duration_since(stopped) < ECHO);
        if !is_echo {
            self.stopped = Some(now);
        }
        !is_echo
    }
}

/// SIGINT and SIGTERM stop, SIGHUP reloads. Fails where a handler cannot be installed.
pub fn from_signals() -> std::io::Result<mpsc::Receiver<Command>> {
    let (sender, commands) = mpsc::channel(8);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        let mut patience = Patience::default();
        loop {
            let command = tokio::select! {
                _ = interrupt.recv() => Command::Stop,
                _ = terminate.recv() => Command::Stop,
                _ = hang_up.recv() => Command::Reload,
            };
            if !patience.takes(command, Instant::now()) {
                continue;
            }
            if sender.send(command).await.is_err() {
                return;
            }
        }
    });
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_twice_is_one() {
        let mut patience = Patience::default();
        let begin = Instant::now();
        let mut takes = |command, ms| patience.takes(command, begin + Duration::from_millis(ms));
        assert!(takes(Command::Reload, 0) && takes(Command::Reload, 1));
        assert!(takes(Command::Stop, 2));
        assert!(!takes(Command::Stop, 3) && !takes(Command::Stop, 501));
        assert!(takes(Command::Stop, 502), "half a second later it is meant");
        assert!(!takes(Command::Stop, 600) && takes(Command::Reload, 600));
    }
}
