//! Pure: a node tree laid against a schema: typed values, and every mistake at its place.
//!
//! The schema decides how a scalar is read: a text field gets the text as written (`00123` stays),
//! a number field the number that YAML 1.1 sees in it (`0640` is 416).

use serde_json::{Map, Number, Value as Json};

use super::node::{Entry, Node, Scalar, Value};
use super::problem::{Position, Problem, Problems};
use super::scalar::{Typed, typed};
use super::schema::{Kind, Shape, Shapes, may_hold_secret};
use super::size::ByteSize;
use super::suggest::{listing, suggest};
use super::values::Period;

/// What a tree gives by a schema.
pub(super) struct Fitted {
    /// The typed value; `None`: nothing is written, all defaults.
    pub(super) value: Option<Json>,
    /// What does not fit.
    pub(super) problems: Problems,
    /// The secrets in it.
    pub(super) secrets: Vec<String>,
}

/// Types `node`, which stands at `path`, by a root schema. With `redact`, secrets are not in the value.
pub(super) fn fit(node: &Node, at: &Position, path: &str, schema: &Json, redact: bool) -> Fitted {
    let mut fitting = Fitting { root: schema, problems: Problems::default(), secrets: Vec::new(), redact };
    let value = fitting.value(node, schema, Spot { path, at });
    Fitted { value, problems: fitting.problems, secrets: fitting.secrets }
}

/// Where a value stands: its path, and the place to point at where the value itself has none of its own.
#[derive(Clone, Copy)]
struct Spot<'a> {
    path: &'a str,
    at: &'a Position,
}

struct Fitting<'a> {
    root: &'a Json,
    problems: Problems,
    secrets: Vec<String>,
    redact: bool,
}

impl<'a> Fitting<'a> {
    fn value(&mut self, node: &Node, schema: &'a Json, spot: Spot<'_>) -> Option<Json> {
        let shapes = Shapes::of(self.root, schema);
        if node.is_null() {
            return match &node.original {
                _ if shapes.is_open() || shapes.take(Kind::Null) => Some(Json::Null),
                Some(original) if shapes.take(Kind::Text) => self.text(original, &shapes, node, schema, spot),
                _ => None,
            };
        }
        if shapes.is_open() {
            return Some(untyped(node));
        }
        match &node.value {
            Value::Map(entries) => self.best_map(entries, &shapes, node, schema, spot),
            Value::List(items) => match shapes.that_take(Kind::List).first() {
                Some(shape) => Some(self.list(items, *shape, spot)),
                None => self.by_text(&shapes, node, schema, spot),
            },
            Value::Scalar(scalar) => self.scalar(scalar, &shapes, node, schema, spot),
        }
    }

    /// Of several kinds of map, the one that fits best.
    fn best_map(
        &mut self,
        entries: &[Entry],
        shapes: &Shapes<'a>,
        node: &Node,
        schema: &'a Json,
        spot: Spot<'_>,
    ) -> Option<Json> {
        let candidates = shapes.that_take(Kind::Map);
        if candidates.is_empty() {
            return self.by_text(shapes, node, schema, spot);
        }
        let mut best: Option<(Json, Problems, Vec<String>)> = None;
        for shape in candidates {
            let mut trial =
                Fitting { root: self.root, problems: Problems::default(), secrets: Vec::new(), redact: self.redact };
            let value = trial.map(entries, shape, spot);
            if best.as_ref().is_none_or(|(_, problems, _)| trial.problems.0.len() < problems.0.len()) {
                best = Some((value, trial.problems, trial.secrets));
            }
        }
        best.map(|(value, problems, secrets)| {
            self.problems.extend(problems);
            self.secrets.extend(secrets);
            value
        })
    }

