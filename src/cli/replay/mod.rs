//! `schedscope replay FILE|-`: a recording or a tracer's text through the stages, or as a table.

mod pipelines;
mod summary;

use std::fs::File;
use std::io::{self, Read, Write};

use self::summary::Summary;
use super::arguments::{ConfigArguments, ReplayArguments, ReplayFormat};
use crate::pipeline::Components;
use crate::record::{Chunk, Input};
use crate::timeline::{Event, Limits, Machine};

/// Unreadable places that are told one by one.
const MAX_TOLD: u64 = 10;

/// How a replay went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records read.
    pub records: u64,
    /// Places that could not be read.
    pub unreadable: u64,
    /// Events that the tracer itself lost.
    pub lost_events: u64,
}

impl Replayed {
    /// Everything that the tracer saw has been delivered.
    pub fn complete(&self) -> bool {
        self.unreadable == 0 && self.lost_events == 0 && self.records > 0
    }
}

/// `schedscope replay`. The table is printed as it stands; an error names what was lost.
pub(super) fn run(
    arguments: &ReplayArguments,
    config: &ConfigArguments,
    components: &Components,
) -> Result<String, String> {
    if arguments.format == ReplayFormat::Otlp {
        return pipelines::run(arguments, config, components);
    }
    let mut input = open(&arguments.file).map_err(|why| why.to_string())?;
    let replayed = summarise(&arguments.file, &mut input, &mut io::stdout().lock(), &mut io::stderr().lock());
    match replayed {
        Ok(replayed) if replayed.complete() => Ok(String::new()),
        Ok(replayed) => Err(format!(
            "replayed with losses: {} places could not be read, {} events had been lost when it was recorded",
            replayed.unreadable, replayed.lost_events
        )),
        // a reader that has gone away, as `head` does
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(String::new()),
        Err(why) => Err(why.to_string()),
    }
}

/// Opens a file, or standard input for `-`.
///
/// # Errors
/// With the file's name in the text.
pub fn open(path: &str) -> io::Result<Input> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("{path}: {why}"));
    let source: Box<dyn Read + Send> =
        if path == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(named)?) };
    Input::open(source).map_err(named)
}

/// Plays the input and writes the table; what is unreadable goes to `errors` with its place.
///
/// # Errors
/// What the writers give.
pub fn summarise(path: &str, input: &mut Input, out: &mut impl Write, errors: &mut impl Write) -> io::Result<Replayed> {
    let name = if path == "-" { "standard input" } else { path };
    let mut machine = Machine::new(Limits::default());
    let mut summary = Summary::default();
    let mut replayed = Replayed::default();
    let mut told = Ok(());
    let mut on = |chunk| match chunk {
        Chunk::Record(record) => {
            if let Event::Lost { count, everywhere } = record.event {
                replayed.lost_events = replayed.lost_events.saturating_add(count.max(1));
                summary.lost(record.at.0, (!everywhere).then_some(record.cpu), count);
            } else {
                summary.seen(record.at.0);
            }
            machine.on(&record, &mut summary);
        }
        Chunk::Unreadable { place, records, why } => {
            replayed.unreadable += 1;
            if replayed.unreadable <= MAX_TOLD && told.is_ok() {
                let lost = records.map_or_else(String::new, |records| format!(" ({records} records)"));
                told = writeln!(errors, "{name}:{place}: {why}{lost}");
            }
        }
        Chunk::Facts(_) | Chunk::Cgroup { .. } => {}
    };
    while input.next(&mut on) {}
    told?;
    replayed.records = summary.records;
    if replayed.unreadable > MAX_TOLD {
        writeln!(errors, "{name}: {} more places could not be read", replayed.unreadable - MAX_TOLD)?;
    }
    if replayed.records == 0 {
        writeln!(
            errors,
            "{name}: no scheduler event in it; expected a schedscope recording, or the text of ftrace, `trace-cmd report` or `perf script`"
        )?;
    }
    out.write_all(summary.render(name, &machine).as_bytes())?;
    out.flush()?;
    Ok(replayed)
}
