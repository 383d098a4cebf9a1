//! Pure: for each bucket of a histogram the longest interval of the time since the last point that an application's
//! span suffered: a click on a slow bucket opens that trace.

use std::sync::Arc;

use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};

use crate::model::histogram::{BUCKETS, bucket_of};
use crate::model::{Context, Cycle, SchedBatch, WallNs};
use crate::pipeline::otlp::{attribute, seconds};

/// One interval.
#[derive(Debug, Clone, PartialEq)]
struct Chosen {
    ns: u64,
    ended: WallNs,
    context: Context,
    thread_name: Arc<str>,
}

/// The longest of each bucket.
#[derive(Debug, Clone, Default)]
struct Longest([Option<Chosen>; BUCKETS]);

/// Those of one owner's wait and throttle histograms.
#[derive(Debug, Clone, Default)]
pub(super) struct Exemplars {
    wait: Longest,
    throttle: Longest,
}

impl Exemplars {
    /// Looks at a cycle; only sampled traces are worth a click.
    pub(super) fn see(&mut self, cycle: &Cycle, batch: &SchedBatch) {
        let Some(context) = cycle.context.filter(Context::sampled) else { return };
        let ended = batch.offset.wall(cycle.run_start());
        let thread_name = || Arc::clone(&cycle.task.comm);
        self.wait.see(cycle.wait_ns, || (ended, context, thread_name()));
        self.throttle.see(cycle.throttled_ns, || (ended, context, thread_name()));
    }

    /// What was chosen since the last call: of waits, and of throttled stays.
    pub(super) fn take(&mut self) -> (Vec<Exemplar>, Vec<Exemplar>) {
        let taken = std::mem::take(self);
        (taken.wait.exemplars(), taken.throttle.exemplars())
    }
}

impl Longest {
    fn see(&mut self, ns: Option<u64>, of: impl FnOnce() -> (WallNs, Context, Arc<str>)) {
        let Some(ns) = ns.filter(|ns| *ns > 0) else { return };
        if let Some(place) = self.0.get_mut(bucket_of(ns))
            && place.as_ref().is_none_or(|known| known.ns < ns)
        {
            let (ended, context, thread_name) = of();
            *place = Some(Chosen { ns, ended, context, thread_name });
        }
    }

    fn exemplars(self) -> Vec<Exemplar> {
        let all = self.0.into_iter().flatten().map(|chosen| Exemplar {
            filtered_attributes: vec![attribute("thread.name", chosen.thread_name.as_ref())],
            time_unix_nano: chosen.ended.0,
            trace_id: chosen.context.trace_id.to_vec(),
            span_id: chosen.context.span_id.to_vec(),
            value: Some(exemplar::Value::AsDouble(seconds(chosen.ns))),
        });
        all.collect()
    }
}
