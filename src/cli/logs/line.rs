//! One log line, as text for people or as a JSON object with the Collector's keys.

use std::fmt::{self, Write};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::pipeline::service::LogSettings;

/// What an event says.
pub(super) struct Line {
    level: &'static str,
    caller: Option<String>,
    pub(super) message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => "debug",
        };
        let caller = metadata.file().zip(metadata.line()).map(|(file, line)| format!("{file}:{line}"));
        let mut said = Said { message: String::new(), fields: Vec::new() };
        event.record(&mut said);
        Self { level, caller, message: said.message, fields: said.fields }
    }

    /// `time  level  message  key=value key=value`.
    pub(super) fn console(&self, now: jiff::Timestamp, settings: &LogSettings) -> String {
        let mut text = format!("{now:.3}  {:<5}  {}", self.level, self.message.replace('\n', "\n  "));
        let mut gap = "  ";
        let initial = settings.initial_fields.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let fields = self.fields.iter().map(|(key, value)| (*key, plain(value)));
        for (key, value) in fields.chain(initial) {
            let quoted = value.is_empty() || value.contains([' ', '"', '=', '\n']);
            // Writing to a String cannot fail.
            let _ = if quoted { write!(text, "{gap}{key}={value:?}") } else { write!(text, "{gap}{key}={value}") };
            gap = " ";
        }
        text.push('\n');
        text
    }

    /// `{"level":…,"ts":…,"caller":…,"msg":…,…}`.
    pub(super) fn json(&self, now: jiff::Timestamp, settings: &LogSettings) -> String {
        let mut object = Map::new();
        object.insert("level".into(), json!(self.level));
        object.insert("ts".into(), json!(format!("{now:.3}")));
        if let Some(caller) = self.caller.as_ref().filter(|_| !settings.disable_caller) {
            object.insert("caller".into(), json!(caller));
        }
        object.insert("msg".into(), json!(self.message));
        for (key, value) in &settings.initial_fields {
            object.insert(key.clone(), json!(value));
        }
        for (key, value) in &self.fields {
            object.insert((*key).into(), value.clone());
        }
        let mut text = Value::Object(object).to_string();
        text.push('\n');
        text
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Collects the fields of an event.
struct Said {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.push((field.name(), Value::String(text)));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push((field.name(), json!(value)));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), json!(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), json!(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), json!(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), json!(value)));
    }
}
