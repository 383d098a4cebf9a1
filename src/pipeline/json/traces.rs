//! Pure: spans.

use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::common::{self, attribute};
use super::write::Object;

pub(super) fn resource(out: &mut Vec<u8>, resource: &ResourceSpans) {
    let mut object = Object::open(out);
    common::resource(&mut object, resource.resource.as_ref(), &resource.schema_url);
    object.list("scopeSpans", &resource.scope_spans, scope);
    object.close();
}

fn scope(out: &mut Vec<u8>, scope: &ScopeSpans) {
    let mut object = Object::open(out);
    common::scope(&mut object, scope.scope.as_ref(), &scope.schema_url);
    object.list("spans", &scope.spans, span);
    object.close();
}

/// One span.
pub(super) fn span(out: &mut Vec<u8>, span: &Span) {
    let mut object = Object::open(out);
    object.id("traceId", &span.trace_id);
    object.id("spanId", &span.span_id);
    object.text("traceState", &span.trace_state);
    object.id("parentSpanId", &span.parent_span_id);
    object.number("flags", span.flags.into());
    object.text("name", &span.name);
    object.number("kind", span.kind.into());
    object.long("startTimeUnixNano", span.start_time_unix_nano);
    object.long("endTimeUnixNano", span.end_time_unix_nano);
    object.list("attributes", &span.attributes, attribute);
    object.number("droppedAttributesCount", span.dropped_attributes_count.into());
    object.list("events", &span.events, event);
    object.number("droppedEventsCount", span.dropped_events_count.into());
    object.list("links", &span.links, link);
    object.number("droppedLinksCount", span.dropped_links_count.into());
    if let Some(status) = &span.status {
        object.field("status", |out| {
            let mut object = Object::open(out);
            object.text("message", &status.message);
            object.number("code", status.code.into());
            object.close();
        });
    }
    object.close();
}

fn event(out: &mut Vec<u8>, event: &Event) {
    let mut object = Object::open(out);
    object.long("timeUnixNano", event.time_unix_nano);
    object.text("name", &event.name);
    object.list("attributes", &event.attributes, attribute);
    object.number("droppedAttributesCount", event.dropped_attributes_count.into());
    object.close();
}

fn link(out: &mut Vec<u8>, link: &Link) {
    let mut object = Object::open(out);
    object.id("traceId", &link.trace_id);
    object.id("spanId", &link.span_id);
    object.text("traceState", &link.trace_state);
    object.list("attributes", &link.attributes, attribute);
    object.number("droppedAttributesCount", link.dropped_attributes_count.into());
    object.number("flags", link.flags.into());
    object.close();
}
