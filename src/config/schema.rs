//! Pure: the parts of JSON Schema that settings use, as questions.

use serde_json::Value;

/// How deep references may lead.
const STEPS_MAX: usize = 32;

/// A schema with all its references followed: the alternatives that a value may match.
pub(super) struct Shapes<'a>(Vec<Shape<'a>>);

/// One alternative.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a>(pub(super) &'a Value);

/// A kind of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Integer,
    Number,
    Text,
    List,
    Map,
}

impl<'a> Shapes<'a> {
    pub(super) fn of(root: &'a Value, schema: &'a Value) -> Self {
        let mut found = Vec::new();
        gather(root, schema, &mut found, 0);
        Self(found)
    }

    /// The alternatives that allow a kind.
    pub(super) fn that_take(&self, kind: Kind) -> Vec<Shape<'a>> {
        self.0.iter().copied().filter(|shape| shape.takes(kind)).collect()
    }

    pub(super) fn take(&self, kind: Kind) -> bool {
        self.0.iter().any(|shape| shape.takes(kind))
    }

    /// Anything goes.
    pub(super) fn is_open(&self) -> bool {
        self.0.iter().any(|shape| shape.is_open())
    }

    /// All the words that are allowed where only words are.
    pub(super) fn words(&self) -> Vec<&'a str> {
        self.0.iter().flat_map(|shape| shape.words()).collect()
    }

    /// What a value must be, for a message.
    pub(super) fn description(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for shape in &self.0 {
            for part in shape.descriptions() {
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        let words = self.words();
        if !words.is_empty() {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            parts.push(format!("{}{}", if words.len() > 1 { "one of " } else { "" }, words.join(", ")));
        }
        parts.join(" or ")
    }
}

fn gather<'a>(root: &'a Value, schema: &'a Value, found: &mut Vec<Shape<'a>>, steps: usize) {
    if steps > STEPS_MAX {
        return;
    }
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#')) {
        if let Some(target) = root.pointer(pointer) {
            gather(root, target, found, steps + 1);
        }
        return;
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(list) = schema.get(key).and_then(Value::as_array) {
            for alternative in list {
                gather(root, alternative, found, steps + 1);
            }
            return;
        }
    }
    found.push(Shape(schema));
}

impl<'a> Shape<'a> {
    fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key).and_then(Value::as_str)
    }

    pub(super) fn format(self) -> Option<&'a str> {
        self.text("format")
    }

    /// A secret.
    pub(super) fn is_opaque(self) -> bool {
        self.format() == Some("opaque")
    }

    fn is_open(self) -> bool {
        ["type", "const", "enum", "properties", "additionalProperties", "items"]
            .iter()
            .all(|key| self.0.get(key).is_none())
    }

    pub(super) fn takes(self, kind: Kind) -> bool {
        let by_name = |name: &str| match name {
            "null" => kind == Kind::Null,
            "boolean" => kind == Kind::Bool,
            "integer" => kind == Kind::Integer,
            "number" => kind == Kind::Number || kind == Kind::Integer,
            "string" => kind == Kind::Text,
            "array" => kind == Kind::List,
            "object" => kind == Kind::Map,
            _ => false,
        };
        match self.0.get("type") {
            Some(Value::String(name)) => by_name(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(by_name),
            _ if self.0.get("const").or_else(|| self.0.get("enum")).is_some() => kind == Kind::Text,
            _ if self.0.get("properties").is_some() => kind == Kind::Map,
            _ if self.0.get("items").is_some() => kind == Kind::List,
            _ => self.is_open(),
        }
    }

    /// The words that are allowed, if only some are.
    pub(super) fn words(self) -> Vec<&'a str> {
        if let Some(word) = self.text("const") {
            return vec![word];
        }
        self.0.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The schema of a key, and whether it is one of the named keys.
    pub(super) fn key(self, key: &str) -> Option<(&'a Value, bool)> {
        if let Some(schema) = self.0.get("properties").and_then(|properties| properties.get(key)) {
            return Some((schema, true));
        }
        match self.0.get("additionalProperties") {
            Some(schema @ (Value::Object(_) | Value::Bool(true))) => Some((schema, false)),
            Some(_) => None,
            None => {
                let patterns = self.0.get("patternProperties").and_then(Value::as_object);
                patterns.and_then(|patterns| patterns.values().next()).map(|schema| (schema, false))
            }
        }
    }

    pub(super) fn keys(self) -> impl Iterator<Item = &'a str> {
        self.0.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.as_str())
    }

    pub(super) fn required(self) -> impl Iterator<Item = &'a str> {
        self.0.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The schema of the items of a list.
    pub(super) fn items(self) -> &'a Value {
        self.0.get("items").unwrap_or(&Value::Bool(true))
    }

    /// The least and the greatest whole number.
    pub(super) fn integer_bounds(self) -> (i128, i128) {
        let (least, greatest) = match self.format() {
            Some("uint8") => (0, i128::from(u8::MAX)),
            Some("uint16") => (0, i128::from(u16::MAX)),
            Some("uint32") => (0, i128::from(u32::MAX)),
            Some("uint64" | "uint") => (0, i128::from(u64::MAX)),
            Some("int8") => (i128::from(i8::MIN), i128::from(i8::MAX)),
            Some("int16") => (i128::from(i16::MIN), i128::from(i16::MAX)),
            Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
            _ => (i128::from(i64::MIN), i128::from(u64::MAX)),
        };
        let bound = |key: &str| self.0.get(key).and_then(|bound| bound.as_i64().map(i128::from));
        (
            bound("minimum").map_or(least, |own| own.max(least)),
            bound("maximum").map_or(greatest, |own| own.min(greatest)),
        )
    }

    fn descriptions(self) -> Vec<String> {
        let mut parts = Vec::new();
        if !self.words().is_empty() {
            return parts;
        }
        for (kind, word) in [
            (Kind::Bool, "true or false"),
            (Kind::Number, "a number"),
            (Kind::Integer, "a whole number"),
            (
                Kind::Text,
                match self.format() {
                    Some("duration") => "a duration such as 200ms or 1m30s",
                    Some("byte-size") => "a size such as 64MiB",
                    _ => "text",
                },
            ),
            (Kind::List, "a list"),
            (Kind::Map, "a mapping"),
        ] {
            if self.takes(kind) && !(kind == Kind::Integer && self.takes(Kind::Number)) {
                parts.push(word.to_owned());
            }
        }
        parts
    }
}

/// Whether a secret may stand anywhere in a value of this schema.
pub(super) fn may_hold_secret(root: &Value, schema: &Value) -> bool {
    fn search(root: &Value, schema: &Value, steps: usize) -> bool {
        steps <= STEPS_MAX
            && Shapes::of(root, schema).0.iter().any(|shape| {
                shape.is_opaque()
                    || shape.0.get("items").is_some_and(|items| search(root, items, steps + 1))
                    || shape.0.get("additionalProperties").is_some_and(|more| search(root, more, steps + 1))
                    || shape.keys().any(|key| shape.key(key).is_some_and(|(inner, _)| search(root, inner, steps + 1)))
            })
    }
    search(root, schema, 0)
}
