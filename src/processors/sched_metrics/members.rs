//! Pure: what was told apart of processes and threads as OTLP metrics, one Resource per process.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use super::apart::{Apart, Member};
use super::encode::{self, Frame, Told};
use super::settings::{SchedMetricsSettings, Temporality};
use super::sums::Sums;
use crate::model::{ProcessKey, Resource, Task, WallNs};
use crate::pipeline::otlp::attribute;

/// The metrics of one process.
pub(super) type OfProcess = (Arc<Resource>, Vec<Metric>);

/// The points of a collection.
pub(super) fn points(
    apart: &mut Apart,
    settings: &SchedMetricsSettings,
    (before, time): (WallNs, WallNs),
) -> Vec<OfProcess> {
    let frame = Frame { settings, start: before, time, last: false, overflow: false };
    let mut all: Vec<OfProcess> = Vec::new();
    for old in &apart.ended {
        let frame = Frame { last: true, ..frame };
        all.push((Arc::clone(&old.resource), encode::sums(&frame, [&told(old, old.start, old.sums)])));
    }
    let points: Vec<(ProcessKey, Arc<Resource>, Told)> = apart
        .members
        .iter_mut()
        .map(|(key, member)| {
            let grown = member.sums.since(&member.sent);
            member.sent = member.sums;
            let point = match settings.temporality {
                Temporality::Cumulative => told(member, member.start, member.sums),
                Temporality::Delta => told(member, member.start.max(before), grown),
            };
            (key.process, Arc::clone(&member.resource), point)
        })
        .collect();
    // threads of a process that share its Resource share its metrics
    for group in points.chunk_by(|a, b| a.0 == b.0 && a.1 == b.1) {
        let resource = group.first().map(|(_, resource, _)| Arc::clone(resource)).unwrap_or_default();
        all.push((resource, encode::sums(&frame, group.iter().map(|(_, _, point)| point))));
    }
    all
}

fn told(member: &Member, start: WallNs, sums: Sums) -> Told {
    let of_thread = |task: &Arc<Task>| -> Vec<KeyValue> {
        vec![attribute("thread.id", i64::from(task.tid)), attribute("thread.name", task.comm.as_ref())]
    };
    (start, member.thread.as_ref().map(of_thread).unwrap_or_default(), sums)
}
