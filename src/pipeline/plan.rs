//! Pure: what a run consists of: checked and wired, nothing built yet.

use std::fmt;
use std::sync::Arc;

use super::data::Signal;
use super::factory::{ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory};
use super::service::ServiceSettings;
use crate::config::{Body, Problem};

/// A component to build: its id as the user wrote it, its type, its settings.
pub struct Planned<F: 'static> {
    /// `type` or `type/name`.
    pub id: Arc<str>,
    /// The type.
    pub factory: &'static F,
    /// The settings; they have passed the type's check.
    pub body: Body,
}

impl<F> Clone for Planned<F> {
    fn clone(&self) -> Self {
        Self { id: Arc::clone(&self.id), factory: self.factory, body: self.body.clone() }
    }
}

impl<F> fmt::Debug for Planned<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.id)
    }
}

/// All that runs. What no pipeline uses is not in it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order in which they start.
    pub extensions: Vec<Planned<ExtensionFactory>>,
    /// Each is built once, whatever number of trees it feeds.
    pub receivers: Vec<Planned<ReceiverFactory>>,
    /// Each is built once for each signal that reaches it ([`Exit::signal`]).
    pub exporters: Vec<Planned<ExporterFactory>>,
    /// The ways from receivers to exporters.
    pub trees: Vec<Tree>,
    /// The `service` section.
    pub service: ServiceSettings,
    /// What is allowed but worth a log line: unused components, old spellings.
    pub warnings: Vec<Problem>,
}

/// All pipelines that begin with the same receivers: one input, then stages part ways.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Which receivers send into it, and the signals that are taken from each.
    pub inputs: Vec<Input>,
    /// What the input goes to.
    pub fork: Fork,
}

/// One receiver of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// An id in [`Plan::receivers`].
    pub receiver: Arc<str>,
    /// The signal that this tree takes from it.
    pub signal: Signal,
}

/// Where data goes next: to every stage and every exit that takes its signal.
#[derive(Debug, Clone, Default)]
pub struct Fork {
    /// Processors.
    pub stages: Vec<Stage>,
    /// Exporters.
    pub exits: Vec<Exit>,
}

/// One instance of a processor, shared by the pipelines that have the same way up to it.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The processor.
    pub processor: Planned<ProcessorFactory>,
    /// The signals that arrive.
    pub takes: Vec<Signal>,
    /// The signals that leave.
    pub gives: Vec<Signal>,
    /// The ids of the pipelines that share it, such as `traces/slow`.
    pub pipelines: Vec<Arc<str>>,
    /// What follows.
    pub next: Fork,
}

/// One signal arriving at one exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// An id in [`Plan::exporters`].
    pub exporter: Arc<str>,
    /// What arrives.
    pub signal: Signal,
    /// The id of the pipeline.
    pub pipeline: Arc<str>,
}
