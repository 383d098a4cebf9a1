//! From a plan to built components in segments, nothing started yet.

use std::sync::Arc;

use super::chain;
use crate::config::Problems;
use crate::history::History;
use crate::model::Wants;
use crate::pipeline::component::{Extension, Gate, Receiver};
use crate::pipeline::data::Signal;
use crate::pipeline::factory::{BuildContext, BuiltExporter};
use crate::pipeline::plan::{Fork, Plan, Stage};
use crate::telemetry::Telemetry;

/// Everything that runs.
pub(super) struct Network {
    pub(super) extensions: Vec<(Arc<str>, Box<dyn Extension>)>,
    pub(super) exporters: Vec<Sink>,
    pub(super) segments: Vec<Segment>,
    pub(super) sources: Vec<Source>,
}

/// An exporter instance of one signal; several pipelines may end in it.
pub(super) struct Sink {
    pub(super) id: Arc<str>,
    pub(super) signal: Signal,
    pub(super) built: BuiltExporter,
}

/// A maximal chain of processors without a branch: one task with one bounded input.
pub(super) struct Segment {
    pub(super) processors: Vec<chain::Built>,
    pub(super) targets: Vec<Target>,
    /// Of this segment and all behind it.
    pub(super) gates: Vec<Arc<dyn Gate>>,
    /// Of this segment and all behind it.
    pub(super) wants: Wants,
}

/// Where data of these signals goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) signals: Vec<Signal>,
    pub(super) way: Way,
}

/// An index into [`Network::segments`] or [`Network::exporters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Segment(usize),
    Exporter(usize),
}

/// A receiver and the first stages of the pipelines that begin with it.
pub(super) struct Source {
    pub(super) id: Arc<str>,
    pub(super) receiver: Box<dyn Receiver>,
    pub(super) entries: Vec<(Signal, Way)>,
}

/// Builds every component, or tells all that could not be built.
pub(super) fn build(plan: &Plan, telemetry: &Telemetry, version: &'static str) -> Result<Network, Problems> {
    let mut builder = Builder {
        plan,
        telemetry,
        version,
        history: History::default(),
        problems: Problems::default(),
        network: Network { extensions: Vec::new(), exporters: Vec::new(), segments: Vec::new(), sources: Vec::new() },
    };
    builder.extensions();
    builder.receivers();
    builder.trees();
    builder.problems.or(builder.network)
}

struct Builder<'a> {
    plan: &'a Plan,
    telemetry: &'a Telemetry,
    version: &'static str,
    history: History,
    problems: Problems,
    network: Network,
}

impl Builder<'_> {
    fn context(&self, id: &Arc<str>) -> BuildContext {
        BuildContext {
            id: Arc::clone(id),
            telemetry: self.telemetry.clone(),
            version: self.version,
            history: self.history.clone(),
        }
    }

    fn kept<T>(&mut self, built: Result<T, Problems>) -> Option<T> {
        built.map_err(|problems| self.problems.extend(problems)).ok()
    }

    fn extensions(&mut self) {
        for planned in &self.plan.extensions {
            let built = (planned.factory.build)(&planned.body, &self.context(&planned.id));
            let extension = self.kept(built).map(|extension| (Arc::clone(&planned.id), extension));
            self.network.extensions.extend(extension);
        }
    }

    fn receivers(&mut self) {
        for planned in &self.plan.receivers {
            let built = (planned.factory.build)(&planned.body, &self.context(&planned.id));
            let source =
                self.kept(built).map(|receiver| Source { id: Arc::clone(&planned.id), receiver, entries: Vec::new() });
            self.network.sources.extend(source);
        }
    }

    fn trees(&mut self) {
        for tree in &self.plan.trees {
            let targets = self.fork(&tree.fork);
            for input in &tree.inputs {
                let entries = targets
                    .iter()
                    .filter(|target| target.signals.contains(&input.signal))
                    .map(|target| (input.signal, target.way));
                let source = self.network.sources.iter_mut().find(|source| source.id == input.receiver);
                if let Some(source) = source {
                    source.entries.extend(entries);
                }
            }
        }
    }

    fn fork(&mut self, fork: &Fork) -> Vec<Target> {
        let mut targets = Vec::new();
        for stage in &fork.stages {
            let segment = self.segment(stage);
            targets.push(Target { signals: stage.takes.clone(), way: Way::Segment(segment) });
        }
        for exit in &fork.exits {
            if let Some(exporter) = self.exporter(&exit.exporter, exit.signal) {
                targets.push(Target { signals: vec![exit.signal], way: Way::Exporter(exporter) });
            }
        }
        targets
    }

    fn segment(&mut self, first: &Stage) -> usize {
        let mut processors = Vec::new();
        let mut stage = first;
        loop {
            let planned = &stage.processor;
            let built = (planned.factory.build)(&planned.body, &self.context(&planned.id));
            processors.extend(self.kept(built).map(|processor| chain::Built {
                id: Arc::clone(&planned.id),
                takes: stage.takes.clone(),
                gives: stage.gives.clone(),
                processor,
            }));
            match (&stage.next.stages[..], &stage.next.exits[..]) {
                ([only], []) if stage.gives.iter().all(|signal| only.takes.contains(signal)) => stage = only,
                _ => break,
            }
        }
        let targets = self.fork(&stage.next);
        let mut gates: Vec<_> = processors.iter().filter_map(|built| built.processor.gate()).collect();
        let mut wants = processors.iter().fold(Wants::default(), |all, built| all.merge(built.processor.wants()));
        for target in &targets {
            if let Way::Segment(segment) = target.way {
                let behind = &self.network.segments[segment];
                gates.extend(behind.gates.iter().cloned());
                wants = wants.merge(behind.wants);
            }
        }
        self.network.segments.push(Segment { processors, targets, gates, wants });
        self.network.segments.len() - 1
    }

    fn exporter(&mut self, id: &Arc<str>, signal: Signal) -> Option<usize> {
        let exporters = &self.network.exporters;
        if let Some(known) = exporters.iter().position(|sink| sink.id == *id && sink.signal == signal) {
            return Some(known);
        }
        let planned = self.plan.exporters.iter().find(|planned| planned.id == *id)?;
        let built = (planned.factory.build)(&planned.body, signal, &self.context(id));
        let built = self.kept(built)?;
        self.network.exporters.push(Sink { id: Arc::clone(id), signal, built });
        Some(self.network.exporters.len() - 1)
    }
}
