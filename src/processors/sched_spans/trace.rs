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
        let root_span = root_span(trace, root, &rows, (window, part), &names);
        let mut made: Vec<(&Arc<Resource>, Vec<Span>)> = vec![(&part.owner.resource, vec![root_span])];
        for row in &rows {
            let resource = row.thread.process.as_ref().map_or(&part.owner.resource, |process| &process.resource);
            let known = made.iter_mut().find(|(known, _)| Arc::ptr_eq(known, resource) || *known == resource);
            match known {
                Some((_, spans)) => self.put_thread(spans, (trace, root), row, window, &names),
                None => {
                    let mut spans = Vec::new();
                    self.put_thread(&mut spans, (trace, root), row, window, &names);
                    made.push((resource, spans));
                }
            }
        }
        made.into_iter().map(|(resource, spans)| self.writer.resource(resource, spans)).collect()
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
        if rows.iter().map(|row| row.pieces.len()).sum::<usize>() <= room {
            return;
        }
        let mut all: Vec<(usize, Piece<'_>)> =
            rows.iter().enumerate().flat_map(|(at, row)| row.pieces.iter().map(move |piece| (at, *piece))).collect();
        pieces::keep(&mut all, room);
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

    /// Puts a thread's span and its intervals.
    fn put_thread(
        &self,
        to: &mut Vec<Span>,
        (trace, root): (TraceId, SpanId),
        row: &Row<'_>,
        window: &Window,
        names: &Names<'_>,
    ) {
        to.reserve(1 + row.pieces.len());
        let offset = window.offset;
        let id = self.writer.ids.span(trace, row.tid, THREAD, window.start_ns);
        let comm = row.thread.cycles.last().map_or("", |cycle| cycle.task.comm.as_ref());
        let first = row.pieces.first().map(|piece| offset.wall(piece.interval.start).0).unwrap_or(window.start_ns);
        let last = row.pieces.last().map(|piece| offset.wall(piece.interval.end).0).unwrap_or(window.start_ns);
        let name = format!("sched.thread {}", attributes::without_digits(comm));
        let all = attributes::thread(row.tid, comm, &row.sums, row.left_out, row.attached);
        to.push(span((trace, id, Some(root)), name, (first, last.max(first)), all));
        let begin = to.len();
        to.extend(row.pieces.iter().map(|piece| self.writer.interval((trace, id), row.tid, piece, names, offset)));
        if self.links {
            for (made, piece) in to.iter_mut().skip(begin).zip(&row.pieces) {
                if piece.interval.kind == IntervalKind::Wait {
                    made.links = self.links(&piece.cycle.culprits, window, names);
                }
            }
        }
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
    // an interval that ended in this window may have begun before it: a parent that began later than its child
    // looks like a skewed clock to those who show traces
    let first =
        rows.iter().filter_map(|row| row.pieces.first()).map(|piece| window.offset.wall(piece.interval.start).0);
    let start = first.min().unwrap_or(u64::MAX).min(window.start_ns);
    let attributes = attributes::root(window, part, &sums, left_out, names);
    span((trace, id, None), "sched.window".to_owned(), (start, window.start_ns + window.length_ns), attributes)
}
