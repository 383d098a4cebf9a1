//! `schedscope components`: what a config may name, as the Collector lists it, or as JSON Schema.

use serde_json::{Value as Json, json};

use super::command_result::CommandResult;
use super::config_schema::config_schema;
use crate::config::to_yaml;
use crate::pipeline::{ComponentType, Components, Signal};

/// Lists the component types as YAML, in the Collector's form.
pub fn components(version: &str, components: &Components) -> CommandResult {
    let module = format!("schedscope {version}");
    let providers = ["env", "file", "yaml"].map(|scheme| json!({"scheme": scheme, "module": module}));
    let document = json!({
        "buildinfo": {
            "command": "schedscope",
            "description": "Scheduling intervals and CPU contention per container",
            "version": version,
        },
        "receivers": list(components.receivers, &module, |factory| factory.emits.to_vec()),
        "processors": list(components.processors, &module, |factory| {
            factory.converts.iter().map(|(from, _)| *from).collect()
        }),
        "exporters": list(components.exporters, &module, |factory| factory.accepts.to_vec()),
        "connectors": [],
        "extensions": list(components.extensions, &module, |_| Vec::new()),
        "providers": providers,
    });
    CommandResult::ok(to_yaml(&document), &[])
}

/// The JSON Schema of a whole config file.
pub fn schema(components: &Components) -> CommandResult {
    CommandResult::ok(format!("{:#}\n", config_schema(components)), &[])
}

fn list<F: ComponentType>(types: &[&'static F], module: &str, signals: impl Fn(&F) -> Vec<Signal>) -> Vec<Json> {
    let mut types = types.to_vec();
    types.sort_by_key(|factory| factory.name());
    types
        .iter()
        .map(|factory| {
            let mut words: Vec<String> =
                signals(factory).iter().map(|signal| signal.to_string().to_lowercase()).collect();
            if words.is_empty() {
                words.push(F::KIND.to_owned());
            }
            words.sort();
            words.dedup();
            let stability: serde_json::Map<String, Json> =
                words.into_iter().map(|word| (word, capitalized(factory.stability()).into())).collect();
            json!({"name": factory.name(), "module": module, "stability": stability})
        })
        .collect()
}

/// `Alpha` for `alpha`, as the Collector writes stability.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
