//! The `sched_spans` processor: selected cycles become spans, one trace per container and window.
//!
//! `window` gathers, `trace`, `attached` and `attributes` write OTLP. Refuses to know: kernels,
//! who owns what, what is interesting (the receiver selected).

mod attached;
mod attributes;
mod settings;
#[cfg(test)]
mod tests;
mod trace;
mod window;

use std::fs;
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

pub use self::settings::{Attach, SchedSpansSettings};
use self::trace::Maker;
use self::window::{Window, Windows};
use crate::model::{HostFacts, SchedBatch, Wants};
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::processors::intervals::ids::Ids;
use crate::processors::intervals::writer::Writer;
use crate::telemetry::Meter;

/// The `sched_spans` processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "sched_spans",
    aliases: &[],
    about: "Selected scheduling cycles as spans, one trace per container and window",
    stability: "alpha",
    converts: &[(Signal::Sched, Signal::Traces)],
    needs_receiver: None,
    settings: Settings::of::<SchedSpansSettings>(),
    build: |body, context| Ok(Box::new(SchedSpans::new(body.decode()?, context))),
};

/// Windows that are open.
pub struct SchedSpans {
    settings: SchedSpansSettings,
    version: &'static str,
    windows: Windows,
    /// Made with the first batch: ids hold the boot id.
    ids: Option<Ids>,
    facts: Arc<HostFacts>,
    /// Intervals that an application's trace had no room for.
    left_out: Meter,
    /// Cycles that no open window had room for.
    not_held: Meter,
    /// A window has been given: whoever waits for a trace has seen one.
    gave_traces: bool,
    told_of_host: bool,
}

impl SchedSpans {
    /// No window yet.
    pub fn new(settings: SchedSpansSettings, context: &BuildContext) -> Self {
        let lost = |reason| {
            let attributes = [("processor", "sched_spans"), ("reason", reason)];
            context.telemetry.counter("sched.processor.intervals.lost", "{interval}", &attributes)
        };
        Self {
            settings,
            version: context.version,
            windows: Windows::default(),
            ids: None,
            facts: Arc::default(),
            left_out: lost("trace_full"),
            not_held: lost("windows_full"),
            gave_traces: false,
            told_of_host: false,
        }
    }

    /// The key of the id hashes: the config's, else the machine's.
    fn key(&self) -> Vec<u8> {
        match self.settings.id_key.reveal() {
            "" => fs::read("/etc/machine-id").unwrap_or_default(),
            key => key.as_bytes().to_vec(),
        }
    }

    /// On a bare host a person waits for traces that never come: said once, when the first could have been there.
    fn tell_of_host(&mut self, batch: &SchedBatch) {
        let could = batch.delivered_until.since(batch.facts.since) > 2 * self.settings.window.as_ns();
        if self.windows.saw_host && could && !self.told_of_host {
            self.told_of_host = true;
            if !self.gave_traces {
                tracing::info!(
                    "sched_spans: no container and no systemd unit has been selected so far; the host's other threads \
                     have metrics, and no traces of their own"
                );
            }
        }
    }

    fn attaches(&self) -> bool {
        !self.settings.attach.is_empty()
    }

    fn maker<'a>(&'a self, ids: &'a Ids) -> Maker<'a> {
        Maker {
            writer: Writer { ids, version: self.version, facts: &self.facts },
            max_spans: self.settings.max_spans_per_trace,
            min_ns: self.settings.min_duration.as_ns(),
            attach: &self.settings.attach,
            links: self.settings.links,
        }
    }

    fn traces(&self, ids: &Ids, windows: &[Window]) -> Vec<ResourceSpans> {
        let maker = self.maker(ids);
        let traces = windows.iter().flat_map(|window| window.owners.values().map(move |part| (window, part)));
        let traces = traces.filter(|(_, part)| !part.silent);
        traces.flat_map(|(window, part)| maker.trace(window, part)).collect()
    }
}

impl Processor for SchedSpans {
    fn process(&mut self, data: Data, out: &mut Outbox) {
        let Data::Sched(batch) = data else { return };
        let key = self.ids.is_none().then(|| self.key());
        let ids = self.ids.take().unwrap_or_else(|| Ids::new(&key.unwrap_or_default(), &batch.facts.boot_id));
        self.facts = Arc::clone(&batch.facts);
        let complete = self.windows.take(&batch, self.settings.window.as_ns());
        if self.attaches() && batch.cycles.iter().any(|cycle| cycle.context.is_some()) {
            let (spans, left_out) = attached::spans(&self.maker(&ids), &batch);
            self.left_out.add(left_out);
            out.send(Data::Traces(spans));
        }
        self.not_held.add(std::mem::take(&mut self.windows.dropped));
        self.gave_traces |= complete.iter().any(|window| !window.owners.is_empty());
        self.tell_of_host(&batch);
        for window in &complete {
            out.send(Data::Traces(self.traces(&ids, std::slice::from_ref(window))));
        }
        self.ids = Some(ids);
    }

    fn wants(&self) -> Wants {
        Wants {
            cycles: true,
            blocks: true,
            contexts: self.settings.attach.contains(&Attach::ThreadContext),
            shared_contexts: self.settings.attach.contains(&Attach::TracesCtxV1),
            ..Wants::default()
        }
    }

    fn flush(&mut self, out: &mut Outbox) {
        let open = self.windows.end();
        if let Some(ids) = &self.ids {
            out.send(Data::Traces(self.traces(ids, &open)));
        }
    }
}
