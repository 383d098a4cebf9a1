//! Pure: a document as a tree of nodes that keep their text, their style and their place.

use std::fmt;
use std::sync::Arc;

use super::problem::Position;
use super::scalar::{Typed, typed};

/// A value at a place.
#[derive(Clone, Default)]
pub struct Node {
    /// Where it stands; for what came out of a variable, where the reference stands.
    pub at: Position,
    /// What it is.
    pub value: Value,
    /// The text as it was before it was read as YAML, where the node took the place of a reference.
    pub original: Option<Arc<str>>,
    /// That reference, as messages show it.
    pub reference: Option<Arc<str>>,
}

/// The three shapes.
#[derive(Clone)]
pub enum Value {
    /// A word, a number, a text.
    Scalar(Scalar),
    /// Values in order.
    List(Vec<Node>),
    /// Values by key, in the order of the document; no key twice.
    Map(Vec<Entry>),
}

/// A scalar as written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Scalar {
    /// Its content.
    pub text: String,
    /// Not quoted: it may mean a number, a truth value or nothing.
    pub plain: bool,
}

/// One pair of a map.
#[derive(Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// The value.
    pub value: Node,
}

/// Shape and place only: a value may be a secret.
impl fmt::Debug for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}:{}:{}", self.shape(), self.at.file, self.at.line, self.at.column)
    }
}

impl Default for Value {
    fn default() -> Self {
        Self::Scalar(Scalar { text: String::new(), plain: true })
    }
}

impl Value {
    /// An empty map.
    pub const fn map() -> Self {
        Self::Map(Vec::new())
    }
}

impl Node {
    /// A node without an original text.
    pub const fn new(at: Position, value: Value) -> Self {
        Self { at, value, original: None, reference: None }
    }

    /// Nothing is written here.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.plain && typed(&scalar.text) == Typed::Null)
    }

    /// Keys and values.
    pub const fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// The entries of a map; none for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            Value::Scalar(_) | Value::List(_) => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Scalar(_) | Value::Map(_) => &[],
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The pair of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The text that a text field gets.
    pub fn text(&self) -> Option<&str> {
        match (&self.original, &self.value) {
            (Some(original), _) => Some(original),
            (None, Value::Scalar(scalar)) => Some(&scalar.text),
            (None, _) => None,
        }
    }

    /// The node at a path below this one, joined by `::`, list items by number.
    pub fn find(&self, path: &str) -> Option<&Self> {
        path.split("::").try_fold(self, |node, part| {
            node.get(part).or_else(|| part.parse().ok().and_then(|index: usize| node.items().get(index)))
        })
    }

    /// The place of a path below this node, joined by `::`; list items by number. Where a part of it is not
    /// written, the place of the last part that is. `None` for the empty path and where nothing of it is written.
    pub fn place_of(&self, path: &str) -> Option<&Position> {
        let mut node = self;
        let mut place = None;
        for part in path.split("::").filter(|part| !part.is_empty()) {
            if let Some(entry) = node.entry(part) {
                node = &entry.value;
                let points_at_value = matches!(node.value, Value::Scalar(_)) && !node.is_null();
                place = Some(if points_at_value { &node.at } else { &entry.at });
            } else if let Some(item) = part.parse().ok().and_then(|index: usize| node.items().get(index)) {
                node = item;
                place = Some(&node.at);
            } else {
                break;
            }
        }
        place
    }

    /// How many nodes this is, itself included.
    pub fn count(&self) -> usize {
        1 + match &self.value {
            Value::Scalar(_) => 0,
            Value::List(items) => items.iter().map(Self::count).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.value.count()).sum(),
        }
    }

    /// How the shape is called in messages.
    pub fn shape(&self) -> &'static str {
        match &self.value {
            Value::Scalar(_) if self.is_null() => "nothing",
            Value::Scalar(scalar) if !scalar.plain => "text",
            Value::Scalar(scalar) => match typed(&scalar.text) {
                Typed::Null => "nothing",
                Typed::Bool(_) => "a truth value",
                Typed::Int(_) | Typed::Float(_) => "a number",
                Typed::Text => "text",
            },
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
