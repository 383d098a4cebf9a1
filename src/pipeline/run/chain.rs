//! The processors of one segment, run one after the other in one task.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::pipeline::component::{Outbox, Processor};
use crate::pipeline::data::{Data, Signal};
use crate::telemetry::{Meter, Telemetry};

/// Processors in order, with their counters.
pub(super) struct Chain {
    links: Vec<Link>,
    outbox: Outbox,
    passing: Vec<Data>,
}

struct Link {
    processor: Box<dyn Processor>,
    incoming: Vec<(Signal, Meter)>,
    outgoing: Vec<(Signal, Meter)>,
}

/// A processor as it is built: what reaches it and what leaves it.
pub(super) struct Built {
    pub(super) id: Arc<str>,
    pub(super) takes: Vec<Signal>,
    pub(super) gives: Vec<Signal>,
    pub(super) processor: Box<dyn Processor>,
}

/// One meter per signal, for one processor.
fn meters(telemetry: &Telemetry, name: &'static str, id: &str, signals: &[Signal]) -> Vec<(Signal, Meter)> {
    let meter = |signal: &Signal| {
        let word = signal.to_string().to_lowercase();
        (*signal, telemetry.counter(name, "{item}", &[("otel.signal", &word), ("processor", id)]))
    };
    signals.iter().map(meter).collect()
}

fn count(meters: &[(Signal, Meter)], data: &Data) {
    if let Some((_, meter)) = meters.iter().find(|(signal, _)| *signal == data.signal()) {
        meter.add(data.items() as u64);
    }
}

impl Chain {
    pub(super) fn new(processors: Vec<Built>, telemetry: &Telemetry) -> Self {
        let links = processors
            .into_iter()
            .map(|built| Link {
                processor: built.processor,
                incoming: meters(telemetry, "otelcol_processor_incoming_items", &built.id, &built.takes),
                outgoing: meters(telemetry, "otelcol_processor_outgoing_items", &built.id, &built.gives),
            })
            .collect();
        Self { links, outbox: Outbox::default(), passing: Vec::new() }
    }

    /// Takes one batch through all processors.
    pub(super) fn process(&mut self, data: Data, out: &mut VecDeque<Data>) {
        self.passing.push(data);
        self.pass(0, out);
    }

    /// The earliest time that any processor waits for.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.processor.next_tick()).min()
    }

    /// Calls those whose time has come.
    pub(super) fn tick(&mut self, now: Instant, out: &mut VecDeque<Data>) {
        for at in 0..self.links.len() {
            if self.links[at].processor.next_tick().is_some_and(|due| due <= now) {
                self.links[at].processor.tick(now, &mut self.outbox);
                self.collect(at);
                self.pass(at + 1, out);
            }
        }
    }

    /// Takes everything out, front to back.
    pub(super) fn flush(&mut self, out: &mut VecDeque<Data>) {
        for at in 0..self.links.len() {
            self.links[at].processor.flush(&mut self.outbox);
            self.collect(at);
            self.pass(at + 1, out);
        }
    }

    fn pass(&mut self, from: usize, out: &mut VecDeque<Data>) {
        for at in from..self.links.len() {
            for data in self.passing.drain(..) {
                count(&self.links[at].incoming, &data);
                self.links[at].processor.process(data, &mut self.outbox);
            }
            self.collect(at);
        }
        out.extend(self.passing.drain(..));
    }

    fn collect(&mut self, at: usize) {
        for data in self.outbox.drain() {
            count(&self.links[at].outgoing, &data);
            self.passing.push(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

    /// Holds every batch until its tick or the end.
    #[derive(Default)]
    struct Holding {
        held: Vec<Data>,
        due: Option<Instant>,
    }

    impl Processor for Holding {
        fn process(&mut self, data: Data, _: &mut Outbox) {
            self.held.push(data);
            self.due = Some(Instant::now());
        }

        fn next_tick(&self) -> Option<Instant> {
            self.due
        }

        fn tick(&mut self, _: Instant, out: &mut Outbox) {
            self.due = None;
            self.flush(out);
        }

        fn flush(&mut self, out: &mut Outbox) {
            self.held.drain(..).for_each(|data| out.send(data));
        }
    }

    fn spans(count: usize) -> Data {
        let scope = ScopeSpans { spans: vec![Span::default(); count], ..ScopeSpans::default() };
        Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }])
    }

    #[test]
    fn what_one_gives_the_next_takes_and_all_is_counted() {
        let telemetry = Telemetry::default();
        let signals = vec![Signal::Traces];
        let built = |id: &str| Built {
            id: id.into(),
            takes: signals.clone(),
            gives: signals.clone(),
            processor: Box::new(Holding::default()),
        };
        let two = vec![built("a"), built("b")];
        let mut chain = Chain::new(two, &telemetry);
        let mut out = VecDeque::new();
        chain.process(spans(3), &mut out);
        assert!(out.is_empty());
        let due = chain.next_tick().unwrap();
        chain.tick(due, &mut out);
        assert!(out.is_empty(), "the second holds it now");
        chain.flush(&mut out);
        assert_eq!(out.iter().map(Data::items).sum::<usize>(), 3);
        assert_eq!(telemetry.sum("otelcol_processor_incoming_items"), 6);
        assert_eq!(telemetry.sum("otelcol_processor_outgoing_items"), 6);
    }
}
