//! References in values: `${env:X}`, `${X}`, `${file:...}`, `${yaml:...}`, `$$`; as the Collector expands them.

use std::ops::Range;
use std::sync::Arc;

use super::node::{Node, Scalar, Value};
use super::parse::{DEPTH_MAX, DOCUMENT_BYTES_MAX, NODES_MAX, parse};
use super::problem::{Position, Problem};
use super::scalar::{Typed, typed};
use super::source::{Environment, read_file, split_scheme, unknown_scheme, variable_text};

/// The most references that one value may expand, those inside of what they give included.
pub(super) const EXPANSIONS_MAX: usize = 100;
/// The most references that a whole config may expand.
const EXPANSIONS_TOTAL_MAX: usize = 10_000;

/// Expands every value of a tree.
pub(super) struct Expander<'a> {
    environment: &'a dyn Environment,
    /// Variables that are not set.
    pub(super) warnings: Vec<Problem>,
    /// References that cannot be expanded.
    pub(super) problems: Vec<Problem>,
    expansions: usize,
    nodes: usize,
}

/// Where a value stands, and how much was spent on the way to it.
#[derive(Clone, Copy)]
struct Way<'a> {
    path: &'a str,
    depth: usize,
    expansions: usize,
}

impl<'a> Expander<'a> {
    pub(super) fn new(environment: &'a dyn Environment) -> Self {
        Self { environment, warnings: Vec::new(), problems: Vec::new(), expansions: 0, nodes: 0 }
    }

    pub(super) fn expand(&mut self, root: &mut Node) {
        self.node(root, Way { path: "", depth: 0, expansions: 0 });
    }

