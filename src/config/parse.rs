//! Pure: YAML text to nodes. Aliases and merge keys are resolved here; everything is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::node::{Entry, Node, Scalar, Value};
use super::problem::{Position, Problem};

/// The largest document.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// The deepest nesting.
pub(super) const DEPTH_MAX: usize = 64;
/// The most nodes in a document, aliases counted as what they stand for.
pub(super) const NODES_MAX: usize = 200_000;

/// The tree of one document; a null node for an empty one.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Node, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(problem(
            Position { file: Arc::clone(file), line: 1, column: 1 },
            format!("the document is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20),
        ));
    }
    let mut builder = Builder::new(file);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(file, text, &error))?;
        builder.take(event, span)?;
    }
    Ok(builder.root.unwrap_or_default())
}

/// Bytes to text; the line of the first byte that is not UTF-8.
pub(super) fn decode_utf8(file: &Arc<str>, bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let before = &bytes[..good];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + String::from_utf8_lossy(&before[line_start..]).chars().count();
        let looks_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        let hint = if looks_utf16 { " (it looks like UTF-16); save it as UTF-8" } else { "; save it as UTF-8" };
        problem(Position { file: Arc::clone(file), line, column }, format!("not UTF-8{hint}"))
    })
}

fn problem(position: Position, message: impl Into<String>) -> Problem {
    Problem { position: Some(position), path: String::new(), message: message.into() }
}

fn position(file: &Arc<str>, mark: &Marker) -> Position {
    Position { file: Arc::clone(file), line: mark.line(), column: mark.col() + 1 }
}

/// The parser's message, with the usual cause where it shows in the line.
fn syntax(file: &Arc<str>, text: &str, error: &ScanError) -> Problem {
    let lines: Vec<&str> = text.lines().collect();
    let line_at = |line: usize| line.checked_sub(1).and_then(|at| lines.get(at)).copied().unwrap_or_default();
    let indent_has_tab = |line: usize| {
        let content = line_at(line);
        content[..content.len() - content.trim_start().len()].contains('\t')
    };
    let mut at = position(file, error.marker());
    // the parser may notice a tab only at the token after it
    if let Some(line) = [at.line, at.line.saturating_sub(1)].into_iter().find(|line| indent_has_tab(*line)) {
        at.line = line;
        at.column = 1 + line_at(line).chars().take_while(|c| *c != '\t').count();
        return problem(at, "a tab in the indentation; YAML takes only spaces there");
    }
    let bare_reference = line_at(at.line).contains("${") && line_at(at.line).contains(['{', '[']);
    let hint = if bare_reference && error.info().contains("flow") {
        "; inside { } and [ ], a value with ${...} needs quotes"
    } else {
        ""
    };
    problem(at, format!("not valid YAML: {}{hint}", error.info()))
}

/// A list or map that is not complete.
struct Open {
    anchor: usize,
    at: Position,
    shape: Shape,
}

enum Shape {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, index: HashMap<String, usize>, key: Option<(String, Position, bool)>, merges: Vec<Node> },
}

