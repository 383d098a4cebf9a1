//! Pure: `config/reference.md`, written from the settings themselves so that it cannot be wrong about them.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::print_config::service_schema;
use crate::pipeline::{ComponentType, Components, ServiceSettings, Signal};

/// How deep tables of keys go.
const DEPTH_MAX: usize = 8;

/// What holds for every config.
const PREAMBLE: &str = include_str!("reference_preamble.md");

/// The whole reference.
pub fn reference(components: &Components) -> String {
    let mut out = String::from(PREAMBLE);
    section(components.receivers, &mut out, |factory| format!("Gives {}.", words(factory.emits.iter().copied())));
    section(components.processors, &mut out, |factory| {
        let ways: Vec<String> = factory.converts.iter().map(|(from, to)| format!("{from} → {to}")).collect();
        format!("Takes and gives {}.", ways.join(", "))
    });
    section(components.exporters, &mut out, |factory| format!("Takes {}.", words(factory.accepts.iter().copied())));
    section(components.extensions, &mut out, |_| String::new());
    out.push_str("\n## service\n\n");
    let defaults = serde_json::to_value(ServiceSettings::default()).unwrap_or_default();
    table(service_schema().as_value(), &defaults, &mut out);
    out
}

fn words(signals: impl Iterator<Item = Signal>) -> String {
    signals.map(|signal| signal.to_string()).collect::<Vec<_>>().join(", ")
}

fn section<F: ComponentType>(types: &[&'static F], out: &mut String, signals: impl Fn(&F) -> String) {
    let _ = write!(out, "\n## {}\n", F::SECTION);
    for factory in types {
        let _ = write!(out, "\n### {}\n\n{} ", factory.name(), sentence(factory.about()));
        let signals = signals(factory);
        if !signals.is_empty() {
            let _ = write!(out, "{signals} ");
        }
        let _ = write!(out, "Stability: {}.", factory.stability());
        if !factory.aliases().is_empty() {
            let aliases: Vec<String> = factory.aliases().iter().map(|alias| format!("`{alias}`")).collect();
            let _ = write!(out, " Older spelling: {}.", aliases.join(", "));
        }
        out.push_str("\n\n");
        table((factory.settings().schema)().as_value(), &(factory.settings().defaults)(), out);
    }
}

/// One row for each key, nested keys under their path.
fn table(schema: &Json, defaults: &Json, out: &mut String) {
    let mut rows = Vec::new();
    keys(schema, schema, defaults, "", &mut rows, 0);
    if rows.is_empty() {
        out.push_str("No keys.\n");
        return;
    }
    out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for row in rows {
        out.push_str(&row);
    }
}

fn keys(root: &Json, schema: &Json, defaults: &Json, prefix: &str, rows: &mut Vec<String>, depth: usize) {
    let schema = followed(root, schema);
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return };
    for (key, property) in properties {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}::{key}") };
        let target = inner(root, property);
        let default = defaults.get(key).or_else(|| property.get("default")).unwrap_or(&Json::Null);
        let meaning = text(property, "description").or_else(|| text(target, "description")).unwrap_or_default();
        let has_keys = target.get("properties").is_some();
        let kind = kind(root, property);
        let shown = if has_keys || kind == "secret" { String::new() } else { shown_default(default) };
        rows.push(format!("| `{path}` | {kind} | {shown} | {} |\n", cell(&meaning)));
        if depth < DEPTH_MAX && has_keys {
            keys(root, target, default, &path, rows, depth + 1);
        } else if depth < DEPTH_MAX {
            let entry = [("additionalProperties", "<name>"), ("items", "<n>")]
                .into_iter()
                .find_map(|(key, word)| target.get(key).map(|entry| (inner(root, entry), word)));
            if let Some((entry, word)) = entry.filter(|(entry, _)| entry.get("properties").is_some()) {
                keys(root, entry, &Json::Null, &format!("{path}::{word}"), rows, depth + 1);
            }
        }
    }
}

/// Where a reference leads.
fn followed<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let pointer = schema.get("$ref").and_then(Json::as_str).and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// The same, and through `anyOf [X, null]`.
fn inner<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let alternatives = schema.get("anyOf").and_then(Json::as_array);
    let real = alternatives.and_then(|list| list.iter().find(|one| one.get("type").is_none_or(|kind| kind != "null")));
    followed(root, real.unwrap_or(schema))
}

fn text(schema: &Json, key: &str) -> Option<String> {
    schema.get(key).and_then(Json::as_str).map(str::to_owned)
}

/// The type in words.
fn kind(root: &Json, schema: &Json) -> String {
    let schema = inner(root, schema);
    match schema.get("format").and_then(Json::as_str) {
        Some("duration") => return "duration".into(),
        Some("opaque") => return "secret".into(),
        _ => {}
    }
    let allowed: Vec<String> = allowed(schema).iter().map(|word| format!("`{word}`")).collect();
    if !allowed.is_empty() {
        return allowed.join(", ");
    }
    if let Some(list) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
        if list.iter().any(|one| one.get("format").is_some_and(|format| format == "byte-size")) {
            return "size".into();
        }
        let mut kinds: Vec<String> = list.iter().map(|one| kind(root, one)).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Json::String(name)) => vec![name],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).filter(|name| *name != "null").collect(),
        _ => return "any".into(),
    };
    let named = |name: &&str| match *name {
        "boolean" => "bool".to_owned(),
        "integer" => "integer".to_owned(),
        "string" => "text".to_owned(),
        "array" => format!("list of {}", schema.get("items").map_or_else(|| "any".into(), |items| kind(root, items))),
        "object" => match schema.get("additionalProperties") {
            Some(entry @ Json::Object(_)) => format!("map to {}", kind(root, entry)),
            _ => "map".to_owned(),
        },
        other => other.to_owned(),
    };
    names.iter().map(named).collect::<Vec<_>>().join(" or ")
}

/// The words of an enumeration.
fn allowed(schema: &Json) -> Vec<String> {
    if let Some(list) = schema.get("enum").and_then(Json::as_array) {
        return list.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    }
    let alternatives = schema.get("oneOf").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let words: Vec<String> = alternatives
        .iter()
        .flat_map(|one| text(one, "const").map_or_else(|| allowed(one), |word| vec![word]))
        .collect();
    let is_complete = alternatives.iter().all(|one| one.get("const").is_some() || one.get("enum").is_some());
    if is_complete { words } else { Vec::new() }
}

fn shown_default(default: &Json) -> String {
    match default {
        Json::Null => String::new(),
        Json::String(text) if text.is_empty() => "empty".into(),
        Json::String(text) => format!("`{}`", cell(text)),
        Json::Object(map) if *map == Map::new() => "`{}`".into(),
        other => format!("`{}`", cell(&other.to_string())),
    }
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}
