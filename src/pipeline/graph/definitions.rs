//! Pure: one section of component definitions: ids, types, settings.

use crate::config::suggest::{listing, suggest};
use crate::config::{Body, Node, Position};
use crate::pipeline::plan::Planned;

use super::Findings;
use super::kind::ComponentType;

/// What a section defines.
pub(super) struct Definitions<F: ComponentType> {
    known: Vec<(Planned<F>, Position)>,
    /// Ids of types that this build does not have; told already.
    unknown: Vec<String>,
}

impl<F: ComponentType> Definitions<F> {
    pub(super) fn find(&self, id: &str) -> Option<&Planned<F>> {
        self.known.iter().map(|(planned, _)| planned).find(|planned| &*planned.id == id)
    }

    /// All of them, in the order of the document.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Planned<F>> {
        self.known.iter().map(|(planned, _)| planned)
    }

    /// The message for a reference to nothing; `None` where the definition exists but is wrong.
    pub(super) fn missing(&self, id: &str) -> Option<String> {
        if self.unknown.iter().any(|known| known == id) {
            return None;
        }
        let near = suggest(id, self.known.iter().map(|(planned, _)| &*planned.id));
        let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        Some(format!("{} `{id}` is not defined under {}{near}", F::KIND, F::SECTION))
    }

    /// Warns of what is defined and not used.
    pub(super) fn unused(&self, is_used: impl Fn(&str) -> bool, findings: &mut Findings) {
        for (planned, at) in self.known.iter().filter(|(planned, _)| !is_used(&planned.id)) {
            findings.warn(at, &planned.body.path, format!("this {} is used nowhere and does not start", F::KIND));
        }
    }
}

/// Reads a section.
pub(super) fn define<F: ComponentType>(root: &Node, types: &[&'static F], findings: &mut Findings) -> Definitions<F> {
    let mut definitions = Definitions { known: Vec::new(), unknown: Vec::new() };
    let Some(section) = root.entry(F::SECTION) else { return definitions };
    if !section.value.is_null() && !section.value.is_map() {
        let message = format!("must be a mapping from ids to settings, not {}", section.value.shape());
        findings.problem(&section.at, F::SECTION, message);
    }
    for entry in section.value.entries() {
        let path = format!("{}::{}", F::SECTION, entry.key);
        let Some(factory) = component_type(&entry.key, types, &path, &entry.at, findings) else {
            definitions.unknown.push(entry.key.clone());
            continue;
        };
        let body = Body::new(path, entry.at.clone(), entry.value.clone());
        findings.problems.extend((factory.settings().check)(&body));
        definitions.known.push((Planned { id: entry.key.as_str().into(), factory, body }, entry.at.clone()));
    }
    definitions
}

/// The type that an id names.
fn component_type<F: ComponentType>(
    id: &str,
    types: &[&'static F],
    path: &str,
    at: &Position,
    findings: &mut Findings,
) -> Option<&'static F> {
    let (word, name) = id.split_once('/').map_or((id, None), |(word, name)| (word.trim(), Some(name.trim())));
    if name == Some("") || word.is_empty() {
        let part = if word.is_empty() { "the type before" } else { "the name after" };
        findings.problem(at, path, format!("{part} `/` is empty; an id is `type` or `type/name`"));
        return None;
    }
    if let Some(factory) = types.iter().find(|factory| factory.name() == word) {
        return Some(factory);
    }
    if let Some(factory) = types.iter().find(|factory| factory.aliases().contains(&word)) {
        findings.warn(at, path, format!("`{word}` is an old spelling of `{}`; it still works", factory.name()));
        return Some(factory);
    }
    let names = || types.iter().map(|factory| factory.name());
    let replaced = F::REPLACED.iter().find(|(old, _)| *old == word).map(|(_, hint)| (*hint).to_owned());
    let near = || suggest(word, names()).map(|near| format!("did you mean `{near}`?"));
    let hint = replaced.or_else(near).map(|hint| format!("{hint}; ")).unwrap_or_default();
    let message = format!("unknown {} type `{word}`: {hint}there are {}", F::KIND, listing(names()));
    findings.problem(at, path, message);
    None
}
