//! Pure: one owner's totals as OTLP metrics.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, Exemplar, Gauge, Histogram as OtlpHistogram, HistogramDataPoint, Metric,
    NumberDataPoint, Sum, metric,
};

use super::limits;
use super::settings::{SchedMetricsSettings, Temporality};
use super::sums::Sums;
use crate::model::histogram::BOUNDS_NS;
use crate::model::{CgroupTotals, Histogram, Losses, SchedState, WallNs};
use crate::pipeline::otlp::{attribute, seconds};

/// The times and form of one set of points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) settings: &'a SchedMetricsSettings,
    pub(super) start: WallNs,
    pub(super) time: WallNs,
    /// These are the series' last points: they say that nothing follows.
    pub(super) last: bool,
    /// These hold what found no room in a series of its own.
    pub(super) overflow: bool,
}

impl Frame<'_> {
    fn temporality(&self) -> i32 {
        match self.settings.temporality {
            Temporality::Cumulative => AggregationTemporality::Cumulative as i32,
            Temporality::Delta => AggregationTemporality::Delta as i32,
        }
    }

    fn flags(&self) -> u32 {
        if self.last { DataPointFlags::NoRecordedValueMask as u32 } else { 0 }
    }

    /// The attributes of a point, with the SDK's mark of an overflow.
    fn marked(&self, mut attributes: Vec<KeyValue>) -> Vec<KeyValue> {
        if self.overflow {
            attributes.push(attribute("otel.metric.overflow", true));
        }
        attributes
    }

    /// A point since a start of its own.
    pub(super) fn point_since(&self, start: WallNs, attributes: Vec<KeyValue>, value: Number) -> NumberDataPoint {
        Frame { start, ..*self }.point(attributes, value)
    }

    fn point(&self, attributes: Vec<KeyValue>, value: Number) -> NumberDataPoint {
        NumberDataPoint {
            attributes: self.marked(attributes),
            start_time_unix_nano: self.start.0,
            time_unix_nano: self.time.0,
            value: (!self.last).then_some(value),
            flags: self.flags(),
            ..NumberDataPoint::default()
        }
    }

    fn metric(&self, short: &str, unit: &str, description: &str, data: metric::Data) -> Metric {
        Metric {
            name: self.settings.full_name(short),
            unit: unit.to_owned(),
            description: description.to_owned(),
            data: Some(data),
            ..Metric::default()
        }
    }

    /// A sum that only grows.
    pub(super) fn counter(
        &self,
        short: &str,
        unit: &str,
        description: &str,
        points: Vec<(Vec<KeyValue>, Number)>,
    ) -> Option<Metric> {
        let points = points.into_iter().map(|(attributes, value)| self.point(attributes, value)).collect();
        self.counter_of(short, unit, description, points)
    }

    /// The same of points that are made, whose starts differ.
    pub(super) fn counter_of(
        &self,
        short: &str,
        unit: &str,
        description: &str,
        data_points: Vec<NumberDataPoint>,
    ) -> Option<Metric> {
        if !self.settings.sends(short) || data_points.is_empty() {
            return None;
        }
        let sum = Sum { data_points, aggregation_temporality: self.temporality(), is_monotonic: true };
        Some(self.metric(short, unit, description, metric::Data::Sum(sum)))
    }

    fn gauge(&self, short: &str, unit: &str, description: &str, point: (Vec<KeyValue>, Number)) -> Option<Metric> {
        self.gauges(short, unit, description, vec![point])
    }

    /// Present values.
    pub(super) fn gauges(
        &self,
        short: &str,
        unit: &str,
        description: &str,
        points: Vec<(Vec<KeyValue>, Number)>,
    ) -> Option<Metric> {
        if !self.settings.sends(short) || points.is_empty() {
            return None;
        }
        let data_points = points.into_iter().map(|(attributes, value)| self.point(attributes, value)).collect();
        Some(self.metric(short, unit, description, metric::Data::Gauge(Gauge { data_points })))
    }

    fn histogram(&self, short: &str, description: &str, from: &Histogram) -> Option<Metric> {
        if !self.settings.sends(short) {
            return None;
        }
        let point = HistogramDataPoint {
            attributes: self.marked(Vec::new()),
            start_time_unix_nano: self.start.0,
            time_unix_nano: self.time.0,
            count: from.count(),
            sum: Some(seconds(from.sum_ns)),
            bucket_counts: from.buckets.to_vec(),
            explicit_bounds: BOUNDS_NS.iter().map(|bound| seconds(*bound)).collect(),
            flags: self.flags(),
            ..HistogramDataPoint::default()
        };
        let data = OtlpHistogram { data_points: vec![point], aggregation_temporality: self.temporality() };
        Some(self.metric(short, "s", description, metric::Data::Histogram(data)))
    }
}

