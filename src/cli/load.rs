//! From the command line's config options to a plan.

use super::arguments::ConfigArguments;
use super::command_result::refusal;
use crate::config::{Problems, ProcessEnvironment, resolve_or_default};
use crate::pipeline::{Components, Plan, graph};

/// A plan, and what a reader of the log should know about where it comes from.
pub(super) struct Loaded {
    pub(super) plan: Plan,
    pub(super) notes: Vec<String>,
}

/// The plan of the documents that `--config` names, or of the embedded default.
pub(super) fn load(config: &ConfigArguments, components: &Components) -> Result<Loaded, Problems> {
    let resolved = resolve_or_default(&config.sources, &config.sets, &ProcessEnvironment)?;
    let mut plan = graph::plan(&resolved.root, components)?;
    plan.warnings.splice(0..0, resolved.warnings);
    Ok(Loaded { plan, notes: resolved.notes })
}

/// All mistakes, and that nothing came of it.
pub(super) fn told(problems: &Problems) -> String {
    refusal(problems).trim_end().to_owned()
}
