//! Pure: what was told apart of processes and threads as OTLP metrics, one Resource per process.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use super::apart::{Apart, Member};
use super::encode::{self, Frame, Told};
use super::settings::{SchedMetricsSettings, Temporality};
use crate::model::{ProcessKey, Resource, WallNs};
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
        all.push((Arc::clone(&old.resource), encode::sums(&frame, &[told(old, old.start, old.sums)])));
    }
    let mut of_process: Option<(ProcessKey, Arc<Resource>, Vec<Told>)> = None;
    let mut done = |group: Option<(ProcessKey, Arc<Resource>, Vec<Told>)>| {
        if let Some((_, resource, group)) = group {
            all.push((resource, encode::sums(&frame, &group)));
        }
    };
    for (key, member) in &mut apart.members {
        let grown = member.sums.since(&member.sent);
        member.sent = member.sums;
        let point = match settings.temporality {
            Temporality::Cumulative => told(member, member.start, member.sums),
            Temporality::Delta => told(member, member.start.max(before), grown),
        };
        match &mut of_process {
            // threads of a process that share its Resource share its points
            Some((process, resource, group)) if *process == key.process && *resource == member.resource => {
                group.push(point);
            }
            _ => done(of_process.replace((key.process, Arc::clone(&member.resource), vec![point]))),
        }
    }
    done(of_process);
    all
}

fn told(member: &Member, start: WallNs, sums: super::sums::Sums) -> Told {
    let of_thread = |task: &Arc<crate::model::Task>| -> Vec<KeyValue> {
        vec![attribute("thread.id", i64::from(task.tid)), attribute("thread.name", task.comm.as_ref())]
    };
    (start, member.thread.as_ref().map(of_thread).unwrap_or_default(), sums)
}
