//! Pure: the message of OTEP 4719 (`opentelemetry.proto.processcontext.v1development`), declared by hand: no
//! released crate has it.

use std::sync::Arc;

use prost::{Message, Oneof};

use crate::model::{Resource, Value};

/// Attributes that are kept.
const ATTRIBUTES_MAX: usize = 64;
/// Bytes of one text that are kept; longer ones are left out.
const TEXT_MAX_BYTES: usize = 2048;

#[derive(Clone, PartialEq, Message)]
struct ProcessContext {
    #[prost(message, optional, tag = "1")]
    resource: Option<Attributes>,
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

/// The resource of a payload; `None` where it is no such message.
pub(super) fn attributes(payload: &[u8]) -> Option<Resource> {
    let context = ProcessContext::decode(payload).ok()?;
    let mut resource = Resource::new();
    for KeyValue { key, value } in context.resource?.attributes.into_iter().take(ATTRIBUTES_MAX) {
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
    Some(resource)
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
        let context = ProcessContext { resource: Some(Attributes { attributes: attributes_of }) };
        let resource = attributes(&context.encode_to_vec()).unwrap();
        assert_eq!((resource.text("service.name"), resource.len()), (Some("shop"), 2));
        assert_eq!(attributes(&[0xff; 40]), None);
        assert_eq!(attributes(&[]), None);
    }
}
