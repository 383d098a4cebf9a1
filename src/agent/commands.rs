//! What a running agent may be told, and the process signals that tell it.

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

/// SIGINT and SIGTERM stop, SIGHUP reloads. Fails where a handler cannot be installed.
pub fn from_signals() -> std::io::Result<mpsc::Receiver<Command>> {
    let (sender, commands) = mpsc::channel(8);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let command = tokio::select! {
                _ = interrupt.recv() => Command::Stop,
                _ = terminate.recv() => Command::Stop,
                _ = hang_up.recv() => Command::Reload,
            };
            if sender.send(command).await.is_err() {
                return;
            }
        }
    });
    Ok(commands)
}
