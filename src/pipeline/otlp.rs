//! Pure: the model's words as OTLP messages: attributes, Resources, scopes. Shared by the processors that make
//! OTLP, so that one fact has one spelling.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;

use crate::model::{HostFacts, Resource, Value};

/// Schema of the semantic conventions that our attribute names follow.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Name of the scope of all scheduling telemetry: what backends filter us by.
pub const SCOPE: &str = "schedscope/sched";

/// A value of any type.
fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

/// One attribute.
pub fn attribute(key: impl Into<String>, value: impl Into<AttributeValue>) -> KeyValue {
    let value = any(value.into().0);
    KeyValue { key: key.into(), value: Some(value), key_strindex: 0 }
}

/// Anything that can be an attribute's value.
pub struct AttributeValue(Any);

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self(Any::StringValue(text.to_owned()))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self(Any::StringValue(text))
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self(Any::BoolValue(flag))
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self(Any::IntValue(number))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self(Any::IntValue(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self(Any::IntValue(i64::from(number)))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self(Any::DoubleValue(number))
    }
}

impl<T: Into<Self>> From<Vec<T>> for AttributeValue {
    fn from(values: Vec<T>) -> Self {
        Self::list(values)
    }
}

impl AttributeValue {
    /// A list, of values that need not be gathered before.
    pub fn list<T: Into<Self>>(values: impl IntoIterator<Item = T>) -> Self {
        let values = values.into_iter().map(|value| any(value.into().0)).collect();
        Self(Any::ArrayValue(ArrayValue { values }))
    }
}

impl From<&Value> for AttributeValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => text.as_ref().into(),
            Value::Int(number) => (*number).into(),
            Value::Bool(flag) => (*flag).into(),
            Value::Double(number) => (*number).into(),
            Value::Texts(texts) => texts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().into(),
        }
    }
}

/// A Resource message.
pub fn resource(from: &Resource) -> OtlpResource {
    let attributes = from.iter().map(|(key, value)| attribute(key, value)).collect();
    OtlpResource { attributes, ..OtlpResource::default() }
}

/// The scope of scheduling telemetry; says how it was measured and how throttled time was told apart.
pub fn scope(version: &str, facts: &HostFacts) -> InstrumentationScope {
    InstrumentationScope {
        name: SCOPE.to_owned(),
        version: version.to_owned(),
        attributes: vec![
            attribute("linux.sched.backend", facts.backend),
            attribute("linux.sched.throttle.source", facts.throttle_source),
        ],
        ..InstrumentationScope::default()
    }
}

/// Seconds of nanoseconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
