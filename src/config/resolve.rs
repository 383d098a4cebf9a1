//! All documents of a run made one: read, laid over each other, expanded.

use super::expand::Expander;
use super::merge::{merge, spread_keys};
use super::node::{Node, Value};
use super::parse::parse;
use super::problem::{Position, Problem, Problems};
use super::source::{Document, Environment, load, parse_set, plain_problem};

/// A config with nothing left to look up.
#[derive(Clone)]
pub struct Resolved {
    /// The sections.
    pub root: Node,
    /// Variables that are not set.
    pub warnings: Vec<Problem>,
    /// What was chosen without being written down, for the start line.
    pub notes: Vec<String>,
}

/// The config that `--config` values and `--set` pairs give together; later ones win.
///
/// # Errors
/// Every document that cannot be read or parsed and every reference that cannot be expanded.
pub fn resolve(sources: &[String], sets: &[String], environment: &dyn Environment) -> Result<Resolved, Problems> {
    let mut problems = Problems::default();
    let mut documents = Vec::new();
    for source in sources {
        match load(source, environment) {
            Ok(document) => documents.push(document),
            Err(problem) => problems.push(problem),
        }
    }
    if sources.is_empty() {
        problems.push(plain_problem("no config; name at least one with --config"));
    }
    finish(&documents, sets, environment, problems)
}

/// The same for documents that are at hand.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_documents(
    documents: &[Document],
    sets: &[String],
    environment: &dyn Environment,
) -> Result<Resolved, Problems> {
    finish(documents, sets, environment, Problems::default())
}

fn finish(
    documents: &[Document],
    sets: &[String],
    environment: &dyn Environment,
    mut problems: Problems,
) -> Result<Resolved, Problems> {
    let mut warnings = Vec::new();
    let mut root = Node::new(Position::default(), Value::map());
    let mut add = |parsed: Result<Node, Problem>, name: &str| match parsed {
        Ok(node) if node.is_null() => warnings.push(plain_problem(format!("{name}: the document is empty"))),
        Ok(node) if !matches!(node.value, Value::Map(_)) => problems.push(Problem {
            position: Some(node.at),
            path: String::new(),
            message: "a config is a mapping with the sections receivers, processors, exporters, extensions and service"
                .into(),
        }),
        Ok(node) => merge(&mut root, spread_keys(node)),
        Err(problem) => problems.push(problem),
    };
    for document in documents {
        add(parse(&document.name, &document.text), &document.name);
    }
    for pair in sets {
        add(parse_set(pair), "--set");
    }
    if root.entries().is_empty() && problems.is_empty() {
        let name = documents.first().map_or_else(String::new, |document| format!("{}: ", document.name));
        problems.push(plain_problem(format!("{name}empty configuration file")));
    }
    let mut expander = Expander::new(environment);
    expander.expand(&mut root);
    warnings.extend(expander.warnings);
    problems.0.extend(expander.problems);
    problems.or(Resolved { root, warnings, notes: Vec::new() })
}
