//! The command line: one file per subcommand. Only here is anything printed.
//!
//! Subcommands give text or an error; this file prints it and decides the exit code: 0 ok, 1 the config or
//! the start failed, 2 a wrong command line.

mod arguments;
pub mod command_result;
pub mod components;
pub mod config_schema;
pub mod container;
mod doctor;
mod load;
mod logs;
pub mod print_config;
mod record;
pub mod reference;
pub mod replay;
mod run;
mod top;
pub mod validate;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use self::arguments::{Arguments, Command, ConfigArguments, check_feature_gates};
use self::command_result::CommandResult;
use crate::config::ProcessEnvironment;
use crate::pipeline::Components;

/// The config or the start failed.
const FAILED: u8 = 1;
/// The command line was wrong.
const MISUSED: u8 = 2;

/// Runs the program with the process's arguments; configs may name these components, the stock ones or more.
pub fn main(components: &Components) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Where help cannot be written, nothing can.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { MISUSED } else { 0 });
        }
    };
    if let Err(why) = check_feature_gates(&arguments.config.feature_gates) {
        tell(&why);
        return ExitCode::from(MISUSED);
    }
    if let Some(result) = arguments.command.as_ref().and_then(|command| looking(command, &arguments.config, components))
    {
        return finish(&result);
    }
    let done = match &arguments.command {
        None => run::run(&arguments.config, components),
        Some(command) => subcommand(command, &arguments.config, components),
    };
    match done {
        Ok(text) => print(&text),
        Err(why) => {
            tell(&why);
            ExitCode::from(FAILED)
        }
    }
}

/// The subcommands that only look, at the config or at the host.
fn looking(command: &Command, config: &ConfigArguments, components: &Components) -> Option<CommandResult> {
    let (sources, sets) = (&config.sources, &config.sets);
    match command {
        Command::Validate => Some(validate::validate(sources, sets, &ProcessEnvironment, components)),
        Command::PrintConfig(how) => {
            Some(print_config::print_config(sources, sets, how.options(), &ProcessEnvironment, components))
        }
        Command::Components(how) if how.schema => Some(components::schema(components)),
        Command::Components(_) => Some(components::components(env!("CARGO_PKG_VERSION"), components)),
        Command::Doctor(how) => Some(doctor::run(how, config, components)),
        _ => None,
    }
}

/// Prints both texts.
fn finish(result: &CommandResult) -> ExitCode {
    if !result.messages.is_empty() {
        tell(result.messages.trim_end());
    }
    let printed = print(&result.output);
    if result.code == 0 { printed } else { ExitCode::from(result.code) }
}

/// What a subcommand prints, or why it failed.
fn subcommand(command: &Command, config: &ConfigArguments, components: &Components) -> Result<String, String> {
    match command {
        Command::Container(which) => container::run(&which.target()),
        Command::Replay(arguments) => replay::run(arguments, config, components),
        Command::Record(how) => record::run(how),
        Command::Top(how) => top::run(how),
        Command::Completions { shell } => Ok(arguments::completions_of(*shell)),
        Command::DoctorLoad(which) => doctor::work(which),
        Command::Validate | Command::PrintConfig(_) | Command::Components(_) | Command::Doctor(_) => Ok(String::new()),
    }
}

/// To standard output; a reader that has gone away, as `head` does, is no failure.
fn print(text: &str) -> ExitCode {
    if text.is_empty() {
        return ExitCode::SUCCESS;
    }
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(io::stdout().lock(), "{text}{line_end}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// To standard error.
fn tell(text: &str) {
    // Nowhere left to say that this failed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
