//! `schedscope validate`: all that a start looks at in a config, without starting; needs no privileges.

use super::command_result::CommandResult;
use crate::config::{Environment, resolve_or_default};
use crate::pipeline::{Components, plan};

/// Silent where the config is right; warnings are written, and do not count.
pub fn validate(
    sources: &[String],
    sets: &[String],
    environment: &dyn Environment,
    components: &Components,
) -> CommandResult {
    let planned = resolve_or_default(sources, sets, environment)
        .and_then(|resolved| plan(&resolved.root, components).map(|plan| (resolved.warnings, plan.warnings)));
    match planned {
        Ok((mut warnings, more)) => {
            warnings.extend(more);
            CommandResult::ok(String::new(), &warnings)
        }
        Err(problems) => CommandResult::refused(&problems),
    }
}
