//! Pure: the list of actions that `attributes` and `resource` apply to a set of attributes.
//!
//! The Collector's keys; `hash` and `from_context` are refused, not ignored.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Checker;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Sets it where it is not there.
    Insert,
    /// Sets it where it is there.
    Update,
    /// Sets it.
    Upsert,
    /// Takes it away; with `pattern`, every key that matches.
    Delete,
    /// Sets one attribute for each named group of `pattern` in its text.
    Extract,
    /// Changes its type to `converted_type`.
    Convert,
    /// Not supported.
    Hash,
}

/// The type that `convert` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConvertedType {
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// Text.
    String,
}

/// One action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ActionSettings {
    /// The attribute.
    pub key: String,
    /// What is done with it.
    pub action: Option<ActionKind>,
    /// The value to set: text, a number, a truth value or a list of them.
    pub value: Option<serde_json::Value>,
    /// The attribute whose value is set.
    pub from_attribute: String,
    /// Not supported: client metadata does not travel with the data.
    pub from_context: String,
    /// A regular expression, for `extract` and `delete`.
    pub pattern: String,
    /// The type, for `convert`.
    pub converted_type: Option<ConvertedType>,
}

/// An action that is ready to be applied.
#[derive(Debug, Clone)]
enum Action {
    Set { key: String, when: ActionKind, from: Source },
    Delete { key: String, pattern: Option<Regex> },
    Extract { key: String, pattern: Regex },
    Convert { key: String, to: ConvertedType },
}

#[derive(Debug, Clone)]
enum Source {
    Value(AnyValue),
    Attribute(String),
}

/// Actions in order.
#[derive(Debug, Clone, Default)]
pub struct Actions(Vec<Action>);

impl Actions {
    /// Ready actions; those with mistakes, which [`check`] tells, are left out.
    pub fn of(settings: &[ActionSettings]) -> Self {
        Self(settings.iter().filter_map(|one| ready(one).ok()).collect())
    }

    /// Applies all of them.
    pub fn apply(&self, attributes: &mut Vec<KeyValue>) {
        for action in &self.0 {
            match action {
                Action::Set { key, when, from } => set(attributes, key, *when, from),
                Action::Delete { key, pattern } => attributes.retain(|one| {
                    !(one.key == *key || pattern.as_ref().is_some_and(|pattern| pattern.is_match(&one.key)))
                }),
                Action::Extract { key, pattern } => extract(attributes, key, pattern),
                Action::Convert { key, to } => {
                    if let Some(value) =
                        attributes.iter_mut().find(|one| one.key == *key).and_then(|one| one.value.as_mut())
                    {
                        convert(value, *to);
                    }
                }
            }
        }
    }
}

/// Tells every mistake, at `list` and the index.
pub fn check(settings: &[ActionSettings], list: &str, at: &mut Checker<'_>) {
    for (index, one) in settings.iter().enumerate() {
        if let Err((key, message)) = ready(one) {
            let key = if key.is_empty() { String::new() } else { format!("::{key}") };
            at.problem(&format!("{list}::{index}{key}"), message);
        }
    }
}

fn ready(settings: &ActionSettings) -> Result<Action, (&'static str, String)> {
    let ActionSettings { key, action, value, from_attribute, from_context, pattern, converted_type } = settings;
    let key = key.clone();
    if !from_context.is_empty() {
        return Err(("from_context", "is not supported: client metadata does not travel with the data".into()));
    }
    let pattern = if pattern.is_empty() {
        None
    } else {
        Some(Regex::new(pattern).map_err(|error| ("pattern", error.to_string().replace('\n', " ")))?)
    };
    let when =
        action.ok_or_else(|| ("action", "missing; insert, update, upsert, delete, extract or convert".to_owned()))?;
    if key.is_empty() && !(when == ActionKind::Delete && pattern.is_some()) {
        return Err(("key", "missing; the attribute's name".into()));
    }
    match when {
        ActionKind::Insert | ActionKind::Update | ActionKind::Upsert => {
            let from =
                match (value, from_attribute.is_empty()) {
                    (Some(value), true) => Source::Value(any(value).ok_or_else(|| {
                        ("value", "must be text, a number, a truth value or a list of them".to_owned())
                    })?),
                    (None, false) => Source::Attribute(from_attribute.clone()),
                    _ => return Err(("", "needs either `value` or `from_attribute`".into())),
                };
            Ok(Action::Set { key, when, from })
        }
        ActionKind::Delete => Ok(Action::Delete { key, pattern }),
        ActionKind::Extract => match pattern {
            Some(pattern) if pattern.capture_names().flatten().next().is_some() => Ok(Action::Extract { key, pattern }),
            _ => Err(("pattern", "needs at least one named group, such as ^(?P<name>.*)$".into())),
        },
        ActionKind::Convert => match converted_type {
            Some(to) => Ok(Action::Convert { key, to: *to }),
            None => Err(("converted_type", "missing; int, double or string".into())),
        },
        ActionKind::Hash => Err(("action", "`hash` is not supported; delete the attribute instead".into())),
    }
}

fn any(value: &serde_json::Value) -> Option<AnyValue> {
    use serde_json::Value as Json;
    let value = match value {
        Json::String(text) => Any::StringValue(text.clone()),
        Json::Bool(flag) => Any::BoolValue(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Any::IntValue(number),
            None => Any::DoubleValue(number.as_f64()?),
        },
        Json::Array(items) => {
            Any::ArrayValue(ArrayValue { values: items.iter().map(any).collect::<Option<Vec<_>>>()? })
        }
        Json::Null | Json::Object(_) => return None,
    };
    Some(AnyValue { value: Some(value) })
}

