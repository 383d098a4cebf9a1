//! Pure: spans as the bytes of their request, equal to those of prost in a fraction of the time: they are what we
//! send most of.

use bytes::Bytes;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::backward::Backward;
use super::resource::{RESOURCE_BYTES, attributes, resource, scope, signed};

/// Room for a span, which nearly all have enough of.
const SPAN_BYTES: usize = 320;

/// An `ExportTraceServiceRequest` of these resources.
pub(super) fn encode(resources: &[ResourceSpans]) -> Bytes {
    let spans: usize = resources.iter().flat_map(|of| &of.scope_spans).map(|scope| scope.spans.len()).sum();
    let mut to = Backward::with_capacity(spans * SPAN_BYTES + resources.len() * RESOURCE_BYTES);
    for resource in resources.iter().rev() {
        to.message(1, |to| resource_spans(to, resource));
    }
    to.finish()
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

fn scope_spans(to: &mut Backward, of: &ScopeSpans) {
    to.bytes(3, of.schema_url.as_bytes());
    for span in of.spans.iter().rev() {
        to.message(2, |to| self::span(to, span));
    }
    if let Some(scope) = &of.scope {
        to.message(1, |to| self::scope(to, scope));
    }
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Status;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::super::resource::any;
    use super::*;

    prop_compose! {
        fn span()(
            ids in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..17), 3..4),
            texts in prop::collection::vec(".*", 4..5),
            numbers in prop::collection::vec(any::<u32>(), 5..6),
            times in prop::collection::vec(any::<u64>(), 3..4),
            signs in prop::collection::vec(any::<i32>(), 2..3),
            has_status in any::<bool>(),
            all in prop::collection::vec(any::attributes(), 3..4),
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
            resource in any::resource(),
            scope in any::scope(),
            texts in prop::collection::vec(".*", 2..3),
            copies in 0..40_usize,
        ) {
            let of_one = ScopeSpans { scope: Some(scope), spans, schema_url: texts[0].clone() };
            let one = ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![of_one.clone(), ScopeSpans { scope: None, ..of_one }, ScopeSpans::default()],
                schema_url: texts[1].clone(),
            };
            // many of them do not fit into the bytes to begin with
            let mut resource_spans = vec![one; copies];
            resource_spans.push(ResourceSpans::default());
            let bytes = encode(&resource_spans);
            prop_assert_eq!(bytes, ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        }
    }
}