    fn node(&mut self, node: &mut Node, way: Way<'_>) {
        self.nodes += 1;
        if way.depth > DEPTH_MAX || self.nodes > NODES_MAX {
            if self.problems.is_empty() {
                self.problem(&node.at, way.path, "references expand to more than a config may hold");
            }
            return;
        }
        match &mut node.value {
            Value::Scalar(_) => self.scalar(node, way),
            Value::List(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{}::{index}", way.path);
                    self.node(item, Way { path: &path, depth: way.depth + 1, ..way });
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let path = join(way.path, &entry.key);
                    self.node(&mut entry.value, Way { path: &path, depth: way.depth + 1, ..way });
                }
            }
        }
    }

    /// Expands until nothing is left; a reference that is the whole value gives any shape, else text.
    fn scalar(&mut self, node: &mut Node, way: Way<'_>) {
        let mut spent = way.expansions;
        while let Value::Scalar(scalar) = &node.value {
            let Some(found) = find_reference(&scalar.text) else { break };
            let reference = shown(&scalar.text[found.clone()]);
            let given = match self.retrieve(&scalar.text[found.clone()], &mut spent) {
                Ok(given) => given,
                Err(message) => return self.problem(&node.at, way.path, message),
            };
            if let Some(warning) = &given.warning {
                self.warn(&node.at, way.path, warning);
            }
            if found == (0..scalar.text.len()) {
                match given.into_node(&node.at) {
                    Ok(whole) => {
                        // of a chain, the reference that stands in the document
                        let reference = node.reference.take().or_else(|| Some(reference.into()));
                        *node = Node { reference, ..whole };
                    }
                    Err(problem) => return self.problems.push(problem),
                }
            } else {
                let mut text = scalar.text.clone();
                text.replace_range(found, &given.text);
                if text.len() > DOCUMENT_BYTES_MAX {
                    return self.problem(&node.at, way.path, "references expand to more text than a config may hold");
                }
                node.value = Value::Scalar(Scalar { text, plain: false });
            }
        }
        if let Value::Scalar(scalar) = &mut node.value {
            scalar.text = unescape(&scalar.text);
        } else {
            self.node(node, Way { depth: way.depth + 1, expansions: spent, ..way });
        }
        // the text that a text field gets; where it cannot be expanded, the field sees the value
        node.original = node.original.take().and_then(|original| self.text(&original, spent).map(Into::into));
    }

    /// Expands a text all through, without a word about what goes wrong.
    fn text(&mut self, text: &str, mut spent: usize) -> Option<String> {
        let mut text = text.to_owned();
        while let Some(found) = find_reference(&text) {
            let given = self.retrieve(&text[found.clone()], &mut spent).ok()?;
            text.replace_range(found, &given.text);
            if text.len() > DOCUMENT_BYTES_MAX {
                return None;
            }
        }
        Some(unescape(&text))
    }

    /// What one reference, `${` and `}` included, stands for.
    fn retrieve(&mut self, reference: &str, spent: &mut usize) -> Result<Given, String> {
        *spent += 1;
        self.expansions += 1;
        if *spent > EXPANSIONS_MAX {
            return Err(format!(
                "more than {EXPANSIONS_MAX} references in one value, the last `{}`; does one lead back to itself?",
                shown(reference)
            ));
        }
        if self.expansions > EXPANSIONS_TOTAL_MAX {
            return Err(format!("more than {EXPANSIONS_TOTAL_MAX} references in the config"));
        }
        let uri = reference.trim_start_matches("${").trim_end_matches('}');
        let (scheme, rest) = if uri.contains(':') {
            split_scheme(uri).ok_or_else(|| format!("`{reference}` is not a reference; write ${{env:NAME}}"))?
        } else {
            ("env", uri)
        };
        match scheme {
            "env" => self.variable(rest),
            "yaml" => Ok(Given::new(rest.to_owned())),
            "file" => {
                let document = read_file(rest, self.environment).map_err(|problem| problem.to_string())?;
                Ok(Given { file: Some(document.name), ..Given::new(document.text) })
            }
            name if rest.starts_with('-') => {
                Err(format!("`${{{name}:{rest}}}` has a default but no scheme; write ${{env:{name}:{rest}}}"))
            }
            _ => Err(format!("{}; for a literal `${{` write `$${{`", unknown_scheme(scheme))),
        }
    }

    fn variable(&self, rest: &str) -> Result<Given, String> {
        let (name, default) = match rest.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (rest, None),
        };
        if let Some(text) = variable_text(name, self.environment)? {
            return Ok(Given::new(text));
        }
        let warning = default.is_none().then(|| {
            format!(
                "environment variable `{name}` is not set, the value is empty; `${{env:{name}:-...}}` gives a default"
            )
        });
        Ok(Given { warning, ..Given::new(default.unwrap_or_default().to_owned()) })
    }

    fn problem(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { position: Some(at.clone()), path: path.to_owned(), message: message.into() });
    }

    fn warn(&mut self, at: &Position, path: &str, message: &str) {
        let warning = Problem { position: Some(at.clone()), path: path.to_owned(), message: message.to_owned() };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// What a reference gave.
struct Given {
    text: String,
    /// The file that it is the content of.
    file: Option<Arc<str>>,
    warning: Option<String>,
}

impl Given {
    const fn new(text: String) -> Self {
        Self { text, file: None, warning: None }
    }

    /// Reads the text as YAML where it means anything but text; text stays as it is, quotes included.
    /// A file that is named as YAML must be YAML. One line end at the end of a file is not part of a text.
    fn into_node(self, at: &Position) -> Result<Node, Problem> {
        let Self { mut text, file, .. } = self;
        let is_yaml = file.as_deref().is_some_and(|name| name.ends_with(".yaml") || name.ends_with(".yml"));
        let parsed = match parse(file.as_ref().unwrap_or(&at.file), &text) {
            Ok(node) => Some(node),
            Err(problem) if is_yaml => return Err(problem),
            Err(_) => None,
        };
        if file.is_some() {
            text.truncate(text.strip_suffix('\n').unwrap_or(&text).trim_end_matches('\r').len());
        }
        let value = match parsed.map(|node| node.value) {
            Some(Value::Scalar(scalar)) if scalar.plain && typed(&scalar.text) != Typed::Text => Value::Scalar(scalar),
            Some(value @ (Value::List(_) | Value::Map(_))) => value,
            _ => Value::Scalar(Scalar { text: text.clone(), plain: true }),
        };
        let mut node = Node { original: Some(text.into()), ..Node::new(at.clone(), value) };
        if file.is_none() {
            place_at(&mut node, at);
        }
        Ok(node)
    }
}

/// What a variable holds stands where the variable is named.
fn place_at(node: &mut Node, at: &Position) {
    node.at = at.clone();
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter_mut().for_each(|item| place_at(item, at)),
        Value::Map(entries) => {
            for entry in entries {
                entry.at = at.clone();
                place_at(&mut entry.value, at);
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}::{key}") }
}

/// A reference as messages show it: without its default, which may be a secret.
fn shown(reference: &str) -> String {
    let uri = reference.trim_start_matches("${").trim_end_matches('}');
    let uri = uri.split_once(":-").map_or(uri, |(name, _)| name);
    match uri.split_once(':') {
        Some(("yaml", _)) => "${yaml:...}".to_owned(),
        _ => format!("${{{}}}", uri.chars().take(64).collect::<String>()),
    }
}

/// The first reference that is not escaped, the innermost first.
fn find_reference(text: &str) -> Option<Range<usize>> {
    let mut from = 0;
    while let Some(length) = text[from..].find('}') {
        let end = from + length + 1;
        if let Some(start) = text[from..end].rfind("${") {
            let start = from + start;
            let dollars = text[..start].bytes().rev().take_while(|byte| *byte == b'$').count();
            if dollars % 2 == 0 {
                return Some(start..end);
            }
        }
        from = end;
    }
    None
}

/// `$$` stands for `$`.
fn unescape(text: &str) -> String {
    text.replace("$$", "$")
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
