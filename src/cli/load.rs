//! From the command line's config options to a plan.

use super::arguments::ConfigArguments;
use crate::components::COMPONENTS;
use crate::config::{Document, Problems, ProcessEnvironment, resolve, resolve_documents};
use crate::pipeline::{Plan, graph};

/// The plan of the documents that `--config` names, or of the embedded default.
pub(super) fn load(config: &ConfigArguments) -> Result<Plan, Problems> {
    let resolved = if config.sources.is_empty() {
        resolve_documents(&[embedded()], &config.sets, &ProcessEnvironment)?
    } else {
        resolve(&config.sources, &config.sets, &ProcessEnvironment)?
    };
    let mut plan = graph::plan(&resolved.root, &COMPONENTS)?;
    plan.warnings.splice(0..0, resolved.warnings);
    Ok(plan)
}

/// What runs when no `--config` is given.
fn embedded() -> Document {
    Document { name: "embedded default".into(), text: EMBEDDED.into() }
}

const EMBEDDED: &str = "\
receivers: {sched: {}}
processors: {sched_metrics: {}}
exporters: {debug: {}}
service: {pipelines: {metrics: {receivers: [sched], processors: [sched_metrics], exporters: [debug]}}}
";

/// All mistakes, and that nothing came of it.
pub(super) fn told(problems: &Problems) -> String {
    let count = problems.0.len();
    format!("{problems}\n{count} error{}, nothing was started", if count == 1 { "" } else { "s" })
}
