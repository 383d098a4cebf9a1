//! The `sched_enrich` processor: application spans that pass through `otlp` get what their threads suffered, from the
//! history that the `sched` receiver of another pipeline fills.
//!
//! `subject` reads a span's words, `processes` finds whom they mean, `held` waits for the threads' cycles, `told`,
//! `innermost` and `given` judge, `enrich` and `who` write. Refuses to know: how cycles are measured.

mod enrich;
mod given;
mod held;
mod innermost;
mod missed;
mod processes;
mod settings;
mod subject;
#[cfg(test)]
mod tests;
mod told;
mod who;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

use self::enrich::{Enricher, Placed};
use self::given::Given;
use self::held::Held;
use self::missed::{Counts, Missed};
use self::processes::Processes;
pub use self::settings::SchedEnrichSettings;
use self::subject::Subject;
use self::told::Stretch;
use crate::history::{Asked, Bounds, History};
use crate::model::HostFacts;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::processors::intervals::ids::Ids;
use crate::processors::intervals::writer::Writer;

/// The `sched_enrich` processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "sched_enrich",
    aliases: &[],
    about: "Application spans that pass through `otlp` get their threads' intervals as children, and sums; needs a `sched` receiver in another pipeline",
    stability: "alpha",
    converts: &[(Signal::Traces, Signal::Traces)],
    needs_receiver: Some("sched"),
    settings: Settings::of::<SchedEnrichSettings>(),
    build: |body, context| Ok(Box::new(SchedEnrich::new(body.decode()?, context))),
};

/// Between two looks whether cycles have come.
const LOOK: Duration = Duration::from_millis(50);

/// What is measured with, once a receiver does.
struct Measure {
    facts: Arc<HostFacts>,
    ids: Ids,
    processes: Processes,
}

/// Requests that wait for their threads' cycles.
pub struct SchedEnrich {
    settings: SchedEnrichSettings,
    version: &'static str,
    history: History,
    counts: Counts,
    held: Held,
    given: Given,
    measure: Option<Measure>,
    next_look: Option<Instant>,
}

impl SchedEnrich {
    /// Nothing held; the history is asked for.
    pub fn new(settings: SchedEnrichSettings, context: &BuildContext) -> Self {
        let bytes = usize::try_from(settings.history_bytes.get()).unwrap_or(usize::MAX);
        context.history.want(Bounds { ns: settings.history.as_ns(), bytes });
        Self {
            held: Held::new(settings.max_held_spans),
            counts: Counts::new(&context.telemetry, &context.id),
            version: context.version,
            history: context.history.clone(),
            given: Given::default(),
            measure: None,
            next_look: None,
            settings,
        }
    }

    fn begin(&mut self) {
        if self.measure.is_none()
            && let Some(facts) = self.history.facts()
        {
            let ids = Ids::new(&fs::read("/etc/machine-id").unwrap_or_default(), &facts.boot_id);
            let root = if facts.root.is_empty() { "/" } else { &*facts.root };
            let processes = Processes::new(Path::new(root));
            self.measure = Some(Measure { facts, ids, processes });
        }
    }

    /// The spans that something may be told of.
    fn placed(&mut self, data: &[ResourceSpans], now: Instant) -> Vec<Placed> {
        let mut placed = Vec::new();
        for (at_resource, resource) in data.iter().enumerate() {
            let words = resource.resource.as_ref().map_or(&[][..], |resource| &resource.attributes);
            let (pid, container) = (subject::pid(words), subject::container(words));
            for (at_scope, scope) in resource.scope_spans.iter().enumerate() {
                for (at_span, span) in scope.spans.iter().enumerate() {
                    let found = subject::read(span, pid).and_then(|subject| self.place(subject, container, now));
                    match found {
                        Ok(found) => placed.push(Placed { at: (at_resource, at_scope, at_span), ..found }),
                        Err(why) => self.counts.missed(why, 1),
                    }
                }
            }
        }
        placed
    }

    fn place(&mut self, subject: Subject, container: Option<&str>, now: Instant) -> Result<Placed, Missed> {
        let measure = self.measure.as_mut().ok_or(Missed::NoReceiver)?;
        let (process, tid) = measure.processes.find(subject.pid, subject.tid, container, now)?;
        let (to, offset) = self.history.boot(subject.end);
        let stretch = Stretch { from: self.history.boot(subject.start).0, to };
        match self.history.ask(process) {
            // a request that could never be told would be held in vain
            _ if self.history.last_end(process, tid).is_none() && !measure.processes.has_thread(process, tid) => {
                Err(Missed::UnknownThread)
            }
            Asked::Full => Err(Missed::TooManyProcesses),
            Asked::Since(since) if since < to => Ok(Placed { at: (0, 0, 0), process, tid, stretch, offset }),
            Asked::Soon | Asked::Since(_) => Err(Missed::BeforeWatch),
        }
    }

    /// Gives those that are ready, or all.
    fn release(&mut self, now: Instant, all: bool, out: &mut Outbox) {
        let ready = self.held.ready(now, all, |placed| {
            self.history.last_end(placed.process, placed.tid).is_some_and(|end| end >= placed.stretch.to)
        });
        for (mut data, placed) in ready {
            if let Some(Measure { facts, ids, .. }) = &self.measure {
                let writer = Writer { ids, version: self.version, facts };
                let (settings, history, counts) = (&self.settings, &self.history, &self.counts);
                Enricher { settings, history, counts, writer }.enrich(&mut data, &placed, &mut self.given);
            }
            out.send(Data::Traces(data));
        }
        self.given.forget(self.history.until().minus(self.settings.history.as_ns()));
        self.next_look = (!self.held.is_empty()).then_some(now + LOOK);
    }
}

impl Processor for SchedEnrich {
    fn process(&mut self, data: Data, out: &mut Outbox) {
        let Data::Traces(data) = data else { return out.send(data) };
        let now = Instant::now();
        self.begin();
        let placed = self.placed(&data, now);
        if placed.is_empty() {
            return out.send(Data::Traces(data));
        }
        let spans = placed.len();
        match self.held.hold(data, placed, now + self.settings.wait.0) {
            Ok(()) => self.next_look = Some(self.next_look.unwrap_or(now + LOOK)),
            Err(data) => {
                self.counts.missed(Missed::QueueFull, spans);
                out.send(Data::Traces(data));
            }
        }
    }

    fn next_tick(&self) -> Option<Instant> {
        self.next_look
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox) {
        self.release(now, false, out);
    }

    fn flush(&mut self, out: &mut Outbox) {
        self.release(Instant::now(), true, out);
    }
}
