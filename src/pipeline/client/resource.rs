//! Pure: what the requests of all signals share: Resources, scopes, attributes, from the last field to the first.
//! Refuses to know: signals.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::backward::Backward;

/// Room for a Resource and its scope, which nearly all have enough of: what is too small is copied as it grows.
pub(super) const RESOURCE_BYTES: usize = 1 << 10;

pub(super) fn resource(to: &mut Backward, of: &Resource) {
    for entity in of.entity_refs.iter().rev() {
        // no sender of ours has them
        to.bytes_always(3, &entity.encode_to_vec());
    }
    to.uint(2, u64::from(of.dropped_attributes_count));
    attributes(to, 1, &of.attributes);
}

pub(super) fn scope(to: &mut Backward, of: &InstrumentationScope) {
    to.uint(4, u64::from(of.dropped_attributes_count));
    attributes(to, 3, &of.attributes);
    to.bytes(2, of.version.as_bytes());
    to.bytes(1, of.name.as_bytes());
}

pub(super) fn attributes(to: &mut Backward, field: u32, all: &[KeyValue]) {
    for one in all.iter().rev() {
        to.message(field, |to| {
            to.uint(3, signed(one.key_strindex));
            if let Some(value) = &one.value {
                to.message(2, |to| any_value(to, value));
            }
            to.bytes(1, one.key.as_bytes());
        });
    }
}

fn any_value(to: &mut Backward, of: &AnyValue) {
    match &of.value {
        None => {}
        Some(Value::StringValue(text)) => to.bytes_always(1, text.as_bytes()),
        Some(Value::BoolValue(flag)) => to.uint_always(2, u64::from(*flag)),
        Some(Value::IntValue(number)) => to.uint_always(3, *number as u64),
        Some(Value::DoubleValue(number)) => to.fixed64_always(4, number.to_bits()),
        Some(Value::ArrayValue(array)) => to.message(5, |to| {
            for value in array.values.iter().rev() {
                to.message(1, |to| any_value(to, value));
            }
        }),
        Some(Value::KvlistValue(list)) => to.message(6, |to| attributes(to, 1, &list.values)),
        Some(Value::BytesValue(bytes)) => to.bytes_always(7, bytes),
        Some(Value::StringValueStrindex(index)) => to.uint_always(8, signed(*index)),
    }
}

/// A negative int32 is ten bytes, sign and all.
pub(super) fn signed(value: i32) -> u64 {
    i64::from(value) as u64
}

#[cfg(test)]
pub(super) mod any {
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, EntityRef, KeyValueList};
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = AnyValue> {
        let leaf = prop_oneof![
            Just(None),
            ".*".prop_map(|text| Some(Value::StringValue(text))),
            any::<bool>().prop_map(|flag| Some(Value::BoolValue(flag))),
            any::<i64>().prop_map(|number| Some(Value::IntValue(number))),
            any::<f64>().prop_map(|number| Some(Value::DoubleValue(number))),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Some(Value::BytesValue(bytes))),
            any::<i32>().prop_map(|index| Some(Value::StringValueStrindex(index))),
        ];
        leaf.prop_map(|value| AnyValue { value }).prop_recursive(3, 20, 4, |inner| {
            let list = prop::collection::vec(inner, 0..4);
            list.prop_flat_map(|values| {
                let pairs = values.iter().cloned().map(|value| KeyValue { value: Some(value), ..KeyValue::default() });
                let of = [
                    Value::KvlistValue(KeyValueList { values: pairs.collect() }),
                    Value::ArrayValue(ArrayValue { values }),
                ];
                prop::sample::select(of.to_vec()).prop_map(|value| AnyValue { value: Some(value) })
            })
        })
    }

    pub(in super::super) fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
        let one = (".*", prop::option::of(value()), any::<i32>());
        let one = one.prop_map(|(key, value, key_strindex)| KeyValue { key, value, key_strindex });
        prop::collection::vec(one, 0..4)
    }

    prop_compose! {
        pub(in super::super) fn resource()(attributes in attributes(), name in ".*") -> Resource {
            let entity = EntityRef { r#type: name, ..EntityRef::default() };
            Resource { attributes, dropped_attributes_count: 7, entity_refs: vec![entity, EntityRef::default()] }
        }
    }

    prop_compose! {
        pub(in super::super) fn scope()(
            attributes in attributes(), name in ".*", version in ".*",
        ) -> InstrumentationScope {
            InstrumentationScope { name, version, attributes, dropped_attributes_count: 0 }
        }
    }
}
