//! Pure: the JSON Schema of a whole config file, for completion and checks in editors.
//!
//! Wider than the settings' own schemas by what a document may say before it is resolved: any value may be a
//! reference, nothing stands for the default, and a text may be written as a number.

use serde_json::{Map, Value as Json, json};

use super::print_config::service_schema;
use crate::pipeline::{ComponentType, Components};

/// The schema of a document.
pub fn config_schema(components: &Components) -> Json {
    let mut definitions = Map::new();
    definitions.insert("reference".into(), json!({"type": "string", "pattern": r"\$\{.+\}"}));
    let mut properties = Map::new();
    section(components.receivers, &mut properties, &mut definitions);
    section(components.processors, &mut properties, &mut definitions);
    section(components.exporters, &mut properties, &mut definitions);
    section(components.extensions, &mut properties, &mut definitions);
    properties.insert(
        "connectors".into(),
        json!({"description": "None in this build.", "type": ["object", "null"], "maxProperties": 0}),
    );
    let mut service = service_schema().to_value();
    service["properties"]["pipelines"]["propertyNames"] = json!({"pattern": "^(traces|metrics|logs)(/.+)?$"});
    let service = adopt("service", service, &mut definitions);
    properties.insert("service".into(), service);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "schedscope config",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions,
    })
}

fn section<F: ComponentType>(
    types: &[&'static F],
    properties: &mut Map<String, Json>,
    definitions: &mut Map<String, Json>,
) {
    let mut plain = Map::new();
    let mut named = Map::new();
    for factory in types {
        let schema = (factory.settings().schema)().to_value();
        let mut body = adopt(&format!("{}.{}", F::SECTION, factory.name()), schema, definitions);
        body["description"] = factory.about().into();
        for word in [factory.name()].iter().chain(factory.aliases()) {
            let mut body = body.clone();
            if *word != factory.name() {
                body["deprecated"] = true.into();
            }
            plain.insert((*word).to_owned(), body.clone());
            named.insert(format!("^{word}/.+$"), body);
        }
    }
    let section = json!({
        "description": format!("Every {} by its id, `type` or `type/name`.", F::KIND),
        "type": ["object", "null"],
        "properties": plain,
        "patternProperties": named,
        "additionalProperties": false,
    });
    properties.insert(F::SECTION.into(), section);
}

/// Moves a settings schema and its definitions under `name`; gives the reference to it.
fn adopt(name: &str, mut schema: Json, definitions: &mut Map<String, Json>) -> Json {
    let own = schema.as_object_mut().and_then(|schema| {
        schema.remove("$schema");
        schema.remove("$defs")
    });
    for (key, mut definition) in own.and_then(|own| own.as_object().cloned()).unwrap_or_default() {
        widen(&mut definition, name);
        definitions.insert(format!("{name}.{key}"), definition);
    }
    widen(&mut schema, name);
    definitions.insert(name.to_owned(), schema);
    json!({"anyOf": [{"$ref": format!("#/$defs/{name}")}, {"$ref": "#/$defs/reference"}, {"type": "null"}]})
}

/// Renames references and lets every value inside be a reference or nothing.
fn widen(schema: &mut Json, name: &str) {
    let Json::Object(map) = schema else { return };
    // these mean other things to validators than they do here
    map.remove("format");
    map.remove("writeOnly");
    if let Some(Json::String(reference)) = map.get_mut("$ref") {
        *reference = reference.replace("#/$defs/", &format!("#/$defs/{name}."));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Json::Array(list)) = map.get_mut(key) {
            list.iter_mut().for_each(|inner| widen(inner, name));
        }
    }
    if let Some(Json::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(|inner| open(inner, name));
    }
    for key in ["additionalProperties", "items"] {
        if let Some(inner @ Json::Object(_)) = map.get_mut(key) {
            open(inner, name);
        }
    }
}

/// A value of this schema, a reference or nothing.
fn open(schema: &mut Json, name: &str) {
    widen(schema, name);
    let Json::Object(map) = schema else { return };
    let is_free_text = map.get("type").is_some_and(|kind| kind == "string" || *kind == json!(["string", "null"]))
        && !["enum", "const", "pattern"].iter().any(|key| map.contains_key(*key));
    if is_free_text {
        map.insert("type".into(), json!(["string", "number", "boolean", "null"]));
        return;
    }
    let mut outer = Map::new();
    for key in ["description", "default", "deprecated"] {
        if let Some(value) = map.remove(key) {
            outer.insert(key.into(), value);
        }
    }
    let inner = std::mem::take(map);
    outer.insert("anyOf".into(), json!([inner, {"$ref": "#/$defs/reference"}, {"type": "null"}]));
    *map = outer;
}
