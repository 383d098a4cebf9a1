//! Pure: one interval as a span under a parent, and spans under our scope.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::attributes::{self, Names};
use super::ids::{Ids, SpanId, TraceId};
use super::pieces::Piece;
use crate::model::{ClockOffset, HostFacts, IntervalKind, Resource};
use crate::pipeline::otlp;

/// What spans are written with.
pub(crate) struct Writer<'a> {
    pub(crate) ids: &'a Ids,
    pub(crate) version: &'a str,
    pub(crate) facts: &'a HostFacts,
}

impl Writer<'_> {
    /// One interval under a parent in a trace.
    pub(crate) fn interval(
        &self,
        (trace, parent): (TraceId, SpanId),
        tid: u32,
        piece: &Piece<'_>,
        names: &Names<'_>,
        offset: ClockOffset,
    ) -> Span {
        let (name, kind) = match piece.interval.kind {
            IntervalKind::Run => ("sched.run", 0),
            IntervalKind::Wait => ("sched.wait", 1),
            IntervalKind::Throttle => ("sched.throttle", 2),
            IntervalKind::Block => ("sched.block", 3),
        };
        let start = offset.wall(piece.interval.start).0;
        let attributes = attributes::interval(piece, names);
        let of = (trace, self.ids.span(trace, tid, kind, start), Some(parent));
        span(of, name.to_owned(), (start, offset.wall(piece.interval.end).0), attributes)
    }

    /// Spans of one Resource.
    pub(crate) fn resource(&self, from: &Resource, spans: Vec<Span>) -> ResourceSpans {
        ResourceSpans {
            resource: Some(otlp::resource(from)),
            scope_spans: vec![self.scope(spans)],
            schema_url: otlp::SCHEMA_URL.into(),
        }
    }

    /// Spans under our scope.
    pub(crate) fn scope(&self, spans: Vec<Span>) -> ScopeSpans {
        ScopeSpans { scope: Some(otlp::scope(self.version, self.facts)), spans, schema_url: otlp::SCHEMA_URL.into() }
    }
}

/// A span of ours: its trace, itself and its parent. Every field is written here, so that it is made where it stays:
/// a span is large, and to copy it is a part of the cost.
#[inline]
pub(crate) fn span(
    (trace, id, parent): (TraceId, SpanId, Option<SpanId>),
    name: String,
    (start_time_unix_nano, end_time_unix_nano): (u64, u64),
    attributes: Vec<KeyValue>,
) -> Span {
    Span {
        trace_id: trace.to_vec(),
        span_id: id.to_vec(),
        trace_state: String::new(),
        parent_span_id: parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: 0,
        name,
        kind: SpanKind::Internal as i32,
        start_time_unix_nano,
        end_time_unix_nano,
        attributes,
        dropped_attributes_count: 0,
        events: Vec::new(),
        dropped_events_count: 0,
        links: Vec::new(),
        dropped_links_count: 0,
        status: None,
    }
}
