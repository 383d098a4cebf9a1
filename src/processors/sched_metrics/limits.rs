//! Pure: quotas, pressure and steal as OTLP metrics, for triage beside the times.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

use super::encode::Frame;
use crate::model::{HostCounters, Limits, PressureTime, Quota};
use crate::pipeline::otlp::{attribute, seconds};

type Point = (Vec<KeyValue>, Number);

fn count(count: u64) -> Number {
    Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Puts an owner's quotas and pressure.
pub(super) fn put_of_owner(to: &mut Vec<Metric>, frame: &Frame<'_>, limits: &Limits) {
    let quotas = [("own", limits.own), ("ancestor", limits.ancestor)];
    let quotas: Vec<(&str, Quota)> = quotas.into_iter().filter_map(|(whose, quota)| Some((whose, quota?))).collect();
    let whose = |whose: &str| attribute("linux.sched.quota.owner", whose);
    let in_force = quotas.iter().filter(|(_, quota)| quota.limit_us > 0 && quota.period_us > 0);
    let limit: Vec<Point> = in_force
        .map(|(of, quota)| (vec![whose(of)], Number::AsDouble(quota.limit_us as f64 / quota.period_us as f64)))
        .collect();
    let periods: Vec<Point> = quotas
        .iter()
        .flat_map(|(of, quota)| {
            let point = |exhausted: bool, periods: u64| {
                (vec![whose(of), attribute("linux.sched.quota.exhausted", exhausted)], count(periods))
            };
            [point(true, quota.exhausted), point(false, quota.periods.saturating_sub(quota.exhausted))]
        })
        .collect();
    let metrics = [
        frame.gauges("quota.limit", "{cpu}", "CPUs that the quota allows", limit),
        frame.counter("quota.periods", "{period}", "Periods of the quota, by whether it was used up", periods),
        pressure(frame, limits.pressure),
    ];
    to.extend(metrics.into_iter().flatten());
}

/// The host's.
pub(super) fn of_host(frame: &Frame<'_>, host: &HostCounters) -> Vec<Metric> {
    let steal = host.steal_ns.map(|ns| (Vec::new(), Number::AsDouble(seconds(ns))));
    let description = "Time that the hypervisor took from all CPUs";
    let steal = frame.counter("steal.time", "s", description, steal.into_iter().collect());
    let ext = host.ext.as_ref().map(|ext| {
        let name = (!ext.name.is_empty()).then(|| attribute("linux.sched.ext.ops", ext.name.as_ref()));
        (name.into_iter().collect(), count(u64::from(ext.is_active)))
    });
    let description = "A sched_ext scheduler decides who runs: quotas and weights are for it to heed";
    let ext = frame.gauges("ext.active", "1", description, ext.into_iter().collect());
    [pressure(frame, host.pressure), steal, ext].into_iter().flatten().collect()
}

fn pressure(frame: &Frame<'_>, pressure: Option<PressureTime>) -> Option<Metric> {
    let pressure = pressure?;
    let point = |kind: &str, ns: u64| (vec![attribute("linux.sched.pressure", kind)], Number::AsDouble(seconds(ns)));
    let points = [Some(point("some", pressure.some_ns)), pressure.full_ns.map(|ns| point("full", ns))];
    let description = "Time in which some or all threads waited for a CPU (PSI)";
    frame.counter("pressure.time", "s", description, points.into_iter().flatten().collect())
}