    fn map(&mut self, entries: &[Entry], shape: Shape<'a>, spot: Spot<'_>) -> Json {
        let mut map = Map::new();
        for entry in entries {
            let path = format!("{}::{}", spot.path, entry.key);
            let inner = Spot { path: &path, at: &entry.at };
            let Some((schema, is_named)) = shape.key(&entry.key) else {
                self.problem(inner.at, &path, unknown_key(&entry.key, shape));
                continue;
            };
            let value = self.value(&entry.value, schema, inner);
            let shapes = Shapes::of(self.root, schema);
            let value = match value {
                // a key of the user's own, with nothing behind it: the value with all its defaults
                None if !is_named && entry.value.is_null() && shapes.take(Kind::Map) => Some(Json::Object(Map::new())),
                None if !is_named && entry.value.is_null() && shapes.take(Kind::Text) => Some("".into()),
                value => value,
            };
            if let Some(value) = value {
                map.insert(entry.key.clone(), value);
            }
        }
        for key in shape.required() {
            if !entries.iter().any(|entry| entry.key == key) {
                self.problem(spot.at, &format!("{}::{key}", spot.path), "is required");
            }
        }
        Json::Object(map)
    }

    fn list(&mut self, items: &[Node], shape: Shape<'a>, spot: Spot<'_>) -> Json {
        let schema = shape.items();
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = format!("{}::{index}", spot.path);
            let inner = Spot { path: &path, at: &item.at };
            match self.value(item, schema, inner) {
                Some(value) => list.push(value),
                None if item.is_null() && Shapes::of(self.root, schema).take(Kind::Map) => {
                    list.push(Json::Object(Map::new()));
                }
                None if item.is_null() => self.problem(&item.at, &path, "an empty list item"),
                None => {}
            }
        }
        Json::Array(list)
    }

    fn scalar(
        &mut self,
        scalar: &Scalar,
        shapes: &Shapes<'a>,
        node: &Node,
        schema: &'a Json,
        spot: Spot<'_>,
    ) -> Option<Json> {
        let meaning = if scalar.plain { typed(&scalar.text) } else { Typed::Text };
        match meaning {
            Typed::Bool(value) if shapes.take(Kind::Bool) => return Some(value.into()),
            Typed::Int(value) if shapes.take(Kind::Integer) => return self.integer(value, shapes, node, schema, spot),
            Typed::Float(value) if shapes.take(Kind::Number) => return self.number(value, spot, node),
            Typed::Float(value) if shapes.take(Kind::Integer) && value.fract() == 0.0 && value.abs() < 1e19 => {
                return self.integer(value as i128, shapes, node, schema, spot);
            }
            _ => {}
        }
        if shapes.take(Kind::Text) {
            let text = node.text().unwrap_or_default();
            return self.text(text, shapes, node, schema, spot);
        }
        // as the Collector does: a text where a list of texts is wanted is cut at its commas
        let lists = shapes.that_take(Kind::List);
        if let Some(shape) = lists.first().filter(|shape| Shapes::of(self.root, shape.items()).take(Kind::Text)) {
            let parts = scalar.text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let items: Vec<Node> = parts
                .map(|part| Node::new(node.at.clone(), Value::Scalar(Scalar { text: part.to_owned(), plain: false })))
                .collect();
            return Some(self.list(&items, *shape, spot));
        }
        self.misfit(shapes, node, schema, spot);
        None
    }

    fn integer(
        &mut self,
        value: i128,
        shapes: &Shapes<'a>,
        node: &Node,
        schema: &'a Json,
        spot: Spot<'_>,
    ) -> Option<Json> {
        let candidates = shapes.that_take(Kind::Integer);
        for shape in &candidates {
            let (least, greatest) = shape.integer_bounds();
            if (least..=greatest).contains(&value) {
                let unsigned = u64::try_from(value).map(Number::from);
                return unsigned.or_else(|_| i64::try_from(value).map(Number::from)).ok().map(Json::Number);
            }
        }
        let (least, greatest) = candidates.first()?.integer_bounds();
        let shown = self.shown(node, schema);
        self.problem(&node.at, spot.path, format!("must be between {least} and {greatest}{shown}"));
        None
    }

    fn number(&mut self, value: f64, spot: Spot<'_>, node: &Node) -> Option<Json> {
        let number = Number::from_f64(value).map(Json::Number);
        if number.is_none() {
            self.problem(&node.at, spot.path, "must be a finite number");
        }
        number
    }

    /// A text by the shapes that take one: a word of a list, a duration, a secret, any text.
    fn text(&mut self, text: &str, shapes: &Shapes<'a>, node: &Node, schema: &'a Json, spot: Spot<'_>) -> Option<Json> {
        let words = shapes.words();
        let free: Vec<_> = shapes.that_take(Kind::Text).into_iter().filter(|shape| shape.words().is_empty()).collect();
        if words.contains(&text) {
            return Some(text.into());
        }
        let Some(shape) = free.first() else {
            let near = suggest(text, words.iter().copied()).map(|word| format!(", did you mean `{word}`?"));
            let shown = self.shown(node, schema);
            let near = near.unwrap_or_default();
            self.problem(&node.at, spot.path, format!("must be {}{shown}{near}", shapes.description()));
            return None;
        };
        if shape.is_opaque() {
            self.secrets.push(text.to_owned());
            return Some(if self.redact { "[REDACTED]".into() } else { text.into() });
        }
        if shape.format() == Some("duration")
            && words.is_empty()
            && let Err(message) = text.parse::<Period>()
        {
            self.problem(&node.at, spot.path, format!("{message}{}", came_from(node)));
            return None;
        }
        if shape.format() == Some("byte-size")
            && let Err(message) = text.parse::<ByteSize>()
        {
            self.problem(&node.at, spot.path, format!("{message}{}", came_from(node)));
            return None;
        }
        Some(text.into())
    }

    /// A list or map that came out of a reference, where only text fits: the text itself.
    fn by_text(&mut self, shapes: &Shapes<'a>, node: &Node, schema: &'a Json, spot: Spot<'_>) -> Option<Json> {
        if let Some(original) = node.original.as_deref().filter(|_| shapes.take(Kind::Text)) {
            return self.text(original, shapes, node, schema, spot);
        }
        self.misfit(shapes, node, schema, spot);
        None
    }

    fn misfit(&mut self, shapes: &Shapes<'a>, node: &Node, schema: &'a Json, spot: Spot<'_>) {
        let shown = self.shown(node, schema);
        let is_quoted_number = matches!(&node.value, Value::Scalar(scalar)
            if !scalar.plain && node.original.is_none() && typed(&scalar.text) != Typed::Text);
        let remedy = if is_quoted_number { "; take the quotes away" } else { "" };
        let at = if matches!(node.value, Value::Scalar(_)) { &node.at } else { spot.at };
        self.problem(at, spot.path, format!("must be {}{shown}{remedy}", shapes.description()));
    }

    /// `, not ...` with the value, unless a secret may stand in it, and where the value came from.
    fn shown(&self, node: &Node, schema: &Json) -> String {
        format!("{}{}", self.shown_value(node, schema), came_from(node))
    }

    fn shown_value(&self, node: &Node, schema: &Json) -> String {
        match &node.value {
            Value::Scalar(scalar) if !may_hold_secret(self.root, schema) => {
                let mut text: String = scalar.text.chars().take(60).collect();
                if text.len() < scalar.text.len() {
                    text.push('…');
                }
                let what = if scalar.plain { "" } else { "the text " };
                format!(", not {what}`{text}`")
            }
            _ => format!(", not {}", node.shape()),
        }
    }

    fn problem(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { position: Some(at.clone()), path: path.to_owned(), message: message.into() });
    }
}

/// The reference that a value came from.
fn came_from(node: &Node) -> String {
    node.reference.as_ref().map(|reference| format!(" (from `{reference}`)")).unwrap_or_default()
}

fn unknown_key(key: &str, shape: Shape<'_>) -> String {
    match suggest(key, shape.keys()) {
        Some(near) => format!("unknown key, did you mean `{near}`?"),
        None if shape.keys().next().is_none() => "unknown key; no keys are taken here".to_owned(),
        None => format!("unknown key; there are {}", listing(shape.keys())),
    }
}

/// Values by what YAML sees in them, where the schema leaves it open.
fn untyped(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) if !scalar.plain => scalar.text.as_str().into(),
        Value::Scalar(scalar) => match typed(&scalar.text) {
            Typed::Null => Json::Null,
            Typed::Bool(value) => value.into(),
            Typed::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => scalar.text.as_str().into(),
            },
            Typed::Float(value) => Number::from_f64(value).map_or_else(|| scalar.text.as_str().into(), Json::Number),
            Typed::Text => node.text().unwrap_or_default().into(),
        },
        Value::List(items) => items.iter().map(untyped).collect(),
        Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), untyped(&entry.value))).collect(),
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
