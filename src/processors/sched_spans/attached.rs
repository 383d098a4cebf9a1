//! Pure: intervals of a thread that had an active application span, as children of that span, in its trace.
//! Given as soon as they come: the application's own spans do not wait for a window either.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};

use super::settings::Attach;
use super::trace::Maker;
use super::window::ThreadKey;
use crate::model::{Context, Cycle, IntervalKind, Owner, Resource, SchedBatch};
use crate::processors::intervals::attributes::{self, Names};
use crate::processors::intervals::pieces::{self, Piece};

/// The span that an interval belongs to. A run slice only where it began and ended under the same one; nothing
/// where the trace is not recorded: its parent would never arrive.
pub(super) fn parent<'a>(piece: &Piece<'a>, ways: &[Attach]) -> Option<&'a Context> {
    let is_asked = |context: &&Context| ways.iter().any(|way| way.source() == context.source);
    let context = piece.cycle.context.as_ref().filter(|context| context.sampled()).filter(is_asked)?;
    (piece.interval.kind != IntervalKind::Run || context.covers_run).then_some(context)
}

/// The attached intervals of a batch, and how many were left out because their trace has enough of them.
pub(super) fn spans(maker: &Maker<'_>, batch: &SchedBatch) -> (Vec<ResourceSpans>, u64) {
    let mut threads: BTreeMap<ThreadKey, Vec<&Cycle>> = BTreeMap::new();
    for cycle in &batch.cycles {
        threads.entry((cycle.task.tid, cycle.task.start)).or_default().push(cycle);
    }
    let mut made: Vec<(&Arc<Resource>, Vec<Span>)> = Vec::new();
    let mut by_trace: HashMap<[u8; 16], usize> = HashMap::new();
    let mut left_out = 0;
    for cycles in threads.into_values().filter(|cycles| cycles.iter().any(|cycle| cycle.context.is_some())) {
        for piece in pieces::pieces(cycles) {
            let Some(context) = parent(&piece, maker.attach) else { continue };
            let Some(owner) = batch.owners.get(&piece.cycle.cgroup).or(batch.host.as_ref()) else { continue };
            let count = by_trace.entry(context.trace_id).or_default();
            *count += 1;
            if *count > maker.max_spans {
                left_out += 1;
                continue;
            }
            let process = batch.processes.get(&piece.cycle.task.process);
            let resource = process.map_or(&owner.resource, |process| &process.resource);
            let span = span(maker, &piece, context, batch, owner);
            match made.iter_mut().find(|(known, _)| Arc::ptr_eq(known, resource) || *known == resource) {
                Some((_, spans)) => spans.push(span),
                None => made.push((resource, vec![span])),
            }
        }
    }
    (made.into_iter().map(|(resource, spans)| maker.writer.resource(resource, spans)).collect(), left_out)
}

fn span(maker: &Maker<'_>, piece: &Piece<'_>, context: &Context, batch: &SchedBatch, owner: &Owner) -> Span {
    let names = Names { named: &batch.owners, owner, throttle_source: maker.writer.facts.throttle_source };
    let parent = (context.trace_id, context.span_id);
    let mut span = maker.writer.interval(parent, piece.cycle.task.tid, piece, &names, batch.offset);
    span.flags = u32::from(context.flags);
    span.attributes.extend(attributes::context(context, piece.interval.kind));
    span
}
