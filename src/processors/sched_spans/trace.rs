//! Pure: one owner's window as the spans of one trace: root, threads, intervals.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::span::Link;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};

use super::attached;
use super::attributes;
use super::settings::Attach;
use super::window::{OwnerWindow, ThreadWindow, Window};
use crate::model::{Culprit, CulpritKind, IntervalKind, Resource};
use crate::pipeline::otlp::attribute;
use crate::processors::intervals::attributes::Names;
use crate::processors::intervals::ids::{SpanId, TraceId};
use crate::processors::intervals::pieces::{self, Piece, Sums};
use crate::processors::intervals::writer::{Writer, span};

/// Kinds in the span id hash that are no interval.
const ROOT: u8 = 255;
const THREAD: u8 = 254;

/// What a trace is made with.
pub(super) struct Maker<'a> {
    pub(super) writer: Writer<'a>,
    pub(super) max_spans: usize,
    pub(super) min_ns: u64,
    /// Intervals with an active application span are in that span's trace, not here.
    pub(super) attach: &'a [Attach],
    /// A wait links to the traces of its culprits.
    pub(super) links: bool,
}

/// A thread with the pieces that become spans and what was left out.
struct Row<'a> {
    thread: &'a ThreadWindow,
    tid: u32,
    pieces: Vec<Piece<'a>>,
    sums: Sums,
    left_out: u64,
    attached: u64,
}

