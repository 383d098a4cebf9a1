//! Pure: the sizes in a request, as protobuf.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;

use super::plan::{Leaf, Outline};
use crate::pipeline::Data;

/// The most that a message's own framing can take: a tag of two bytes and a length of five.
const FRAME: u64 = 7;

pub(super) fn outline(data: &Data) -> Outline {
    let mut outline = Outline::default();
    match data {
        Data::Sched(_) => {}
        Data::Traces(resources) => resources.iter().for_each(|resource| traces(resource, &mut outline)),
        Data::Metrics(resources) => resources.iter().for_each(|resource| metrics(resource, &mut outline)),
        Data::Logs(resources) => resources.iter().for_each(|resource| logs(resource, &mut outline)),
    }
    outline
}

/// Bytes of a message inside another.
fn framed(message: &impl Message) -> u64 {
    message.encoded_len() as u64 + FRAME
}

impl Outline {
    /// A header of `whole` bytes less the `parts` that can be elsewhere.
    fn add_header(&mut self, whole: &impl Message, parts: u64) -> Option<u32> {
        // The parts were counted with the largest frame, so the difference may fall below the truth by
        // what the frames really take; a frame for each level is added to stay above it.
        self.headers.push((whole.encoded_len() as u64).saturating_sub(parts) + FRAME);
        u32::try_from(self.headers.len() - 1).ok()
    }

    fn add_leaf(&mut self, item: &impl Message, under: [Option<u32>; 3], group: Option<u64>, leads: bool) {
        self.leaves.push(Leaf { cost: framed(item), under, group, leads });
    }
}

/// Sum of the exact bytes of these messages without their frames.
fn bare<'a, M: Message + 'a>(messages: impl IntoIterator<Item = &'a M>) -> u64 {
    messages.into_iter().map(|message| message.encoded_len() as u64).sum()
}

fn trace_group(span: &Span) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    span.trace_id.hash(&mut hasher);
    (!span.trace_id.is_empty()).then(|| hasher.finish())
}

fn traces(resource: &ResourceSpans, outline: &mut Outline) {
    let above = outline.add_header(resource, bare(&resource.scope_spans));
    for scope in &resource.scope_spans {
        let own = outline.add_header(scope, bare(&scope.spans));
        for span in &scope.spans {
            outline.add_leaf(span, [above, own, None], trace_group(span), span.parent_span_id.is_empty());
        }
    }
}

fn logs(resource: &ResourceLogs, outline: &mut Outline) {
    let above = outline.add_header(resource, bare(&resource.scope_logs));
    for scope in &resource.scope_logs {
        let own = outline.add_header(scope, bare(&scope.log_records));
        for record in &scope.log_records {
            outline.add_leaf(record, [above, own, None], None, false);
        }
    }
}

fn metrics(resource: &ResourceMetrics, outline: &mut Outline) {
    let above = outline.add_header(resource, bare(&resource.scope_metrics));
    for scope in &resource.scope_metrics {
        let own = outline.add_header(scope, bare(&scope.metrics));
        for metric in &scope.metrics {
            let Some(data) = &metric.data else { continue };
            match data {
                metric::Data::Gauge(gauge) => points(metric, &gauge.data_points, [above, own], outline),
                metric::Data::Sum(sum) => points(metric, &sum.data_points, [above, own], outline),
                metric::Data::Histogram(histogram) => points(metric, &histogram.data_points, [above, own], outline),
                metric::Data::ExponentialHistogram(histogram) => {
                    points(metric, &histogram.data_points, [above, own], outline);
                }
                metric::Data::Summary(summary) => points(metric, &summary.data_points, [above, own], outline),
            }
        }
    }
}

fn points<P: Message>(metric: &impl Message, points: &[P], [above, own]: [Option<u32>; 2], outline: &mut Outline) {
    // One more frame: the metric's data is a message of its own.
    let metric = outline.add_header(metric, bare(points).saturating_sub(FRAME));
    for point in points {
        outline.add_leaf(point, [above, own, metric], None, false);
    }
}
