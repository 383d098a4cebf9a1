//! `schedscope print-config`: the config after merging and expansion, secrets redacted unless asked otherwise.

use schemars::SchemaGenerator;
use serde_json::{Map, Value as Json};

use super::command_result::CommandResult;
use crate::config::{Body, Environment, Node, resolve_or_default, to_yaml};
use crate::pipeline::{Components, ServiceSettings, Settings, definitions, plan};

/// How the document looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    #[default]
    Yaml,
    /// Indented JSON.
    Json,
}

/// What is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Secrets as they are (`--mode unredacted`).
    pub unredacted: bool,
    /// YAML or JSON.
    pub format: Format,
    /// Every key with its default, not only what is written.
    pub defaults: bool,
}

/// Prints the config; a wrong one is refused as by `validate`.
pub fn print_config(
    sources: &[String],
    sets: &[String],
    options: PrintOptions,
    environment: &dyn Environment,
    components: &Components,
) -> CommandResult {
    let checked = resolve_or_default(sources, sets, environment)
        .and_then(|resolved| plan(&resolved.root, components).map(|plan| (resolved, plan.warnings)));
    let (resolved, more) = match checked {
        Ok(checked) => checked,
        Err(problems) => return CommandResult::refused(&problems),
    };
    let document = document(&resolved.root, options, components);
    let text = match options.format {
        Format::Yaml => to_yaml(&document),
        Format::Json => format!("{document:#}\n"),
    };
    CommandResult::ok(text, &[resolved.warnings, more].concat())
}

/// The sections in the order in which people write them.
fn document(root: &Node, options: PrintOptions, components: &Components) -> Json {
    let mut document = Map::new();
    for definition in definitions(root, components) {
        let section = document.entry(definition.section).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(section) = section {
            section.insert(definition.id.to_string(), settings(&definition.body, definition.settings, options));
        }
    }
    if let Some(entry) = root.entry("service") {
        const SERVICE: Settings = Settings::of::<ServiceSettings>();
        let body = Body::new("service".into(), entry.at.clone(), entry.value.clone());
        document.insert("service".into(), settings(&body, &SERVICE, options));
    }
    document.into()
}

fn settings(body: &Body, settings: &Settings, options: PrintOptions) -> Json {
    let schema = (settings.schema)();
    let written = body.written(schema.as_value(), !options.unredacted);
    if !options.defaults {
        return written;
    }
    let mut effective = (settings.effective)(body);
    if options.unredacted {
        reveal(&mut effective, &written);
    }
    effective
}

/// Puts the secrets back: settings never print them, what is written has them.
fn reveal(effective: &mut Json, written: &Json) {
    match (effective, written) {
        (Json::Object(effective), Json::Object(written)) => {
            for (key, value) in effective {
                if let Some(written) = written.get(key) {
                    reveal(value, written);
                }
            }
        }
        (Json::Array(effective), Json::Array(written)) => {
            for (value, written) in effective.iter_mut().zip(written) {
                reveal(value, written);
            }
        }
        (Json::String(text), Json::String(written)) if text == "[REDACTED]" => text.clone_from(written),
        _ => {}
    }
}

/// The schema of the service section.
pub(super) fn service_schema() -> schemars::Schema {
    SchemaGenerator::default().into_root_schema_for::<ServiceSettings>()
}
