//! `schedscope record -o FILE`: the scheduler's raw events into a file, for `replay`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;

use crate::agent;
use crate::config::Period;
use crate::receivers::sched::{self, SchedSettings};

/// What is recorded, and where to.
#[derive(Debug, Args)]
pub(super) struct RecordArguments {
    /// The file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: String,
    /// How long, such as 10s; without it until SIGINT or SIGTERM
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Period>,
}

/// Records until told to stop; gives what was recorded in words.
pub(super) fn run(arguments: &RecordArguments) -> Result<String, String> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_told(&stop, arguments.length.map(|length| length.0)).map_err(|error| format!("no thread: {error}"))?;
    let settings = SchedSettings::default();
    let to: Box<dyn Write> = if arguments.output == "-" {
        Box::new(io::stdout().lock())
    } else {
        Box::new(File::create(&arguments.output).map_err(|error| format!("{}: {error}", arguments.output))?)
    };
    let recorded = sched::record(&settings, BufWriter::new(to), &stop)?;
    let told = format!(
        "{}: {} records, {} events lost by the kernel's ring, {} lines that could not be read",
        arguments.output, recorded.records, recorded.lost, recorded.unreadable
    );
    if arguments.output == "-" {
        // standard output has the recording
        super::tell(&told);
        return Ok(String::new());
    }
    Ok(told)
}

/// Sets `stop` at a signal, or when the time is over.
fn stop_when_told(stop: &Arc<AtomicBool>, length: Option<Duration>) -> io::Result<()> {
    let stop = Arc::clone(stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { agent::from_signals() })?;
    std::thread::Builder::new().name("schedscope-stop".into()).spawn(move || {
        runtime.block_on(async {
            let over = async {
                match length {
                    Some(length) => tokio::time::sleep(length).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signals.recv() => {}
                () = over => {}
            }
        });
        stop.store(true, Ordering::Release);
    })?;
    Ok(())
}
