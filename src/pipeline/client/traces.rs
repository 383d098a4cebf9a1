//! Pure: spans as the bytes of their request, equal to those of prost in a fraction of the time: they are what we
//! send most of. Metrics and logs stay with prost.

use bytes::{Buf as _, Bytes};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use super::backward::Backward;

/// An `ExportTraceServiceRequest` of these resources.
pub(super) fn encode(resources: &[ResourceSpans]) -> Bytes {
    let mut to = Backward::new();
    for resource in resources.iter().rev() {
        to.message(1, |to| resource_spans(to, resource));
    }
    let (bytes, begin) = to.finish();
    let mut bytes = Bytes::from(bytes);
    bytes.advance(begin);
    bytes
}

fn resource_spans(to: &mut Backward, of: &ResourceSpans) {
    to.bytes(3, of.schema_url.as_bytes());
    for scope in of.scope_spans.iter().rev() {
        to.message(2, |to| scope_spans(to, scope));
    }
    if let Some(resource) = &of.resource {
        to.message(1, |to| self::resource(to, resource));
    }
}

fn resource(to: &mut Backward, of: &Resource) {
    for entity in of.entity_refs.iter().rev() {
        // no sender of ours has them
        to.bytes_always(3, &entity.encode_to_vec());
    }
    to.uint(2, u64::from(of.dropped_attributes_count));
    attributes(to, 1, &of.attributes);
}

fn scope_spans(to: &mut Backward, of: &ScopeSpans) {
    to.bytes(3, of.schema_url.as_bytes());
    for span in of.spans.iter().rev() {
        to.message(2, |to| self::span(to, span));
    }
    if let Some(scope) = &of.scope {
        to.message(1, |to| self::scope(to, scope));
    }
}

fn scope(to: &mut Backward, of: &InstrumentationScope) {
    to.uint(4, u64::from(of.dropped_attributes_count));
    attributes(to, 3, &of.attributes);
    to.bytes(2, of.version.as_bytes());
    to.bytes(1, of.name.as_bytes());
}

fn span(to: &mut Backward, of: &Span) {
    to.fixed32(16, of.flags);
    if let Some(status) = &of.status {
        to.message(15, |to| {
            to.uint(3, signed(status.code));
            to.bytes(2, status.message.as_bytes());
        });
    }
    to.uint(14, u64::from(of.dropped_links_count));
    for link in of.links.iter().rev() {
        to.message(13, |to| self::link(to, link));
    }
    to.uint(12, u64::from(of.dropped_events_count));
    for event in of.events.iter().rev() {
        to.message(11, |to| self::event(to, event));
    }
    to.uint(10, u64::from(of.dropped_attributes_count));
    attributes(to, 9, &of.attributes);
    to.fixed64(8, of.end_time_unix_nano);
    to.fixed64(7, of.start_time_unix_nano);
    to.uint(6, signed(of.kind));
    to.bytes(5, of.name.as_bytes());
    to.bytes(4, &of.parent_span_id);
    to.bytes(3, of.trace_state.as_bytes());
    to.bytes(2, &of.span_id);
    to.bytes(1, &of.trace_id);
}

fn event(to: &mut Backward, of: &Event) {
    to.uint(4, u64::from(of.dropped_attributes_count));
    attributes(to, 3, &of.attributes);
    to.bytes(2, of.name.as_bytes());
    to.fixed64(1, of.time_unix_nano);
}

fn link(to: &mut Backward, of: &Link) {
    to.fixed32(6, of.flags);
    to.uint(5, u64::from(of.dropped_attributes_count));
    attributes(to, 4, &of.attributes);
    to.bytes(3, of.trace_state.as_bytes());
    to.bytes(2, &of.span_id);
    to.bytes(1, &of.trace_id);
}

fn attributes(to: &mut Backward, field: u32, all: &[KeyValue]) {
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
fn signed(value: i32) -> u64 {
    i64::from(value) as u64
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, EntityRef, KeyValueList};
    use opentelemetry_proto::tonic::trace::v1::Status;
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

    fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
        let one = (".*", prop::option::of(value()), any::<i32>());
        let one = one.prop_map(|(key, value, key_strindex)| KeyValue { key, value, key_strindex });
        prop::collection::vec(one, 0..4)
    }

    prop_compose! {
        fn span()(
            ids in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..17), 3..4),
            texts in prop::collection::vec(".*", 4..5),
            numbers in prop::collection::vec(any::<u32>(), 5..6),
            times in prop::collection::vec(any::<u64>(), 3..4),
            signs in prop::collection::vec(any::<i32>(), 2..3),
            has_status in any::<bool>(),
            all in prop::collection::vec(attributes(), 3..4),
        ) -> Span {
            Span {
                trace_id: ids[0].clone(),
                span_id: ids[1].clone(),
                parent_span_id: ids[2].clone(),
                trace_state: texts[0].clone(),
                name: texts[1].clone(),
                flags: numbers[0],
                kind: signs[0],
                start_time_unix_nano: times[0],
                end_time_unix_nano: times[1],
                attributes: all[0].clone(),
                dropped_attributes_count: numbers[1],
                events: vec![Event {
                    time_unix_nano: times[2],
                    name: texts[2].clone(),
                    attributes: all[1].clone(),
                    dropped_attributes_count: numbers[2],
                }],
                dropped_events_count: numbers[3],
                links: vec![Link {
                    trace_id: ids[0].clone(),
                    span_id: ids[1].clone(),
                    trace_state: texts[3].clone(),
                    attributes: all[2].clone(),
                    dropped_attributes_count: numbers[4],
                    flags: numbers[0],
                }],
                dropped_links_count: numbers[1],
                status: has_status.then(|| Status { message: texts[2].clone(), code: signs[1] }),
            }
        }
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_prost(
            spans in prop::collection::vec(span(), 0..6),
            of_resource in attributes(),
            of_scope in attributes(),
            texts in prop::collection::vec(".*", 5..6),
            copies in 0..40_usize,
        ) {
            let entity = EntityRef { r#type: texts[3].clone(), ..EntityRef::default() };
            let resource = Resource {
                attributes: of_resource,
                dropped_attributes_count: 7,
                entity_refs: vec![entity, EntityRef::default()],
            };
            let scope = InstrumentationScope {
                name: texts[0].clone(),
                version: texts[1].clone(),
                attributes: of_scope,
                dropped_attributes_count: 0,
            };
            let of_one = ScopeSpans { scope: Some(scope), spans, schema_url: texts[2].clone() };
            let one = ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![of_one.clone(), ScopeSpans { scope: None, ..of_one }, ScopeSpans::default()],
                schema_url: texts[4].clone(),
            };
            // many of them do not fit into the bytes to begin with
            let mut resource_spans = vec![one; copies];
            resource_spans.push(ResourceSpans::default());
            let bytes = encode(&resource_spans);
            prop_assert_eq!(bytes, ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        }
    }
}
