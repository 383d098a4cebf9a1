//! Pure: what a subcommand that only looks at the config gives back.

use crate::config::{Problem, Problems};

/// Text for both outputs and the exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// For standard output; whole lines.
    pub output: String,
    /// For standard error; whole lines.
    pub messages: String,
    /// 0 ok, 1 the config is wrong.
    pub code: u8,
}

impl CommandResult {
    /// All is well; the warnings go to standard error.
    pub fn ok(output: String, warnings: &[Problem]) -> Self {
        let messages = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        Self { output, messages, code: 0 }
    }

    /// The config is wrong.
    pub fn refused(problems: &Problems) -> Self {
        Self { output: String::new(), messages: refusal(problems), code: 1 }
    }
}

/// Every mistake on a line of its own, and how many there are.
pub fn refusal(problems: &Problems) -> String {
    let count = problems.0.len();
    let errors = if count == 1 { "error" } else { "errors" };
    format!("{problems}\n{count} {errors}, nothing was started\n")
}
