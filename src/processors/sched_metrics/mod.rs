//! The `sched_metrics` processor: totals become OTLP metrics, one Resource per container, systemd unit and host.
//!
//! `ledger` adds cgroups up to owners, `apart` keeps processes and threads, `contention` culprits, `exemplars` what opens
//! a trace; `encode` and `members` write points. Refuses to know: kernels, who owns what.

mod apart;
#[cfg(test)]
mod apart_tests;
mod contention;
mod encode;
mod exemplars;
mod ledger;
mod limits;
mod members;
mod settings;
mod sums;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};

use self::apart::Apart;
use self::encode::Frame;
use self::ledger::{Ledger, Series};
pub use self::settings::SchedMetricsSettings;
use self::settings::{Level, Temporality};
use self::sums::Sums;
use crate::config::Period;
use crate::model::{
    CgroupTotals, HostCounters, HostFacts, Limits, Owner, OwnerKind, Resource, SchedBatch, WallNs, Wants,
};
use crate::pipeline::otlp::{self, attribute, seconds};
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::telemetry::Meter;

/// The `sched_metrics` processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "sched_metrics",
    aliases: &[],
    about: "Scheduling totals as OTLP metrics",
    stability: "alpha",
    converts: &[(Signal::Sched, Signal::Metrics)],
    needs_receiver: None,
    settings: Settings::of::<SchedMetricsSettings>(),
    build: |body, context| Ok(Box::new(SchedMetrics::new(body.decode()?, context))),
};

/// Series since the start.
pub struct SchedMetrics {
    settings: SchedMetricsSettings,
    version: &'static str,
    ledger: Ledger,
    apart: Apart,
    host: Arc<Owner>,
    losses_sent: crate::model::Losses,
    overflowed: Meter,
    host_sent: HostCounters,
}

impl SchedMetrics {
    /// No series yet.
    pub fn new(settings: SchedMetricsSettings, context: &BuildContext) -> Self {
        let mut resource = Resource::new();
        resource.set("service.name", "host-scheduler");
        let host = Owner {
            key: "host".into(),
            kind: OwnerKind::Host,
            display_name: "host".into(),
            resource: Arc::new(resource),
            provisional: false,
        };
        let of = [("processor", context.id.as_ref())];
        Self {
            ledger: Ledger::new(settings.max_series),
            apart: Apart::new(settings.level, settings.max_series),
            settings,
            version: context.version,
            overflowed: context.telemetry.counter("otelcol_processor_sched_metrics_overflowed", "{cgroup}", &of),
            host: Arc::new(host),
            losses_sent: crate::model::Losses::default(),
            host_sent: HostCounters::default(),
        }
    }

    fn points(&mut self, batch: &SchedBatch) -> Vec<ResourceMetrics> {
        let Some(collection) = &batch.collection else { return Vec::new() };
        let before = self.ledger.last().unwrap_or_else(|| batch.offset.wall(batch.facts.since));
        if let Some(host) = &batch.host {
            self.host = Arc::clone(host);
        }
        self.ledger.collect(batch, &self.host);
        let host = Arc::clone(&self.host);
        self.ledger.charge(batch, &host);
        self.apart.collect(batch, &mut self.ledger, &host, before);
        self.tell_overflow();
        let time = batch.offset.wall(collection.at);
        let facts = &batch.facts;
        let over = Period(Duration::from_nanos(batch.facts.starvation_ns)).to_string();
        let mut all = Vec::new();
        for old in &self.ledger.ended {
            let frame = Frame { settings: &self.settings, start: old.start, time, last: true, overflow: false };
            let sums = self.settings.level.sums(old.rest, || Sums::of(&old.totals()));
            let metrics = of_owner(&frame, sums, &old.totals(), &over);
            all.push(self.wrap(&old.owner.resource, metrics, facts));
        }
        let mut hosts = Vec::new();
        for series in self.ledger.series.values_mut() {
            let metrics = metrics_of(&self.settings, series, (before, time), &over, false);
            hosts.push((Arc::clone(&series.owner), metrics));
        }
        if let Some(series) = &mut self.ledger.overflow {
            let metrics = metrics_of(&self.settings, series, (before, time), &over, true);
            let owner = Arc::clone(&series.owner);
            all.push(self.wrap(&owner.resource, metrics, facts));
        }
        for (resource, metrics) in members::points(&mut self.apart, &self.settings, (before, time)) {
            all.push(self.wrap(&resource, metrics, facts));
        }
        let lost = self.losses(batch, before, time);
        let of_host = self.of_host(batch, before, time);
        for (owner, mut metrics) in hosts {
            if owner.kind == OwnerKind::Host {
                metrics.extend(lost.clone());
                metrics.extend(of_host.iter().cloned());
            }
            all.push(self.wrap(&owner.resource, metrics, facts));
        }
        self.apart.sweep();
        self.ledger.sweep();
        all
    }

    /// Counts what found no room, and says so at the first.
    fn tell_overflow(&self) {
        let before = self.overflowed.get();
        let now = self.ledger.overflowed + self.apart.overflowed;
        self.overflowed.add(now - before);
        if before == 0 && now > 0 {
            tracing::warn!(
                "sched_metrics: more than {} series have time to tell; the rest is summed in points \
                 with otel.metric.overflow (raise sched_metrics::max_series to see them apart)",
                self.settings.max_series
            );
        }
    }

