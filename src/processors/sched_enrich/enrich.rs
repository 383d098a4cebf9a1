//! Pure: spans of one request get what the history tells of their threads: sums on each, intervals under the
//! innermost.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};

use super::given::{Given, Thread};
use super::innermost::own_parts;
use super::missed::Counts;
use super::settings::SchedEnrichSettings;
use super::subject::W3C_FLAGS;
use super::told::{self, Stretch, Told};
use super::who::Who;
use crate::history::History;
use crate::model::{BootNs, ClockOffset, ContextSource, Cycle, ProcessKey};
use crate::pipeline::otlp::attribute;
use crate::processors::intervals::attributes::{self, Names};
use crate::processors::intervals::pieces::{self, Piece};
use crate::processors::intervals::writer::Writer;

/// A span of a request, with the thread and the time that it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    /// Index of its Resource, its scope, itself.
    pub(super) at: (usize, usize, usize),
    pub(super) process: ProcessKey,
    pub(super) tid: u32,
    pub(super) stretch: Stretch,
    pub(super) offset: ClockOffset,
}

/// What requests are enriched with.
pub(super) struct Enricher<'a> {
    pub(super) settings: &'a SchedEnrichSettings,
    pub(super) history: &'a History,
    pub(super) counts: &'a Counts,
    pub(super) writer: Writer<'a>,
}

/// A span that its thread's cycles tell something of.
struct Known<'a> {
    placed: &'a Placed,
    told: Told,
}

fn span_at(data: &mut [ResourceSpans], (resource, scope, span): (usize, usize, usize)) -> Option<&mut Span> {
    data.get_mut(resource)?.scope_spans.get_mut(scope)?.spans.get_mut(span)
}

impl Enricher<'_> {
    /// Enriches one request.
    pub(super) fn enrich(&self, data: &mut [ResourceSpans], placed: &[Placed], given: &mut Given) {
        let mut threads: BTreeMap<Thread, Vec<&Placed>> = BTreeMap::new();
        for placed in placed {
            threads.entry((placed.process, placed.tid)).or_default().push(placed);
        }
        let mut children: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for (thread, spans) in threads {
            let known = self.known(thread, &spans);
            if self.settings.attributes {
                for Known { placed, told } in &known {
                    if let Some(span) = span_at(data, placed.at) {
                        self.sums(span, told);
                    }
                }
            }
            if self.settings.children {
                self.children(data, thread, &known, given, &mut children);
            }
        }
        for (resource, spans) in children {
            if let Some(resource) = data.get_mut(resource) {
                resource.scope_spans.push(self.writer.scope(spans));
            }
        }
    }

    fn known<'p>(&self, (process, tid): Thread, spans: &[&'p Placed]) -> Vec<Known<'p>> {
        let mut known = Vec::new();
        for placed in spans {
            let Stretch { from, to } = placed.stretch;
            let (from, to) = (from.minus(told::CLOCKS_NS), BootNs(to.0.saturating_add(told::CLOCKS_NS)));
            match told::told(&self.history.cycles(process, tid, from, to), placed.stretch) {
                Err(why) => self.counts.missed(why, 1),
                Ok(told) => {
                    self.counts.told(told.complete);
                    known.push(Known { placed, told });
                }
            }
        }
        known
    }

    fn sums(&self, span: &mut Span, told: &Told) {
        let measured = self.writer.facts.throttle_source != "none";
        let sums = &told.sums;
        let throttle = measured.then_some(sums.throttle);
        span.attributes.extend(attributes::times(sums.run, sums.wait, throttle, sums.block));
        span.attributes.extend(attributes::switches(sums.voluntary, sums.involuntary));
        if !told.complete {
            span.attributes.push(attribute("linux.sched.incomplete", true));
        }
    }

    /// The intervals of a thread, each cut to the innermost spans it lies in; those of earlier requests have theirs.
    fn children(
        &self,
        data: &mut [ResourceSpans],
        (process, tid): Thread,
        known: &[Known<'_>],
        given: &mut Given,
        children: &mut BTreeMap<usize, Vec<Span>>,
    ) {
        let mut stretches: Vec<Stretch> = known.iter().map(|known| known.placed.stretch).collect();
        let all = stretches
            .iter()
            .copied()
            .reduce(|all, one| Stretch { from: all.from.min(one.from), to: all.to.max(one.to) });
        stretches.extend(all.into_iter().flat_map(|all| given.touching((process, tid), all)));
        for (Known { placed, .. }, parts) in known.iter().zip(own_parts(&stretches)) {
            given.add((process, tid), placed.stretch);
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else { continue };
            let cycles = self.history.cycles(process, tid, first.from, last.to);
            let mut own = pieces_in(&cycles, &parts);
            let left_out = pieces::keep(&mut own, self.settings.max_children_per_span);
            own.sort_by_key(|(_, piece)| piece.interval.start);
            let Some(span) = span_at(data, placed.at) else { continue };
            if left_out > 0 {
                span.attributes.push(attribute("linux.sched.dropped_intervals", left_out as u64));
            }
            let who = Who::of(self.history, &cycles);
            let names = who.names(self.writer.facts.throttle_source);
            let made = own.iter().filter_map(|(_, piece)| self.child(span, tid, piece, &names, placed.offset));
            children.entry(placed.at.0).or_default().extend(made);
        }
    }

    fn child(
        &self,
        parent: &Span,
        tid: u32,
        piece: &Piece<'_>,
        names: &Names<'_>,
        offset: ClockOffset,
    ) -> Option<Span> {
        let trace = parent.trace_id.as_slice().try_into().ok()?;
        let id = parent.span_id.as_slice().try_into().ok()?;
        let mut span = self.writer.interval((trace, id), tid, piece, names, offset);
        span.flags = parent.flags & W3C_FLAGS;
        span.attributes.push(attribute("linux.sched.context.source", ContextSource::Otlp.name()));
        Some(span)
    }
}

/// The pieces of a thread's time that lie in these parts of it, which are in order.
fn pieces_in<'a>(cycles: &'a [Arc<Cycle>], parts: &[Stretch]) -> Vec<(usize, Piece<'a>)> {
    let mut own = Vec::new();
    let mut parts = parts.iter().peekable();
    for piece in pieces::pieces(cycles.iter().map(AsRef::as_ref)) {
        while parts.peek().is_some_and(|part| part.to <= piece.interval.start) {
            parts.next();
        }
        let touched = parts.clone().take_while(|part| part.from < piece.interval.end);
        own.extend(touched.filter_map(|part| told::within(&piece, *part)).map(|piece| (0, piece)));
    }
    own
}
