//! Pure: joining two batches and cutting one by items, with order, Resources and scopes kept.

use opentelemetry_proto::tonic::logs::v1::{ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics, metric};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};

use crate::pipeline::Data;

/// One after the other, both of the same signal.
pub(super) fn join(mut first: Data, second: Data) -> Data {
    match (&mut first, second) {
        (Data::Traces(held), Data::Traces(more)) => held.extend(more),
        (Data::Metrics(held), Data::Metrics(more)) => held.extend(more),
        (Data::Logs(held), Data::Logs(more)) => held.extend(more),
        (_, other) => debug_assert!(false, "{} cannot be joined to another signal", other.signal()),
    }
    first
}

/// The first at most `max` items, and the rest. Whole Resource blocks while they fit; only a block that is
/// larger than `max` by itself is cut inside, so that its head (a window's root span) leads.
pub(super) fn cut(data: Data, max: usize) -> (Data, Data) {
    match data {
        Data::Traces(blocks) => {
            let (first, rest) = cut_blocks(blocks, max);
            (Data::Traces(first), Data::Traces(rest))
        }
        Data::Metrics(blocks) => {
            let (first, rest) = cut_blocks(blocks, max);
            (Data::Metrics(first), Data::Metrics(rest))
        }
        Data::Logs(blocks) => {
            let (first, rest) = cut_blocks(blocks, max);
            (Data::Logs(first), Data::Logs(rest))
        }
        Data::Sched(batch) => (Data::Sched(batch), Data::Traces(Vec::new())),
    }
}

/// Something of known size that can be cut into two of the same kind.
trait Pieces: Sized {
    fn items(&self) -> usize;
    /// Leaves the first `max` items in place and gives the rest.
    fn cut_off(&mut self, max: usize) -> Self;
}

fn cut_blocks<T: Pieces>(mut blocks: Vec<T>, max: usize) -> (Vec<T>, Vec<T>) {
    let (mut taken_items, mut whole) = (0, 0);
    for block in &blocks {
        if taken_items + block.items() > max {
            break;
        }
        taken_items += block.items();
        whole += 1;
    }
    if whole == 0 {
        return cut_exactly(blocks, max);
    }
    let rest = blocks.split_off(whole);
    (blocks, rest)
}

/// The first `max` items, cutting inside the block where they end.
fn cut_exactly<T: Pieces>(mut blocks: Vec<T>, max: usize) -> (Vec<T>, Vec<T>) {
    let mut room = max;
    for at in 0..blocks.len() {
        let items = blocks[at].items();
        if items > room {
            let mut rest = blocks.split_off(at);
            if room > 0
                && let Some(split) = rest.first_mut()
            {
                let tail = split.cut_off(room);
                blocks.push(std::mem::replace(split, tail));
            }
            return (blocks, rest);
        }
        room -= items;
    }
    (blocks, Vec::new())
}

macro_rules! nested {
    ($outer:ident . $inner:ident : $child:ident) => {
        impl Pieces for $outer {
            fn items(&self) -> usize {
                self.$inner.iter().map(Pieces::items).sum()
            }

            fn cut_off(&mut self, max: usize) -> Self {
                let (first, rest) = cut_exactly::<$child>(std::mem::take(&mut self.$inner), max);
                let mut tail = self.clone();
                self.$inner = first;
                tail.$inner = rest;
                tail
            }
        }
    };
}

macro_rules! leaves {
    ($outer:ident . $inner:ident) => {
        impl Pieces for $outer {
            fn items(&self) -> usize {
                self.$inner.len()
            }

            fn cut_off(&mut self, max: usize) -> Self {
                let all = std::mem::take(&mut self.$inner);
                let mut tail = self.clone();
                self.$inner = all;
                tail.$inner = self.$inner.split_off(max);
                tail
            }
        }
    };
}

nested!(ResourceSpans.scope_spans: ScopeSpans);
leaves!(ScopeSpans.spans);
nested!(ResourceLogs.scope_logs: ScopeLogs);
leaves!(ScopeLogs.log_records);
nested!(ResourceMetrics.scope_metrics: ScopeMetrics);
nested!(ScopeMetrics.metrics: Metric);

/// Calls `$run` with the points of any kind of metric.
macro_rules! with_points {
    ($data:expr, $points:ident => $run:expr) => {
        match $data {
            metric::Data::Gauge(kind) => {
                let $points = &mut kind.data_points;
                $run
            }
            metric::Data::Sum(kind) => {
                let $points = &mut kind.data_points;
                $run
            }
            metric::Data::Histogram(kind) => {
                let $points = &mut kind.data_points;
                $run
            }
            metric::Data::ExponentialHistogram(kind) => {
                let $points = &mut kind.data_points;
                $run
            }
            metric::Data::Summary(kind) => {
                let $points = &mut kind.data_points;
                $run
            }
        }
    };
}

impl Pieces for Metric {
    fn items(&self) -> usize {
        match &self.data {
            None => 0,
            Some(metric::Data::Gauge(kind)) => kind.data_points.len(),
            Some(metric::Data::Sum(kind)) => kind.data_points.len(),
            Some(metric::Data::Histogram(kind)) => kind.data_points.len(),
            Some(metric::Data::ExponentialHistogram(kind)) => kind.data_points.len(),
            Some(metric::Data::Summary(kind)) => kind.data_points.len(),
        }
    }

    fn cut_off(&mut self, max: usize) -> Self {
        let mut tail = self.clone();
        if let Some(data) = &mut self.data {
            with_points!(data, points => points.truncate(max));
        }
        if let Some(data) = &mut tail.data {
            with_points!(data, points => drop(points.drain(..max.min(points.len()))));
        }
        tail
    }
}
