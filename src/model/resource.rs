//! An attribute set that describes who telemetry is about.

use std::borrow::Cow;
use std::sync::Arc;

/// An attribute value; the subset of OTLP's that identity needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// UTF-8 text.
    Text(Arc<str>),
    /// 64-bit integer.
    Int(i64),
    /// Boolean.
    Bool(bool),
    /// Double.
    Double(f64),
    /// List of texts.
    Texts(Vec<Arc<str>>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Attributes ordered by key, so that one set of facts is one value whatever order it was learnt in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resource {
    attributes: Vec<(Cow<'static, str>, Value)>,
}

impl Resource {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key`, replacing what was there.
    pub fn set(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let key = key.into();
        let value = value.into();
        match self.attributes.binary_search_by(|(known, _)| known.as_ref().cmp(key.as_ref())) {
            Ok(at) => {
                if let Some(slot) = self.attributes.get_mut(at) {
                    slot.1 = value;
                }
            }
            Err(at) => self.attributes.insert(at, (key, value)),
        }
    }

    /// Sets `key` only where it is not there yet.
    pub fn set_if_absent(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let key = key.into();
        if self.get(&key).is_none() {
            self.set(key, value);
        }
    }

    /// Drops `key`.
    pub fn remove(&mut self, key: &str) {
        self.attributes.retain(|(known, _)| known != key);
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.attributes.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
        self.attributes.get(at).map(|(_, value)| value)
    }

    /// The value of `key` where it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Adds every attribute of `other` that is not there yet.
    pub fn fill_from(&mut self, other: &Self) {
        for (key, value) in &other.attributes {
            self.set_if_absent(key.clone(), value.clone());
        }
    }

    /// All attributes, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.attributes.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// How many attributes there are.
    pub fn len(&self) -> usize {
        self.attributes.len()
    }

    /// No attribute at all.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }
}
