//! Pure: pipelines to trees: references, the signals at each stage, shared beginnings.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::suggest::suggest;
use crate::config::{Body, Node, Position};
use crate::pipeline::data::Signal;
use crate::pipeline::factory::{ExporterFactory, ProcessorFactory, ReceiverFactory};
use crate::pipeline::plan::{Exit, Fork, Input, Planned, Stage, Tree};
use crate::pipeline::service::PipelineSettings;

use super::definitions::Definitions;
use super::kind::ComponentType;
use super::{Defined, Findings};

/// The words that a pipeline's id begins with.
const WORDS: [(&str, Signal); 3] = [("traces", Signal::Traces), ("metrics", Signal::Metrics), ("logs", Signal::Logs)];

/// Builds the trees, pipeline by pipeline.
pub(super) struct Wiring<'a> {
    defined: &'a Defined,
    processor_types: &'a [&'static ProcessorFactory],
    trees: Vec<Tree>,
    used: BTreeSet<(&'static str, String)>,
}

/// A pipeline while it is looked at.
struct Pipeline<'a> {
    id: &'a str,
    path: String,
    at: &'a Position,
    node: &'a Node,
    signal: Signal,
}

impl Pipeline<'_> {
    /// The place of one item of `receivers`, `processors` or `exporters`.
    fn place(&self, list: &str, index: usize) -> Position {
        self.node.place_of(&format!("{list}::{index}")).unwrap_or(self.at).clone()
    }
}

/// A reference that leads somewhere.
struct Reference<'a, F: 'static> {
    component: &'a Planned<F>,
    at: Position,
}

/// One pipeline that fits.
struct Line<'a> {
    inputs: Vec<Input>,
    stages: Vec<(&'a Planned<ProcessorFactory>, Vec<Signal>, Vec<Signal>)>,
    exits: Vec<(Arc<str>, Signal)>,
}