fn set(attributes: &mut Vec<KeyValue>, key: &str, when: ActionKind, from: &Source) {
    let value = match from {
        Source::Value(value) => Some(value.clone()),
        Source::Attribute(name) => attributes.iter().find(|one| one.key == *name).and_then(|one| one.value.clone()),
    };
    let Some(value) = value else { return };
    match attributes.iter_mut().find(|one| one.key == key) {
        Some(there) if when != ActionKind::Insert => there.value = Some(value),
        None if when != ActionKind::Update => {
            attributes.push(KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() });
        }
        _ => {}
    }
}

fn extract(attributes: &mut Vec<KeyValue>, key: &str, pattern: &Regex) {
    let text = attributes.iter().find(|one| one.key == key).and_then(|one| one.value.as_ref()).map(text_of);
    let Some(text) = text else { return };
    let Some(groups) = pattern.captures(&text) else { return };
    for name in pattern.capture_names().flatten() {
        if let Some(group) = groups.name(name) {
            let value = AnyValue { value: Some(Any::StringValue(group.as_str().to_owned())) };
            set(attributes, name, ActionKind::Upsert, &Source::Value(value));
        }
    }
}

/// A value as text; numbers in decimal.
pub fn text_of(value: &AnyValue) -> String {
    match &value.value {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::BoolValue(flag)) => flag.to_string(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// What does not convert stays as it is, as in the Collector.
fn convert(value: &mut AnyValue, to: ConvertedType) {
    let new = match (to, &value.value) {
        (ConvertedType::String, Some(Any::BoolValue(_) | Any::IntValue(_) | Any::DoubleValue(_))) => {
            Some(Any::StringValue(text_of(value)))
        }
        (ConvertedType::Int, Some(Any::StringValue(text))) => text.trim().parse().ok().map(Any::IntValue),
        (ConvertedType::Int, Some(Any::DoubleValue(number))) => Some(Any::IntValue(*number as i64)),
        (ConvertedType::Int, Some(Any::BoolValue(flag))) => Some(Any::IntValue(i64::from(*flag))),
        (ConvertedType::Double, Some(Any::StringValue(text))) => text.trim().parse().ok().map(Any::DoubleValue),
        (ConvertedType::Double, Some(Any::IntValue(number))) => Some(Any::DoubleValue(*number as f64)),
        (ConvertedType::Double, Some(Any::BoolValue(flag))) => Some(Any::DoubleValue(f64::from(u8::from(*flag)))),
        _ => None,
    };
    if new.is_some() {
        value.value = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(yaml: &str) -> String {
        let settings: Vec<ActionSettings> = serde_yaml::from_str(yaml).unwrap();
        let text = |text: &str| Some(AnyValue { value: Some(Any::StringValue(text.into())) });
        let mut attributes = vec![
            KeyValue { key: "a".into(), value: text("12"), ..KeyValue::default() },
            KeyValue { key: "b.x".into(), value: text("GET /cart"), ..KeyValue::default() },
        ];
        Actions::of(&settings).apply(&mut attributes);
        let drawn: Vec<String> = attributes
            .iter()
            .map(|one| {
                let value = one.value.as_ref().unwrap();
                let sign = if matches!(value.value, Some(Any::StringValue(_))) { "=" } else { ":=" };
                format!("{}{sign}{}", one.key, text_of(value))
            })
            .collect();
        drawn.join(" ")
    }

    #[test]
    fn each_action_does_what_the_collector_does() {
        for (yaml, expected) in [
            ("[{key: a, action: insert, value: 1}]", "a=12 b.x=GET /cart"),
            ("[{key: c, action: insert, value: 1}]", "a=12 b.x=GET /cart c:=1"),
            ("[{key: c, action: update, value: 1}]", "a=12 b.x=GET /cart"),
            ("[{key: a, action: update, value: true}]", "a:=true b.x=GET /cart"),
            ("[{key: c, action: upsert, from_attribute: a}]", "a=12 b.x=GET /cart c=12"),
            ("[{key: c, action: upsert, from_attribute: none}]", "a=12 b.x=GET /cart"),
            ("[{key: a, action: delete}]", "b.x=GET /cart"),
            ("[{pattern: '^b\\.', action: delete}]", "a=12"),
            ("[{key: b.x, action: extract, pattern: '^(?P<verb>\\w+) '}]", "a=12 b.x=GET /cart verb=GET"),
            ("[{key: a, action: convert, converted_type: int}]", "a:=12 b.x=GET /cart"),
            ("[{key: b.x, action: convert, converted_type: int}]", "a=12 b.x=GET /cart"),
        ] {
            assert_eq!(applied(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (yaml, expected) in [
            ("{key: a}", "action"),
            ("{action: insert, value: 1}", "key"),
            ("{key: a, action: insert}", ""),
            ("{key: a, action: extract, pattern: x}", "pattern"),
            ("{key: a, action: delete, pattern: '('}", "pattern"),
            ("{key: a, action: convert}", "converted_type"),
            ("{key: a, action: hash}", "action"),
            ("{key: a, action: insert, from_context: x}", "from_context"),
        ] {
            let settings: ActionSettings = serde_yaml::from_str(yaml).unwrap();
            assert_eq!(ready(&settings).unwrap_err().0, expected, "{yaml}");
        }
    }
}
