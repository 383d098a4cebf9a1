//! Pure: from the sections of a config to a [`Plan`]: ids resolved, settings checked, pipelines wired and
//! type-checked; every mistake of all of them in one go.

mod definitions;
mod kind;
mod wiring;

use std::sync::Arc;

use crate::config::suggest::suggest;
use crate::config::{Body, Node, Position, Problem, Problems};

use super::factory::{Components, ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory, Settings};
use super::plan::{Fork, Plan, Planned};
use super::service::ServiceSettings;
use definitions::{Definitions, define};
pub use kind::ComponentType;
use wiring::Wiring;

/// What was noticed on the way.
#[derive(Default)]
struct Findings {
    problems: Problems,
    warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.problems.push(found(at, path, message));
    }

    fn warn(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.warnings.push(found(at, path, message));
    }
}

fn found(at: &Position, path: &str, message: impl Into<String>) -> Problem {
    Problem { position: Some(at.clone()), path: path.to_owned(), message: message.into() }
}

/// The sections of a config.
const SECTIONS: [&str; 6] = ["receivers", "processors", "exporters", "connectors", "extensions", "service"];

/// Everything that is defined.
struct Defined {
    receivers: Definitions<ReceiverFactory>,
    processors: Definitions<ProcessorFactory>,
    exporters: Definitions<ExporterFactory>,
    extensions: Definitions<ExtensionFactory>,
}

/// A component as defined, used or not.
pub struct Definition {
    /// `receivers`, `processors`, `exporters` or `extensions`.
    pub section: &'static str,
    /// `type` or `type/name`.
    pub id: Arc<str>,
    /// The keys of its type.
    pub settings: &'static Settings,
    /// What is written.
    pub body: Body,
}

/// Every component that a config defines, in the order of its sections; types that do not exist are left out.
pub fn definitions(root: &Node, components: &Components) -> Vec<Definition> {
    fn all<F: ComponentType>(root: &Node, types: &[&'static F], found: &mut Vec<Definition>) {
        let defined = define(root, types, &mut Findings::default());
        found.extend(defined.iter().map(|planned| Definition {
            section: F::SECTION,
            id: Arc::clone(&planned.id),
            settings: planned.factory.settings(),
            body: planned.body.clone(),
        }));
    }
    let mut found = Vec::new();
    all(root, components.receivers, &mut found);
    all(root, components.processors, &mut found);
    all(root, components.exporters, &mut found);
    all(root, components.extensions, &mut found);
    found
}

/// Plans the run that a resolved config asks for.
///
/// # Errors
/// Every mistake: unknown sections, types and keys, wrong values, references to nothing, pipelines that do not fit.
pub fn plan(root: &Node, components: &Components) -> Result<Plan, Problems> {
    let mut findings = Findings::default();
    sections(root, &mut findings);
    let defined = Defined {
        receivers: define(root, components.receivers, &mut findings),
        processors: define(root, components.processors, &mut findings),
        exporters: define(root, components.exporters, &mut findings),
        extensions: define(root, components.extensions, &mut findings),
    };
    let service = service(root, &mut findings);
    let mut wiring = Wiring::new(&defined, components.processors);
    wiring.pipelines(root, &mut findings);
    let extensions = extensions(root, &service, &defined, &mut findings);
    let (receivers, exporters, trees) = wiring.finish(&mut findings);
    for tree in &trees {
        alone(&tree.fork, &receivers, &mut findings);
    }
    let Findings { problems, warnings } = findings;
    problems.or(Plan { extensions, receivers, exporters, trees, service, warnings })
}

/// Tells of processors that have nothing to work with, since no pipeline has the receiver that they need.
fn alone(fork: &Fork, receivers: &[Planned<ReceiverFactory>], findings: &mut Findings) {
    for stage in &fork.stages {
        let (body, needs) = (&stage.processor.body, stage.processor.factory.needs_receiver);
        if let Some(needs) = needs.filter(|needs| receivers.iter().all(|receiver| receiver.factory.name != *needs)) {
            let message = format!("works only beside a `{needs}` receiver, and no pipeline here begins with one");
            findings.problem(body.position(), &body.path, message);
        }
        alone(&stage.next, receivers, findings);
    }
}

fn sections(root: &Node, findings: &mut Findings) {
    for entry in root.entries() {
        if !SECTIONS.contains(&entry.key.as_str()) {
            let near = match suggest(&entry.key, SECTIONS) {
                Some(near) => format!("unknown section, did you mean `{near}`?"),
                None => format!("unknown section; there are {}", SECTIONS.join(", ")),
            };
            findings.problem(&entry.at, &entry.key, near);
        } else if entry.key == "connectors" {
            for connector in entry.value.entries() {
                let path = format!("connectors::{}", connector.key);
                findings.problem(
                    &connector.at,
                    &path,
                    "this build has no connectors; pipelines that begin with the same receivers share them",
                );
            }
        }
    }
}

fn service(root: &Node, findings: &mut Findings) -> ServiceSettings {
    let Some(entry) = root.entry("service") else {
        findings.problems.push(Problem {
            position: None,
            path: "service".into(),
            message: "missing; it says which pipelines run".into(),
        });
        return ServiceSettings::default();
    };
    let body = Body::new("service".into(), entry.at.clone(), entry.value.clone());
    body.decode().unwrap_or_else(|problems| {
        findings.problems.extend(problems);
        ServiceSettings::default()
    })
}

/// The listed extensions in their order; those that are not listed are a warning.
fn extensions(
    root: &Node,
    service: &ServiceSettings,
    defined: &Defined,
    findings: &mut Findings,
) -> Vec<Planned<ExtensionFactory>> {
    let place = |index: usize| root.place_of(&format!("service::extensions::{index}")).cloned().unwrap_or_default();
    let mut planned: Vec<Planned<_>> = Vec::new();
    // the list as written: it is looked at even where another key of the section is wrong
    let list = root.get("service").and_then(|service| service.get("extensions"));
    let written = list.map_or(&[][..], Node::items).iter().filter_map(|item| item.text().map(str::to_owned));
    let mut ids: Vec<String> = written.collect();
    if ids.is_empty() {
        ids.clone_from(&service.extensions);
    }
    for (index, id) in ids.iter().enumerate() {
        if planned.iter().any(|known| &*known.id == id.as_str()) {
            findings.problem(&place(index), "service::extensions", format!("extension `{id}` is listed twice"));
        } else if let Some(extension) = defined.extensions.find(id) {
            planned.push(extension.clone());
        } else if let Some(message) = defined.extensions.missing(id) {
            findings.problem(&place(index), "service::extensions", message);
        }
    }
    defined.extensions.unused(|id| ids.iter().any(|listed| listed == id), findings);
    planned
}

#[cfg(test)]
mod tests;