fn count(count: u64) -> Number {
    Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Since when sums are, what tells them from others of the same Resource, and the sums.
pub(super) type Told = (WallNs, Vec<KeyValue>, Sums);

/// The metrics that processes and threads have too; a set of points for each of `all`.
pub(super) fn sums<'a>(frame: &Frame<'_>, all: impl IntoIterator<Item = &'a Told>) -> Vec<Metric> {
    let with = |told: &[KeyValue], more: Option<KeyValue>| told.iter().cloned().chain(more).collect::<Vec<_>>();
    let (mut times, mut switches, mut migrations) = (Vec::new(), Vec::new(), Vec::new());
    for (start, of, sums) in all {
        for state in SchedState::ALL {
            let Some(ns) = sums.times.get(state) else { continue };
            let attributes = with(of, Some(attribute("linux.sched.state", state.name())));
            times.push(frame.point_since(*start, attributes, Number::AsDouble(seconds(ns))));
        }
        for (kind, number) in [("voluntary", sums.voluntary), ("involuntary", sums.involuntary)] {
            let attributes = with(of, Some(attribute("process.context_switch.type", kind)));
            switches.push(frame.point_since(*start, attributes, count(number)));
        }
        let moved = sums.migrations.map(|number| frame.point_since(*start, with(of, None), count(number)));
        migrations.extend(moved);
    }
    let description = "Thread time by scheduling state; the sum over all states is the threads' lifetime";
    let times = frame.counter_of("time", "s", description, times);
    let description = "Context switches as the kernel counts them";
    let switches = frame.counter_of("process.context_switches", "{context_switch}", description, switches);
    let migrations = frame.counter_of("migrations", "{migration}", "CPU changes", migrations);
    [times, switches, migrations].into_iter().flatten().collect()
}

/// Puts every metric of an owner but its sums, contention and losses.
pub(super) fn put_others(to: &mut Vec<Metric>, frame: &Frame<'_>, totals: &CgroupTotals, starvation: &str) {
    let metrics = [
        frame.histogram("wait.duration", "Runnable to running, net of throttled time", &totals.wait),
        frame.histogram("throttle.duration", "Runnable without CPU quota", &totals.throttle),
        totals.run.as_ref().and_then(|run| frame.histogram("run.duration", "On-CPU slices", run)),
        totals.block.as_ref().and_then(|block| frame.histogram("block.duration", "Sleeps", block)),
        frame.gauge(
            "wait.longest",
            "s",
            "The longest wait that ended or is open in the interval",
            (Vec::new(), Number::AsDouble(seconds(totals.longest_wait_ns))),
        ),
        frame.gauge(
            "wait.open",
            "{thread}",
            "Threads that have waited for longer than the starvation threshold and still wait",
            (vec![attribute("over", starvation)], count(u64::from(totals.starving_threads))),
        ),
    ];
    to.extend(metrics.into_iter().flatten());
    limits::put_of_owner(to, frame, &totals.limits);
}

/// Puts exemplars on the points of one histogram.
pub(super) fn add_exemplars(metrics: &mut [Metric], name: &str, exemplars: Vec<Exemplar>) {
    let of_name = metrics.iter_mut().find(|metric| metric.name == name);
    if let Some(Some(metric::Data::Histogram(histogram))) = of_name.map(|metric| &mut metric.data)
        && let Some(point) = histogram.data_points.first_mut()
    {
        point.exemplars = exemplars;
    }
}

/// The loss counter: every reason, zero included, so that an alert has a series.
pub(super) fn losses(frame: &Frame<'_>, losses: &Losses) -> Option<Metric> {
    let points = losses.iter().map(|(reason, count)| {
        let value = Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX));
        (vec![attribute("reason", reason.name())], value)
    });
    frame.counter("records.lost", "{record}", "What was not recorded, by reason", points.collect())
}
