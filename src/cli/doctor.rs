//! `schedscope doctor`: what this host allows, and how its numbers compare with ours.

use std::io;
use std::time::Duration;

use clap::Args;

use super::arguments::ConfigArguments;
use super::command_result::CommandResult;
use super::load::{load, told};
use crate::doctor::{self, verify};
use crate::pipeline::Components;
use crate::receivers::sched::SchedSettings;

/// What is looked at.
#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Measure this host for so many seconds under a small load of our own, in cgroups of our own, and print
    /// each number beside the kernel's
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5",
          value_parser = clap::value_parser!(u32).range(2..=3600))]
    verify: Option<u32>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A worker of `doctor --verify`; started by it, not by people.
#[derive(Debug, Args)]
pub(super) struct LoadArguments {
    habit: String,
    milliseconds: u64,
    cpu: Option<usize>,
}

/// Exit code 1: this host cannot be measured, or a number was off.
pub(super) fn run(arguments: &DoctorArguments, config: &ConfigArguments, components: &Components) -> CommandResult {
    let settings = match settings(config, components) {
        Ok(settings) => settings,
        Err(messages) => return CommandResult { output: String::new(), messages, code: 1 },
    };
    let report = match arguments.verify {
        Some(seconds) => doctor::examine_and_verify(&settings, seconds),
        None => doctor::examine(&settings),
    };
    let output = if arguments.json { doctor::json(&report) } else { doctor::text(&report) };
    // the text is the answer, whatever the code
    CommandResult { output, messages: String::new(), code: u8::from(!report.is_good()) }
}

/// Those of the config's first `sched` receiver.
fn settings(config: &ConfigArguments, components: &Components) -> Result<SchedSettings, String> {
    if config.sources.is_empty() && config.sets.is_empty() {
        return Ok(SchedSettings::default());
    }
    let loaded = load(config, components).map_err(|problems| told(&problems))?;
    let found = loaded.plan.receivers.iter().find(|receiver| receiver.factory.name == "sched");
    found.map_or_else(|| Ok(SchedSettings::default()), |sched| sched.body.decode().map_err(|why| format!("{why}")))
}

/// Runs a worker.
pub(super) fn work(arguments: &LoadArguments) -> Result<String, String> {
    let habit = verify::Habit::parse(&arguments.habit)?;
    let length = Duration::from_millis(arguments.milliseconds);
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
    verify::work(habit, length, arguments.cpu, &mut input, &mut out).map_err(|error| error.to_string())?;
    Ok(String::new())
}
