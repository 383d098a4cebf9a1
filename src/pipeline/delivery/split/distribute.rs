//! Pure: moves each item to its part, under a copy of its headers. Items without a part are let go.

use opentelemetry_proto::tonic::logs::v1::{ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics, Sum, Summary, metric,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};

use crate::pipeline::Data;

/// The `parts` that `places` (one for each item, in order) describes; parts without items are left out.
pub(super) fn distribute(data: Data, places: &[Option<usize>], parts: usize) -> Vec<Data> {
    let mut places = places.iter().copied();
    let mut next = || places.next().flatten();
    let split = match data {
        Data::Sched(_) => vec![data],
        Data::Traces(resources) => {
            collect(parts, Data::Traces, |parts| resources.into_iter().for_each(|from| spans(from, parts, &mut next)))
        }
        Data::Logs(resources) => {
            collect(parts, Data::Logs, |parts| resources.into_iter().for_each(|from| records(from, parts, &mut next)))
        }
        Data::Metrics(resources) => collect(parts, Data::Metrics, |parts| {
            resources.into_iter().for_each(|from| metrics(from, parts, &mut next))
        }),
    };
    split.into_iter().filter(|part| !part.is_empty()).collect()
}

fn collect<R>(parts: usize, wrap: impl Fn(Vec<R>) -> Data, fill: impl FnOnce(&mut [Vec<R>])) -> Vec<Data> {
    let mut filled: Vec<Vec<R>> = (0..parts).map(|_| Vec::new()).collect();
    fill(&mut filled);
    filled.into_iter().map(wrap).collect()
}

/// Whether a part has this resource and this scope open.
#[derive(Clone, Copy, Default)]
struct Open {
    resource: bool,
    scope: bool,
}

fn spans(mut from: ResourceSpans, parts: &mut [Vec<ResourceSpans>], next: &mut impl FnMut() -> Option<usize>) {
    let scopes = std::mem::take(&mut from.scope_spans);
    let mut open = vec![Open::default(); parts.len()];
    for mut scope in scopes {
        open.iter_mut().for_each(|open| open.scope = false);
        for span in std::mem::take(&mut scope.spans) {
            let Some(at) = next() else { continue };
            let (Some(part), Some(open)) = (parts.get_mut(at), open.get_mut(at)) else { continue };
            if !std::mem::replace(&mut open.resource, true) {
                part.push(from.clone());
            }
            let Some(resource) = part.last_mut() else { continue };
            if !std::mem::replace(&mut open.scope, true) {
                resource.scope_spans.push(ScopeSpans { spans: Vec::new(), ..scope.clone() });
            }
            if let Some(scope) = resource.scope_spans.last_mut() {
                scope.spans.push(span);
            }
        }
    }
}

fn records(mut from: ResourceLogs, parts: &mut [Vec<ResourceLogs>], next: &mut impl FnMut() -> Option<usize>) {
    let scopes = std::mem::take(&mut from.scope_logs);
    let mut open = vec![Open::default(); parts.len()];
    for mut scope in scopes {
        open.iter_mut().for_each(|open| open.scope = false);
        for record in std::mem::take(&mut scope.log_records) {
            let Some(at) = next() else { continue };
            let (Some(part), Some(open)) = (parts.get_mut(at), open.get_mut(at)) else { continue };
            if !std::mem::replace(&mut open.resource, true) {
                part.push(from.clone());
            }
            let Some(resource) = part.last_mut() else { continue };
            if !std::mem::replace(&mut open.scope, true) {
                resource.scope_logs.push(ScopeLogs { log_records: Vec::new(), ..scope.clone() });
            }
            if let Some(scope) = resource.scope_logs.last_mut() {
                scope.log_records.push(record);
            }
        }
    }
}

fn metrics(mut from: ResourceMetrics, parts: &mut [Vec<ResourceMetrics>], next: &mut impl FnMut() -> Option<usize>) {
    let scopes = std::mem::take(&mut from.scope_metrics);
    let mut open = vec![Open::default(); parts.len()];
    for mut scope in scopes {
        open.iter_mut().for_each(|open| open.scope = false);
        for metric in std::mem::take(&mut scope.metrics) {
            for (at, piece) in pieces(metric, next) {
                let (Some(part), Some(open)) = (parts.get_mut(at), open.get_mut(at)) else { continue };
                if !std::mem::replace(&mut open.resource, true) {
                    part.push(from.clone());
                }
                let Some(resource) = part.last_mut() else { continue };
                if !std::mem::replace(&mut open.scope, true) {
                    resource.scope_metrics.push(ScopeMetrics { metrics: Vec::new(), ..scope.clone() });
                }
                if let Some(scope) = resource.scope_metrics.last_mut() {
                    scope.metrics.push(piece);
                }
            }
        }
    }
}

/// A metric cut where neighbouring points go to different parts.
fn pieces(mut metric: Metric, next: &mut impl FnMut() -> Option<usize>) -> Vec<(usize, Metric)> {
    let Some(mut data) = metric.data.take() else { return Vec::new() };
    let mut places: Vec<Option<usize>> = (0..length(&data)).map(|_| next()).collect();
    let mut pieces = Vec::new();
    while let Some(place) = places.first().copied() {
        let run = places.iter().take_while(|other| **other == place).count();
        let front = take_front(&mut data, run);
        places.drain(..run);
        if let Some(place) = place {
            pieces.push((place, Metric { data: Some(front), ..metric.clone() }));
        }
    }
    pieces
}

fn length(data: &metric::Data) -> usize {
    match data {
        metric::Data::Gauge(gauge) => gauge.data_points.len(),
        metric::Data::Sum(sum) => sum.data_points.len(),
        metric::Data::Histogram(histogram) => histogram.data_points.len(),
        metric::Data::ExponentialHistogram(histogram) => histogram.data_points.len(),
        metric::Data::Summary(summary) => summary.data_points.len(),
    }
}

/// The first `count` points as data of the same kind.
fn take_front(data: &mut metric::Data, count: usize) -> metric::Data {
    fn front<P>(points: &mut Vec<P>, count: usize) -> Vec<P> {
        let rest = points.split_off(count.min(points.len()));
        std::mem::replace(points, rest)
    }
    match data {
        metric::Data::Gauge(gauge) => metric::Data::Gauge(Gauge { data_points: front(&mut gauge.data_points, count) }),
        metric::Data::Sum(sum) => metric::Data::Sum(Sum {
            data_points: front(&mut sum.data_points, count),
            aggregation_temporality: sum.aggregation_temporality,
            is_monotonic: sum.is_monotonic,
        }),
        metric::Data::Histogram(histogram) => metric::Data::Histogram(Histogram {
            data_points: front(&mut histogram.data_points, count),
            aggregation_temporality: histogram.aggregation_temporality,
        }),
        metric::Data::ExponentialHistogram(histogram) => metric::Data::ExponentialHistogram(ExponentialHistogram {
            data_points: front(&mut histogram.data_points, count),
            aggregation_temporality: histogram.aggregation_temporality,
        }),
        metric::Data::Summary(summary) => {
            metric::Data::Summary(Summary { data_points: front(&mut summary.data_points, count) })
        }
    }
}
