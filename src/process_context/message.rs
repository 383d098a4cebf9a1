//! Pure: the message of OTEP 4719 (`opentelemetry.proto.processcontext.v1development`), declared by hand: no
//! released crate has it.

use std::sync::Arc;

use prost::{Message, Oneof};

use super::Published;
use crate::model::{Resource, Value};

/// The attribute that names the layout of the thread records.
const THREAD_SCHEMA: &str = "threadlocal.schema_version";

/// Attributes that are kept.
const ATTRIBUTES_MAX: usize = 64;
/// Bytes of one text that are kept; longer ones are left out.
const TEXT_MAX_BYTES: usize = 2048;

#[derive(Clone, PartialEq, Message)]
struct ProcessContext {
    #[prost(message, optional, tag = "1")]
    resource: Option<Attributes>,
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

/// What a payload says; `None` where it is no such message.
pub fn decode(payload: &[u8]) -> Option<Published> {
    let context = ProcessContext::decode(payload).ok()?;
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.kind.as_ref()) {
        Some(Kind::Text(text)) if text.len() <= TEXT_MAX_BYTES => Some(text.clone()),
        _ => None,
    };
    let schema = context.attributes.iter().find(|entry| entry.key == THREAD_SCHEMA);
    let thread_schema = schema.and_then(|entry| text(&entry.value));
    Some(Published { resource: resource(context.resource?.attributes), thread_schema })
}

fn resource(attributes: Vec<KeyValue>) -> Resource {
    let mut resource = Resource::new();
    for KeyValue { key, value } in attributes.into_iter().take(ATTRIBUTES_MAX) {
        let value = match value.and_then(|value| value.kind) {
            Some(Kind::Text(text)) if !text.is_empty() && text.len() <= TEXT_MAX_BYTES => Value::Text(Arc::from(text)),
            Some(Kind::Bool(flag)) => Value::Bool(flag),
            Some(Kind::Int(number)) => Value::Int(number),
            Some(Kind::Double(number)) => Value::Double(number),
            _ => continue,
        };
        // these describe how to read a thread's context, and are never to be exported
        if !key.is_empty() && !key.starts_with("threadlocal.") {
            resource.set(key, value);
        }
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_read_and_garbage_is_not() {
        let of = |key: &str, kind| KeyValue { key: key.into(), value: Some(AnyValue { kind: Some(kind) }) };
        let attributes_of = vec![
            of("service.name", Kind::Text("shop".into())),
            of("n", Kind::Int(3)),
            of("threadlocal.schema_version", Kind::Text("tls_v1".into())),
            of("huge", Kind::Text("x".repeat(5000))),
        ];
        let context = ProcessContext {
            resource: Some(Attributes { attributes: attributes_of }),
            attributes: vec![of(THREAD_SCHEMA, Kind::Text("tlsdesc_v1_dev".into()))],
        };
        let published = decode(&context.encode_to_vec()).unwrap();
        assert_eq!((published.resource.text("service.name"), published.resource.len()), (Some("shop"), 2));
        assert_eq!(published.thread_schema.as_deref(), Some("tlsdesc_v1_dev"));
        assert_eq!(decode(&[0xff; 40]), None);
        assert_eq!(decode(&[]), None);
    }
}