impl<'a> Wiring<'a> {
    pub(super) fn new(defined: &'a Defined, processor_types: &'a [&'static ProcessorFactory]) -> Self {
        Self { defined, processor_types, trees: Vec::new(), used: BTreeSet::new() }
    }

    /// Wires every pipeline of the service section.
    pub(super) fn pipelines(&mut self, root: &Node, findings: &mut Findings) {
        let Some(service) = root.entry("service") else { return };
        let pipelines = service.value.entry("pipelines");
        let entries = pipelines.map_or(&[][..], |pipelines| pipelines.value.entries());
        if entries.is_empty() {
            let at = pipelines.map_or(&service.at, |pipelines| &pipelines.at);
            findings.problem(at, "service::pipelines", "at least one pipeline is needed, such as `metrics`");
        }
        for entry in entries {
            let path = format!("service::pipelines::{}", entry.key);
            let Some(signal) = signal_of(&entry.key, &path, &entry.at, findings) else { continue };
            let pipeline = Pipeline { id: &entry.key, path, at: &entry.at, node: &entry.value, signal };
            self.pipeline(&pipeline, findings);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline<'_>, findings: &mut Findings) {
        let body = Body::new(pipeline.path.clone(), pipeline.at.clone(), pipeline.node.clone());
        // what does not decode is told with the service section
        let Ok(lists) = body.decode::<PipelineSettings>() else { return };
        for (list, kind) in [(&lists.receivers, "receiver"), (&lists.exporters, "exporter")] {
            if list.is_empty() {
                findings.problem(pipeline.at, &pipeline.path, format!("a pipeline needs at least one {kind}"));
            }
        }
        let defined = self.defined;
        let receivers = self.references(&defined.receivers, &lists.receivers, pipeline, findings);
        let processors = self.references(&defined.processors, &lists.processors, pipeline, findings);
        let exporters = self.references(&defined.exporters, &lists.exporters, pipeline, findings);
        if receivers.len() < lists.receivers.len() || processors.len() < lists.processors.len() || receivers.is_empty()
        {
            return;
        }
        if let Some(line) = self.fit(pipeline, &receivers, &processors, &exporters, findings) {
            self.grow(pipeline.id, line);
        }
    }

    /// The components that a list names, without those that do not exist.
    fn references<F: ComponentType>(
        &mut self,
        definitions: &'a Definitions<F>,
        ids: &[String],
        pipeline: &Pipeline<'_>,
        findings: &mut Findings,
    ) -> Vec<Reference<'a, F>> {
        let mut references: Vec<Reference<'a, F>> = Vec::new();
        for (index, id) in ids.iter().enumerate() {
            let at = pipeline.place(F::SECTION, index);
            let id = id.trim();
            if references.iter().any(|known| &*known.component.id == id) {
                findings.problem(&at, &pipeline.path, format!("{} `{id}` is listed twice", F::KIND));
                continue;
            }
            self.used.insert((F::SECTION, id.to_owned()));
            if let Some(component) = definitions.find(id) {
                references.push(Reference { component, at });
            } else if let Some(message) = definitions.missing(id) {
                findings.problem(&at, &pipeline.path, message);
            }
        }
        references
    }

    /// Follows the signals through; `None` where something does not fit.
    fn fit(
        &self,
        pipeline: &Pipeline<'_>,
        receivers: &[Reference<'a, ReceiverFactory>],
        processors: &[Reference<'a, ProcessorFactory>],
        exporters: &[Reference<'a, ExporterFactory>],
        findings: &mut Findings,
    ) -> Option<Line<'a>> {
        let mut inputs = Vec::new();
        for Reference { component, at } in receivers {
            let emits = component.factory.emits;
            let signal = [pipeline.signal, Signal::Sched].into_iter().find(|signal| emits.contains(signal));
            let Some(signal) = signal else {
                let message = format!("receiver `{}` gives {}, not {}", component.id, words(emits), pipeline.signal);
                findings.problem(at, &pipeline.path, message);
                return None;
            };
            inputs.push(Input { receiver: Arc::clone(&component.id), signal });
        }
        let mut here: Vec<Signal> = distinct(inputs.iter().map(|input| input.signal));
        let mut stages = Vec::new();
        for Reference { component, at } in processors {
            let converts = component.factory.converts;
            let takes = distinct(converts.iter().map(|(from, _)| *from));
            if !self.takes(&component.id, &here, &takes, at, pipeline, findings) {
                return None;
            }
            let gives = distinct(converts.iter().filter(|(from, _)| here.contains(from)).map(|(_, to)| *to));
            stages.push((*component, std::mem::replace(&mut here, gives.clone()), gives));
        }
        let mut exits = Vec::new();
        let mut all_fit = true;
        for Reference { component, at } in exporters {
            all_fit &= self.takes(&component.id, &here, component.factory.accepts, at, pipeline, findings);
            exits.extend(here.iter().map(|signal| (Arc::clone(&component.id), *signal)));
        }
        if let Some(other) = here.iter().find(|signal| all_fit && ![pipeline.signal, Signal::Sched].contains(signal)) {
            let word = WORDS.iter().find(|(_, signal)| signal == other).map_or("traces", |(word, _)| *word);
            let message = format!("the pipeline ends with {other}; name it `{word}` or `{word}/...`");
            findings.problem(pipeline.at, &pipeline.path, message);
            return None;
        }
        all_fit.then_some(Line { inputs, stages, exits })
    }

    /// Whether a component takes all that arrives, or a problem that says what to put before it.
    fn takes(
        &self,
        id: &str,
        here: &[Signal],
        takes: &[Signal],
        at: &Position,
        pipeline: &Pipeline<'_>,
        findings: &mut Findings,
    ) -> bool {
        let Some(unfit) = here.iter().find(|signal| !takes.contains(signal)) else { return true };
        let remedy = self.converter(*unfit, takes, pipeline.signal);
        let remedy = remedy.map(|processor| format!("; put `{processor}` before it")).unwrap_or_default();
        let message = format!("`{id}` here gets {unfit}, it takes {}{remedy}", words(takes));
        findings.problem(at, &pipeline.path, message);
        false
    }

    /// A processor that makes what is wanted of what is there: a defined one, else a type.
    fn converter(&self, from: Signal, wanted: &[Signal], preferred: Signal) -> Option<String> {
        let mut targets: Vec<Signal> = wanted.to_vec();
        targets.sort_by_key(|signal| *signal != preferred);
        targets.into_iter().filter(|to| *to != from).find_map(|to| {
            let converts = |factory: &ProcessorFactory| factory.converts.contains(&(from, to));
            let defined = self.defined.processors.iter().find(|planned| converts(planned.factory));
            let known = || self.processor_types.iter().find(|factory| converts(factory));
            defined.map(|planned| planned.id.to_string()).or_else(|| known().map(|factory| factory.name.to_owned()))
        })
    }

    /// Adds a line to the tree of its receivers, along the stages that are there already.
    fn grow(&mut self, pipeline: &str, line: Line<'a>) {
        let pipeline: Arc<str> = pipeline.into();
        let mut inputs = line.inputs;
        inputs.sort_by(|one, other| one.receiver.cmp(&other.receiver));
        let known = self.trees.iter().position(|tree| tree.inputs == inputs);
        let index = known.unwrap_or_else(|| {
            self.trees.push(Tree { inputs, fork: Fork::default() });
            self.trees.len() - 1
        });
        let mut fork = &mut self.trees[index].fork;
        for (processor, takes, gives) in line.stages {
            let known = fork.stages.iter().position(|stage| stage.processor.id == processor.id);
            let index = known.unwrap_or_else(|| {
                let processor = processor.clone();
                fork.stages.push(Stage { processor, takes, gives, pipelines: Vec::new(), next: Fork::default() });
                fork.stages.len() - 1
            });
            let stage = &mut fork.stages[index];
            stage.pipelines.push(Arc::clone(&pipeline));
            fork = &mut stage.next;
        }
        let exits = line.exits.into_iter();
        fork.exits.extend(exits.map(|(exporter, signal)| Exit { exporter, signal, pipeline: Arc::clone(&pipeline) }));
    }

    /// The used receivers and exporters and the trees; what is unused is a warning.
    pub(super) fn finish(
        self,
        findings: &mut Findings,
    ) -> (Vec<Planned<ReceiverFactory>>, Vec<Planned<ExporterFactory>>, Vec<Tree>) {
        let Self { defined, trees, used, .. } = self;
        let is_used = |section: &'static str| {
            let used = &used;
            move |id: &str| used.contains(&(section, id.to_owned()))
        };
        defined.receivers.unused(is_used("receivers"), findings);
        defined.processors.unused(is_used("processors"), findings);
        defined.exporters.unused(is_used("exporters"), findings);
        let receivers = defined.receivers.iter().filter(|planned| is_used("receivers")(&planned.id)).cloned().collect();
        let exporters = defined.exporters.iter().filter(|planned| is_used("exporters")(&planned.id)).cloned().collect();
        (receivers, exporters, trees)
    }
}

/// The signal that a pipeline's id promises.
fn signal_of(id: &str, path: &str, at: &Position, findings: &mut Findings) -> Option<Signal> {
    let (word, name) = id.split_once('/').map_or((id, None), |(word, name)| (word.trim(), Some(name.trim())));
    if name == Some("") {
        findings.problem(at, path, "the name after `/` is empty");
        return None;
    }
    let signal = WORDS.iter().find(|(known, _)| *known == word).map(|(_, signal)| *signal);
    if signal.is_none() {
        let near = suggest(word, WORDS.map(|(known, _)| known)).map(|near| format!(", did you mean `{near}`?"));
        let near = near.unwrap_or_default();
        let message = format!("`{word}` is no signal{near} (traces, metrics or logs, with an optional /name)");
        findings.problem(at, path, message);
    }
    signal
}

fn distinct(signals: impl Iterator<Item = Signal>) -> Vec<Signal> {
    let mut found = Vec::new();
    for signal in signals {
        if !found.contains(&signal) {
            found.push(signal);
        }
    }
    found
}

/// `Traces, Metrics or Logs`.
fn words(signals: &[Signal]) -> String {
    match signals {
        [] => "nothing".to_owned(),
        [only] => only.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}
