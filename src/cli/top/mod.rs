//! `schedscope top`: a live view of who suffers and from what, for a person at a terminal; `--once` and `--json` for
//! scripts.
//!
//! [`feed`] runs the stock receiver and processors, [`state`] is what a person has chosen to see, [`draw`] puts it on
//! the screen, [`threads`] reads the threads of one owner. Sends nothing anywhere.

mod draw;
mod feed;
mod histogram;
mod state;
mod threads;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::feed::{Feed, Reading};
use self::state::{Action, State};
use self::threads::Threads;
use crate::config::Period;
use crate::exporters::table::rows::Row;
use crate::exporters::table::text;

/// How often the keys are looked at, at least.
const KEY_PATIENCE: Duration = Duration::from_millis(100);

/// How it is shown.
#[derive(Debug, Args)]
pub(super) struct TopArguments {
    /// Time that one view covers, such as 1s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one table, of one interval, and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object an interval and owner, seconds and counts of that interval
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let Period(interval) = text.parse()?;
    if interval < Duration::from_secs(1) || interval > Duration::from_secs(300) {
        return Err("1s to 5m is allowed".to_owned());
    }
    Ok(interval)
}

/// `schedscope top`. What is printed is printed as it comes.
pub(super) fn run(arguments: &TopArguments) -> Result<String, String> {
    let mut feed = Feed::start(arguments.interval)?;
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal();
    let shown = if arguments.once || arguments.json || !is_screen {
        lines(&mut feed, arguments)
    } else {
        let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}"))?;
        let shown = screen(&mut terminal, &mut feed);
        ratatui::restore();
        shown
    };
    feed.stop();
    shown.map(|()| String::new())
}

/// Tables or objects, one after the other.
fn lines(feed: &mut Feed, arguments: &TopArguments) -> Result<(), String> {
    while let Some(reading) = feed.next(None)? {
        let mut out = io::stdout().lock();
        let written = if arguments.json {
            reading.table.rows.iter().try_for_each(|row| writeln!(out, "{}", object(row, &reading)))
        } else {
            write!(out, "{}", text::render(&reading.table, &reading.frame(20)))
        };
        match written.and_then(|()| out.flush()) {
            // a reader that has gone away, as `head` does
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| error.to_string())?,
        }
        if arguments.once {
            return Ok(());
        }
    }
    Ok(())
}

/// One row for scripts; what is not measured is absent.
fn object(row: &Row, reading: &Reading) -> serde_json::Value {
    let mut object = serde_json::json!({
        "time_unix_nano": reading.table.time_ns,
        "interval": reading.seconds,
        "name": row.name,
        "run": row.run,
        "wait": row.wait,
        "involuntary": row.involuntary,
        "voluntary": row.voluntary,
        "longest_wait": row.longest,
        "starving": row.starving,
        "culprits": row.culprits.iter().map(|(name, seconds)| serde_json::json!({"name": name, "seconds": seconds})).collect::<Vec<_>>(),
    });
    if !row.id.is_empty() {
        object["id"] = row.id.as_str().into();
    }
    if let Some(throttled) = row.throttled {
        object["throttled"] = throttled.into();
    }
    object
}

/// The screen, until a person has seen enough.
fn screen(terminal: &mut DefaultTerminal, feed: &mut Feed) -> Result<(), String> {
    let failed = |error: io::Error| format!("the terminal cannot be used: {error}");
    let mut state = State::default();
    let mut threads = Threads::default();
    let mut next_look = Instant::now();
    loop {
        if let Some(reading) = feed.next(Some(Duration::ZERO))? {
            state.take(reading);
        }
        if let Some(owner) = state.opened().filter(|_| Instant::now() >= next_look) {
            state.threads = threads.look(&owner);
            next_look = Instant::now() + feed.interval();
        }
        terminal.draw(|frame| draw::draw(frame, &mut state)).map_err(failed)?;
        if !event::poll(KEY_PATIENCE).map_err(failed)? {
            continue;
        }
        if let Event::Key(key) = event::read().map_err(failed)?
            && key.kind == KeyEventKind::Press
        {
            match state.key(key.code, key.modifiers) {
                Action::Quit => return Ok(()),
                Action::Opened => {
                    threads = Threads::default();
                    next_look = Instant::now();
                }
                Action::None => {}
            }
        }
    }
}