impl Maker<'_> {
    /// The trace; its root is the first span of the first Resource.
    pub(super) fn trace(&self, window: &Window, part: &OwnerWindow) -> Vec<ResourceSpans> {
        let trace = self.writer.ids.trace(&part.owner.key, window.start_ns);
        let root = self.writer.ids.span(trace, 0, ROOT, window.start_ns);
        let mut rows = self.rows(part);
        self.cut(&mut rows);
        let names =
            Names { named: &window.named, owner: &part.owner, throttle_source: self.writer.facts.throttle_source };
        let mut resources = vec![
            self.writer.resource(&part.owner.resource, vec![root_span(trace, root, &rows, (window, part), &names)]),
        ];
        let mut made: Vec<&Arc<Resource>> = vec![&part.owner.resource];
        for row in &rows {
            let resource = row.thread.process.as_ref().map_or(&part.owner.resource, |process| &process.resource);
            let spans = self.thread_spans(trace, root, row, window, &names);
            let known = made.iter().position(|known| Arc::ptr_eq(known, resource) || known == &resource);
            match known.and_then(|at| resources.get_mut(at)).and_then(|of| of.scope_spans.first_mut()) {
                Some(scope) => scope.spans.extend(spans),
                None => {
                    made.push(resource);
                    resources.push(self.writer.resource(resource, spans));
                }
            }
        }
        resources
    }

    fn rows<'a>(&self, part: &'a OwnerWindow) -> Vec<Row<'a>> {
        let rows = part.threads.iter().map(|((tid, _), thread)| {
            let mut sums = Sums::default();
            let (mut kept, mut left_out, mut attached) = (Vec::new(), 0, 0);
            for piece in pieces::pieces(&thread.cycles) {
                sums.add(piece.interval);
                if attached::parent(&piece, self.attach).is_some() {
                    attached += 1;
                } else if piece.interval.end.since(piece.interval.start) >= self.min_ns {
                    kept.push(piece);
                } else {
                    left_out += 1;
                }
            }
            for cycle in &thread.cycles {
                let side = if cycle.run_end.involuntary() { &mut sums.involuntary } else { &mut sums.voluntary };
                *side += 1;
            }
            Row { thread, tid: *tid, pieces: kept, sums, left_out, attached }
        });
        rows.collect()
    }

    /// Over the bound the most interesting intervals stay.
    fn cut(&self, rows: &mut Vec<Row<'_>>) {
        rows.sort_by_key(|row| std::cmp::Reverse(row.pieces.len()));
        let room = self.max_spans.saturating_sub(1 + rows.len());
        let mut all: Vec<(usize, Piece<'_>)> =
            rows.iter().enumerate().flat_map(|(at, row)| row.pieces.iter().map(move |piece| (at, *piece))).collect();
        if pieces::keep(&mut all, room) == 0 {
            return;
        }
        for (at, row) in rows.iter_mut().enumerate() {
            let before = row.pieces.len();
            row.pieces = all.iter().filter(|(of, _)| *of == at).map(|(_, piece)| *piece).collect();
            row.pieces.sort_by_key(|piece| piece.interval.start);
            row.left_out += (before - row.pieces.len()) as u64;
        }
        if rows.len() + 1 > self.max_spans {
            rows.truncate(self.max_spans - 1);
        }
    }

    /// Links to the traces of the containers and units that had the CPU meanwhile: to their roots, which are always
    /// there, while a culprit's own run may not have been selected.
    fn links(&self, culprits: &[Culprit], window: &Window, names: &Names<'_>) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for culprit in culprits {
            let CulpritKind::Task { cgroup, .. } = &culprit.kind else { continue };
            let Some(owner) = names.named.get(cgroup).filter(|owner| owner.key != names.owner.key) else { continue };
            if window.owners.get(&owner.key).is_none_or(|part| part.silent) {
                continue;
            }
            let trace = self.writer.ids.trace(&owner.key, window.start_ns);
            let root = self.writer.ids.span(trace, 0, ROOT, window.start_ns);
            if links.iter().all(|link| link.trace_id != trace) {
                let name = attribute("linux.sched.culprit.container.name", owner.display_name.as_ref());
                let (trace_id, span_id) = (trace.to_vec(), root.to_vec());
                links.push(Link { trace_id, span_id, attributes: vec![name], ..Link::default() });
            }
        }
        links
    }

    fn thread_spans(
        &self,
        trace: TraceId,
        root: SpanId,
        row: &Row<'_>,
        window: &Window,
        names: &Names<'_>,
    ) -> Vec<Span> {
        let offset = window.offset;
        let id = self.writer.ids.span(trace, row.tid, THREAD, window.start_ns);
        let comm = row.thread.cycles.last().map_or("", |cycle| cycle.task.comm.as_ref());
        let mut parent = span(trace, id, Some(root), format!("sched.thread {}", attributes::without_digits(comm)));
        let first = row.pieces.first().map(|piece| offset.wall(piece.interval.start).0);
        let last = row.pieces.last().map(|piece| offset.wall(piece.interval.end).0);
        parent.start_time_unix_nano = first.unwrap_or(window.start_ns);
        parent.end_time_unix_nano = last.unwrap_or(window.start_ns).max(parent.start_time_unix_nano);
        parent.attributes = attributes::thread(row.tid, comm, &row.sums, row.left_out, row.attached);
        let mut spans = vec![parent];
        spans.extend(row.pieces.iter().map(|piece| {
            let mut made = self.writer.interval((trace, id), row.tid, piece, names, offset);
            if self.links && piece.interval.kind == IntervalKind::Wait {
                made.links = self.links(&piece.cycle.culprits, window, names);
            }
            made
        }));
        spans
    }
}

fn root_span(trace: TraceId, id: SpanId, rows: &[Row<'_>], of: (&Window, &OwnerWindow), names: &Names<'_>) -> Span {
    let (window, part) = of;
    let mut sums = Sums::default();
    let mut left_out = 0;
    for row in rows {
        sums.merge(&row.sums);
        left_out += row.left_out;
    }
    let mut root = span(trace, id, None, "sched.window".to_owned());
    // an interval that ended in this window may have begun before it: a parent that began later than its child
    // looks like a skewed clock to those who show traces
    let first =
        rows.iter().filter_map(|row| row.pieces.first()).map(|piece| window.offset.wall(piece.interval.start).0);
    root.start_time_unix_nano = first.min().unwrap_or(u64::MAX).min(window.start_ns);
    root.end_time_unix_nano = window.start_ns + window.length_ns;
    root.attributes = attributes::root(window, part, &sums, left_out, names);
    root
}