struct Builder<'a> {
    file: &'a Arc<str>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a Arc<str>) -> Self {
        Self { file, open: Vec::new(), anchors: HashMap::new(), nodes: 0, documents: 0, root: None }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let at = position(self.file, &span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(problem(at, "a second document begins here; give each its own --config"));
                }
            }
            Event::Alias(anchor) => {
                let Some((node, count)) = self.anchors.get(&anchor).cloned() else {
                    return Err(problem(at, "an alias to something that is not complete here"));
                };
                self.spend(count, &at)?;
                return self.put(node, &at, false);
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(1, &at)?;
                let plain = plain_by_tag(style == ScalarStyle::Plain, tag.as_deref(), &at)?;
                let is_merge = text == "<<" && style == ScalarStyle::Plain;
                let node = Node::new(at.clone(), Value::Scalar(Scalar { text: text.into_owned(), plain }));
                self.keep(anchor, &node);
                return self.put(node, &at, is_merge);
            }
            Event::SequenceStart(anchor, tag) => {
                only_tag(tag.as_deref(), "seq", &at)?;
                self.begin(anchor, at, Shape::List(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                only_tag(tag.as_deref(), "map", &at)?;
                let shape = Shape::Map { entries: Vec::new(), index: HashMap::new(), key: None, merges: Vec::new() };
                self.begin(anchor, at, shape)?;
            }
            Event::SequenceEnd | Event::MappingEnd => return self.end(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, at: Position, shape: Shape) -> Result<(), Problem> {
        self.spend(1, &at)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(problem(at, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.open.push(Open { anchor, at, shape });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.shape {
            Shape::List(items) => Value::List(items),
            Shape::Map { mut entries, index, merges, .. } => {
                self.merge(&mut entries, index, merges)?;
                Value::Map(entries)
            }
        };
        let node = Node::new(open.at.clone(), value);
        self.keep(open.anchor, &node);
        self.put(node, &open.at, false)
    }

    /// Lays merged maps (`<<`) under a map's own keys; of several, the first wins.
    fn merge(
        &mut self,
        entries: &mut Vec<Entry>,
        mut index: HashMap<String, usize>,
        merges: Vec<Node>,
    ) -> Result<(), Problem> {
        for merge in merges {
            let at = merge.at.clone();
            let sources = match merge.value {
                Value::List(items) => items,
                _ => vec![merge],
            };
            for source in sources {
                let Value::Map(inherited) = source.value else {
                    return Err(problem(at, "`<<` takes a mapping or a list of mappings"));
                };
                for entry in inherited {
                    if !index.contains_key(&entry.key) {
                        index.insert(entry.key.clone(), entries.len());
                        entries.push(entry);
                    }
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, node: &Node) {
        if anchor > 0 {
            let count = node.count();
            self.anchors.insert(anchor, (node.clone(), count));
        }
    }

    fn spend(&mut self, nodes: usize, at: &Position) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX {
            return Err(problem(at.clone(), format!("more than {NODES_MAX} values, aliases counted")));
        }
        Ok(())
    }

    /// Puts a complete node where it belongs.
    fn put(&mut self, node: Node, at: &Position, is_merge: bool) -> Result<(), Problem> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.shape {
            Shape::List(items) => items.push(node),
            Shape::Map { entries, index, key, merges } => match key.take() {
                None => {
                    let Value::Scalar(scalar) = node.value else {
                        return Err(problem(at.clone(), "a key must be a word, not a list or mapping"));
                    };
                    if let Some(first) = index.get(&scalar.text).and_then(|first| entries.get(*first)) {
                        let message = format!("duplicate key `{}`, first in line {}", scalar.text, first.at.line);
                        return Err(problem(at.clone(), message));
                    }
                    *key = Some((scalar.text, at.clone(), is_merge));
                }
                Some((_, _, true)) => merges.push(node),
                Some((key, at, false)) => {
                    index.insert(key.clone(), entries.len());
                    entries.push(Entry { key, at, value: node });
                }
            },
        }
        Ok(())
    }
}

/// Whether a scalar is to be typed, by style and tag.
fn plain_by_tag(plain: bool, tag: Option<&Tag>, at: &Position) -> Result<bool, Problem> {
    match tag {
        None => Ok(plain),
        Some(tag) if tag.handle == "!" && tag.suffix.is_empty() => Ok(false),
        Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
            "str" => Ok(false),
            "int" | "float" | "bool" | "null" => Ok(true),
            _ => Err(unknown_tag(tag, at)),
        },
        Some(tag) => Err(unknown_tag(tag, at)),
    }
}

fn only_tag(tag: Option<&Tag>, suffix: &str, at: &Position) -> Result<(), Problem> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == suffix) => Err(unknown_tag(tag, at)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, at: &Position) -> Problem {
    problem(at.clone(), format!("the tag `{tag}` means nothing here"))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
