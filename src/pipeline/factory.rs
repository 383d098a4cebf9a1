//! How a component type presents itself: a plain `const` in the list of its folder.

use std::sync::Arc;

use schemars::Schema;

use super::component::{Exporter, Extension, Processor, Receiver};
use super::data::Signal;
use crate::config::{Body, Problems, Section};
use crate::history::History;
use crate::telemetry::Telemetry;

/// The settings of a component type, without the type.
#[derive(Clone, Copy)]
pub struct Settings {
    /// JSON Schema of the settings struct, descriptions included.
    pub schema: fn() -> Schema,
    /// The complete defaults.
    pub defaults: fn() -> serde_json::Value,
    /// Every mistake in a body.
    pub check: fn(&Body) -> Problems,
    /// The effective settings of a body as a document, secrets redacted; null where it has mistakes.
    pub effective: fn(&Body) -> serde_json::Value,
}

impl Settings {
    /// The settings that `T` declares.
    pub const fn of<T: Section + 'static>() -> Self {
        Self {
            schema: || schemars::SchemaGenerator::default().into_root_schema_for::<T>(),
            defaults: || serde_json::to_value(T::default()).unwrap_or_default(),
            check: |body| body.decode::<T>().err().unwrap_or_default(),
            effective: |body| {
                body.decode::<T>().ok().and_then(|settings| serde_json::to_value(settings).ok()).unwrap_or_default()
            },
        }
    }
}

/// A component, or what is wrong with its settings.
pub type Built<T> = Result<Box<T>, Problems>;

/// What a component gets when it is built.
#[derive(Clone)]
pub struct BuildContext {
    /// Its id, `type` or `type/name`.
    pub id: Arc<str>,
    /// The agent's own counters.
    pub telemetry: Telemetry,
    /// This build's version.
    pub version: &'static str,
    /// What pipelines of one run share of the threads' past.
    pub history: History,
}

impl BuildContext {
    /// The context of a component that is built by itself: it shares nothing with others.
    pub fn new(id: Arc<str>, telemetry: Telemetry, version: &'static str) -> Self {
        Self { id, telemetry, version, history: History::default() }
    }
}

/// A type of receiver.
pub struct ReceiverFactory {
    /// The word in the YAML.
    pub name: &'static str,
    /// Older spellings, still accepted with a note.
    pub aliases: &'static [&'static str],
    /// One line on what it is for.
    pub about: &'static str,
    /// `alpha`, `beta`, `stable`.
    pub stability: &'static str,
    /// What it can give.
    pub emits: &'static [Signal],
    /// Its settings.
    pub settings: Settings,
    /// Makes one; the body has passed `settings.check`.
    pub build: fn(&Body, &BuildContext) -> Built<dyn Receiver>,
}

/// A type of processor.
pub struct ProcessorFactory {
    /// The word in the YAML.
    pub name: &'static str,
    /// Older spellings, still accepted with a note.
    pub aliases: &'static [&'static str],
    /// One line on what it is for.
    pub about: &'static str,
    /// `alpha`, `beta`, `stable`.
    pub stability: &'static str,
    /// What it takes, and what it gives for it. Signals that are not named do not fit.
    pub converts: &'static [(Signal, Signal)],
    /// A type of receiver without which, in any pipeline of the config, it has nothing to work with.
    pub needs_receiver: Option<&'static str>,
    /// Its settings.
    pub settings: Settings,
    /// Makes one; the body has passed `settings.check`.
    pub build: fn(&Body, &BuildContext) -> Built<dyn Processor>,
}

/// An exporter with the delivery layers its settings ask for.
pub struct BuiltExporter {
    /// Makes the attempts.
    pub exporter: Box<dyn Exporter>,
    /// Queue, retry, timeout, splitting; `None`: every batch is exported once, in the pipeline's own task.
    pub delivery: Option<crate::pipeline::delivery::DeliverySettings>,
}

/// A type of exporter.
pub struct ExporterFactory {
    /// The word in the YAML.
    pub name: &'static str,
    /// Older spellings, still accepted with a note.
    pub aliases: &'static [&'static str],
    /// One line on what it is for.
    pub about: &'static str,
    /// `alpha`, `beta`, `stable`.
    pub stability: &'static str,
    /// What it takes.
    pub accepts: &'static [Signal],
    /// Its settings.
    pub settings: Settings,
    /// Makes one for one signal; the body has passed `settings.check`.
    pub build: fn(&Body, Signal, &BuildContext) -> Result<BuiltExporter, Problems>,
}

/// A type of extension.
pub struct ExtensionFactory {
    /// The word in the YAML.
    pub name: &'static str,
    /// Older spellings, still accepted with a note.
    pub aliases: &'static [&'static str],
    /// One line on what it is for.
    pub about: &'static str,
    /// `alpha`, `beta`, `stable`.
    pub stability: &'static str,
    /// Its settings.
    pub settings: Settings,
    /// Makes one; the body has passed `settings.check`.
    pub build: fn(&Body, &BuildContext) -> Built<dyn Extension>,
}

/// Every component type of a build: what a pipeline may name.
pub struct Components {
    /// Receivers.
    pub receivers: &'static [&'static ReceiverFactory],
    /// Processors.
    pub processors: &'static [&'static ProcessorFactory],
    /// Exporters.
    pub exporters: &'static [&'static ExporterFactory],
    /// Extensions.
    pub extensions: &'static [&'static ExtensionFactory],
}
