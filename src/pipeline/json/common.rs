//! Pure: what all signals share: attributes, resources, scopes.

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::write::{Object, base64, double, list, quoted, text};

pub(super) fn attribute(out: &mut Vec<u8>, attribute: &KeyValue) {
    let mut object = Object::open(out);
    object.field("key", |out| text(out, &attribute.key));
    if let Some(value) = &attribute.value {
        object.field("value", |out| any_value(out, value));
    }
    object.close();
}

pub(super) fn any_value(out: &mut Vec<u8>, value: &AnyValue) {
    let mut object = Object::open(out);
    match &value.value {
        Some(Value::StringValue(value)) => object.field("stringValue", |out| text(out, value)),
        Some(Value::BoolValue(value)) => {
            object.field("boolValue", |out| out.extend_from_slice(if *value { b"true" } else { b"false" }));
        }
        Some(Value::IntValue(value)) => object.field("intValue", |out| quoted(out, value)),
        Some(Value::DoubleValue(value)) => object.field("doubleValue", |out| double(out, *value)),
        Some(Value::BytesValue(value)) => object.field("bytesValue", |out| base64(out, value)),
        Some(Value::ArrayValue(array)) => object.field("arrayValue", |out| {
            let mut object = Object::open(out);
            object.field("values", |out| list(out, &array.values, any_value));
            object.close();
        }),
        Some(Value::KvlistValue(map)) => object.field("kvlistValue", |out| {
            let mut object = Object::open(out);
            object.field("values", |out| list(out, &map.values, attribute));
            object.close();
        }),
        // A reference into the string table of profiles, which no other signal has.
        Some(Value::StringValueStrindex(_)) | None => {}
    }
    object.close();
}

/// The fields that every resource block begins with.
pub(super) fn resource(object: &mut Object<'_>, resource: Option<&Resource>, schema_url: &str) {
    if let Some(resource) = resource {
        object.field("resource", |out| {
            let mut object = Object::open(out);
            object.list("attributes", &resource.attributes, attribute);
            object.number("droppedAttributesCount", resource.dropped_attributes_count.into());
            object.list("entityRefs", &resource.entity_refs, entity);
            object.close();
        });
    }
    object.text("schemaUrl", schema_url);
}

fn entity(out: &mut Vec<u8>, entity: &EntityRef) {
    let mut object = Object::open(out);
    object.text("schemaUrl", &entity.schema_url);
    object.text("type", &entity.r#type);
    object.list("idKeys", &entity.id_keys, |out, key| text(out, key));
    object.list("descriptionKeys", &entity.description_keys, |out, key| text(out, key));
    object.close();
}

/// The fields that every scope block begins with.
pub(super) fn scope(object: &mut Object<'_>, scope: Option<&InstrumentationScope>, schema_url: &str) {
    if let Some(scope) = scope {
        object.field("scope", |out| {
            let mut object = Object::open(out);
            object.text("name", &scope.name);
            object.text("version", &scope.version);
            object.list("attributes", &scope.attributes, attribute);
            object.number("droppedAttributesCount", scope.dropped_attributes_count.into());
            object.close();
        });
    }
    object.text("schemaUrl", schema_url);
}