    fn losses(&mut self, batch: &SchedBatch, before: WallNs, time: WallNs) -> Option<Metric> {
        let mut losses = batch.collection.as_ref()?.losses;
        let mut start = batch.offset.wall(batch.facts.since);
        if self.settings.temporality == Temporality::Delta {
            let mut delta = crate::model::Losses::default();
            for (reason, count) in losses.iter() {
                delta.add(reason, count - self.losses_sent.get(reason));
            }
            (self.losses_sent, losses, start) = (losses, delta, before);
        }
        encode::losses(&Frame { settings: &self.settings, start, time, last: false, overflow: false }, &losses)
    }

    /// The host's own pressure and steal.
    fn of_host(&mut self, batch: &SchedBatch, before: WallNs, time: WallNs) -> Vec<Metric> {
        let Some(now) = batch.collection.as_ref().map(|collection| &collection.host) else { return Vec::new() };
        let (mut shown, mut start) = (now.clone(), batch.offset.wall(batch.facts.since));
        if self.settings.temporality == Temporality::Delta {
            let sent = &self.host_sent;
            shown.pressure = now.pressure.map(|now| now.since(sent.pressure.unwrap_or_default()));
            shown.steal_ns = now.steal_ns.map(|now| now.saturating_sub(sent.steal_ns.unwrap_or(0)));
            start = start.max(before);
        }
        self.host_sent = now.clone();
        limits::of_host(&Frame { settings: &self.settings, start, time, last: false, overflow: false }, &shown)
    }

    fn wrap(&self, resource: &Resource, metrics: Vec<Metric>, facts: &HostFacts) -> ResourceMetrics {
        ResourceMetrics {
            resource: Some(otlp::resource(resource)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(otlp::scope(self.version, facts)),
                metrics,
                schema_url: otlp::SCHEMA_URL.into(),
            }],
            schema_url: otlp::SCHEMA_URL.into(),
        }
    }
}

/// An owner's metrics but contention and losses. `sums`: those that its own points tell, and whether they are a rest.
fn of_owner(frame: &Frame<'_>, sums: Option<(Sums, bool)>, totals: &CgroupTotals, over: &str) -> Vec<Metric> {
    let told = |(sums, is_rest): (Sums, bool)| {
        let frame = Frame { overflow: frame.overflow | is_rest, ..*frame };
        encode::sums(&frame, [&(frame.start, Vec::new(), sums)])
    };
    let mut all = Vec::with_capacity(settings::METRICS.len());
    all.extend(sums.map(told).into_iter().flatten());
    encode::put_others(&mut all, frame, totals, over);
    all
}

/// The points of one series, cumulative or since the last ones.
fn metrics_of(
    settings: &SchedMetricsSettings,
    series: &mut Series,
    (before, time): (WallNs, WallNs),
    over: &str,
    overflow: bool,
) -> Vec<Metric> {
    let totals = series.totals();
    let mut shown = totals.clone();
    let mut start = series.start;
    if settings.temporality == Temporality::Delta {
        ledger::minus(&mut shown, &series.sent);
        start = start.max(before);
    }
    let (rest, grown) = series.take_rest(&totals);
    let rest = if settings.temporality == Temporality::Delta { grown } else { rest };
    let sums = settings.level.sums(rest, || Sums::of(&shown));
    series.sent = totals;
    if overflow {
        // the quotas of many are nobody's
        shown.limits = Limits::default();
    }
    let frame = Frame { settings, start, time, last: false, overflow };
    let mut metrics = of_owner(&frame, sums, &shown, over);
    let (waits, throttles) = series.told.exemplars.take();
    for (short, exemplars) in [("wait.duration", waits), ("throttle.duration", throttles)] {
        if settings.exemplars && !exemplars.is_empty() {
            encode::add_exemplars(&mut metrics, &settings.full_name(short), exemplars);
        }
    }
    let delta = settings.temporality == Temporality::Delta;
    let charged = series.told.contention.points(settings.contention.top, series.start, before, delta);
    let named = charged.into_iter().map(|(culprit, since, ns)| {
        let attributes = vec![
            attribute("linux.sched.culprit.container.id", culprit.id.as_ref()),
            attribute("linux.sched.culprit.container.name", culprit.name.as_ref()),
        ];
        frame.point_since(since, attributes, Number::AsDouble(seconds(ns)))
    });
    let description = "Time that threads waited while another had the CPU, of the selected waits";
    metrics.extend(frame.counter_of("contention.time", "s", description, named.collect()));
    metrics
}

impl Level {
    /// The sums on an owner's own points: all, or what is told of no process, once there is such.
    fn sums(self, rest: Sums, all: impl FnOnce() -> Sums) -> Option<(Sums, bool)> {
        match self {
            Self::Container => Some((all(), false)),
            Self::Process | Self::Thread => (!rest.is_zero()).then_some((rest, true)),
        }
    }
}

impl Processor for SchedMetrics {
    fn wants(&self) -> Wants {
        let contends = self.settings.sends("contention.time");
        Wants {
            cycles: contends,
            // they come with the cycles; nothing is attached for them alone
            contexts: self.settings.exemplars && contends,
            shared_contexts: self.settings.exemplars && contends,
            threads: self.settings.level != Level::Container
                && ["time", "process.context_switches", "migrations"].iter().any(|name| self.settings.sends(name)),
            run_histogram: self.settings.sends("run.duration"),
            block_histogram: self.settings.sends("block.duration"),
            limits: ["quota.limit", "quota.periods", "pressure.time", "steal.time"]
                .iter()
                .any(|name| self.settings.sends(name)),
            ..Wants::default()
        }
    }

    fn process(&mut self, data: Data, out: &mut Outbox) {
        let Data::Sched(batch) = data else { return };
        if batch.collection.is_none() {
            let host = Arc::clone(&self.host);
            self.ledger.charge(&batch, &host);
            return;
        }
        let points = self.points(&batch);
        out.send(Data::Metrics(points));
    }
}
