//! The part of a config that belongs to one component: its untyped, positioned form and its typed one.

use std::fmt;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use super::fit::fit;
use super::node::Node;
use super::parse::parse;
use super::problem::{Position, Problem, Problems};

/// A component's settings. The struct is the only place where a key, its default and its description are
/// written: schema, reference, `print-config` and the check for unknown keys come from it.
/// Derive `Deserialize` with `#[serde(default, deny_unknown_fields)]`; never `flatten`.
pub trait Section: DeserializeOwned + Serialize + Default + JsonSchema {
    /// Tells what the types cannot: ranges, required keys, combinations.
    fn validate(&self, _at: &mut Checker<'_>) {}
}

/// No keys at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoSettings {}

impl Section for NoSettings {}

/// A resolved piece of the config: expanded, merged, with the path it stands at.
#[derive(Clone, Default)]
pub struct Body {
    /// Joined by `::`, such as `receivers::sched`.
    pub path: String,
    /// Where its key stands.
    at: Position,
    /// What stands there; null means all defaults.
    node: Node,
}

/// Path and place only: a value may be a secret.
impl fmt::Debug for Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Body({} at {}:{}:{})", self.path, self.at.file, self.at.line, self.at.column)
    }
}

impl Body {
    /// The body that a node makes; `at` is where its key stands.
    pub const fn new(path: String, at: Position, node: Node) -> Self {
        Self { path, at, node }
    }

    /// A body from YAML text as it would stand at `path`, references not expanded. Its document has no name,
    /// so that mistakes are told without a place.
    ///
    /// # Errors
    /// The text is not YAML.
    pub fn from_yaml(path: impl Into<String>, text: &str) -> Result<Self, Problems> {
        let path = path.into();
        match parse(&"".into(), text) {
            Ok(node) => Ok(Self { path, at: node.at.clone(), node }),
            Err(problem) => Err(Problems(vec![Problem { path, ..problem }])),
        }
    }

    /// Where its key stands.
    pub const fn position(&self) -> &Position {
        &self.at
    }

    /// The typed settings, or every mistake in them.
    ///
    /// # Errors
    /// Unknown keys, wrong types, and what [`Section::validate`] finds.
    pub fn decode<T: Section>(&self) -> Result<T, Problems> {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>();
        let fitted = fit(&self.node, &self.at, &self.path, schema.as_value(), false);
        let mut problems = fitted.problems;
        let decoded = fitted.value.filter(|value| !value.is_null()).map(serde_path_to_error::deserialize::<_, T>);
        let settings = match decoded {
            None => Some(T::default()),
            Some(Ok(settings)) => Some(settings),
            // what does not fit is told already
            Some(Err(_)) if !problems.is_empty() => None,
            Some(Err(error)) => {
                Checker::new(self, &mut problems).problem(&joined(error.path()), error.inner().to_string());
                None
            }
        };
        if let Some(settings) = &settings {
            let mut more = Problems::default();
            settings.validate(&mut Checker::new(self, &mut more));
            if !problems.is_empty() {
                more.0.retain(|problem| self.is_news(problem, &problems));
            }
            problems.extend(more);
        }
        hide(&mut problems, &fitted.secrets);
        match settings {
            Some(settings) if problems.is_empty() => Ok(settings),
            _ => Err(problems),
        }
    }

    /// Where some values did not fit, their defaults stood in for them when the section was checked: then only
    /// what is said of a written key that itself did fit is true of the document.
    fn is_news(&self, problem: &Problem, known: &Problems) -> bool {
        let Some(key) = problem.path.strip_prefix(&self.path).and_then(|key| key.strip_prefix("::")) else {
            return false;
        };
        let related = |one: &str, other: &str| {
            one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let is_new =
            known.0.iter().all(|known| !related(&known.path, &problem.path) && !related(&problem.path, &known.path));
        is_new && self.node.find(key).is_some_and(|node| !node.is_null())
    }

    /// The values as written, typed by a schema; null where nothing is written.
    pub fn written(&self, schema: &serde_json::Value, redact: bool) -> serde_json::Value {
        fit(&self.node, &self.at, &self.path, schema, redact).value.unwrap_or_default()
    }
}

/// A path of the decoder in our notation.
fn joined(path: &serde_path_to_error::Path) -> String {
    let parts: Vec<String> = path
        .iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { variant } => Some(variant.clone()),
            Segment::Unknown => None,
        })
        .collect();
    parts.join("::")
}

/// Takes secrets out of messages; a short one only where it stands as a word of its own.
fn hide(problems: &mut Problems, secrets: &[String]) {
    for problem in &mut problems.0 {
        for secret in secrets.iter().filter(|secret| !secret.trim().is_empty()) {
            let mut from = 0;
            while let Some(found) = problem.message[from..].find(secret.as_str()) {
                let range = from + found..from + found + secret.len();
                let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                let is_word = !touches(problem.message[..range.start].chars().next_back())
                    && !touches(problem.message[range.end..].chars().next());
                from = range.end;
                if secret.len() > 3 || is_word {
                    problem.message.replace_range(range.clone(), "[REDACTED]");
                    from = range.start + "[REDACTED]".len();
                }
            }
        }
    }
}

/// Collects what a [`Section::validate`] finds, at the place of the key it names.
pub struct Checker<'a> {
    body: &'a Body,
    problems: &'a mut Problems,
    /// Stands before every key; ends with `::` unless empty.
    prefix: String,
}

impl<'a> Checker<'a> {
    fn new(body: &'a Body, problems: &'a mut Problems) -> Self {
        Self { body, problems, prefix: String::new() }
    }

    /// Checks a part of the section that stands below `key`, in terms of its own keys.
    pub fn below(&mut self, key: &str, check: impl FnOnce(&mut Checker<'_>)) {
        check(&mut Checker { body: self.body, problems: self.problems, prefix: format!("{}{key}::", self.prefix) });
    }

    /// A mistake at `key`, which is relative to the section and joined by `::` (empty: the section itself).
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let key = format!("{}{key}", self.prefix);
        let key = key.trim_end_matches("::");
        let path = if key.is_empty() { self.body.path.clone() } else { format!("{}::{key}", self.body.path) };
        let position = self.body.node.place_of(key).unwrap_or(&self.body.at).clone();
        self.problems.push(Problem { position: Some(position), path, message: message.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Opaque;

    #[derive(Debug, Default, serde::Serialize, serde::Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Keys {
        a: u8,
        token: Opaque,
        list: Vec<u8>,
    }

    impl Section for Keys {
        fn validate(&self, at: &mut Checker<'_>) {
            if self.a > 100 {
                at.problem("a", format!("at most 100 (token {})", self.token.reveal()));
            }
            if self.list.contains(&9) {
                at.problem("list::1", "no nines");
                at.problem("", "whole");
            }
        }
    }

    fn located(text: &str) -> Body {
        let node = parse(&"text".into(), text).unwrap();
        Body::new("receivers::none".into(), node.at.clone(), node)
    }

    fn mistakes(text: &str) -> String {
        located(text).decode::<Keys>().map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn a_body_from_text_decodes() {
        let body = Body::from_yaml("receivers::none", "").unwrap();
        assert_eq!(body.decode::<NoSettings>().unwrap(), NoSettings {});
        assert!(Body::from_yaml("receivers::none", "{a: 1}").unwrap().decode::<NoSettings>().is_err());
        assert!(Body::from_yaml("receivers::none", "{a: ").is_err());
        assert_eq!(Body::default().decode::<Keys>().unwrap().a, 0);
    }

    #[test]
    fn a_check_points_at_the_key_and_hides_secrets() {
        assert_eq!(mistakes("a: 101\ntoken: s3cr3t"), "text:1:4: receivers::none::a: at most 100 (token [REDACTED])");
        assert_eq!(mistakes("a: 101\ntoken: t"), "text:1:4: receivers::none::a: at most 100 (token [REDACTED])");
        assert_eq!(
            mistakes("a: 1\nlist: [1, 9]"),
            "text:2:11: receivers::none::list::1: no nines\ntext:1:1: receivers::none: whole"
        );
        assert_eq!(
            mistakes("a: 101\nlist: [x, 9]\nb: 1"),
            "text:2:8: receivers::none::list::0: must be a whole number, not `x`\n\
             text:3:1: receivers::none::b: unknown key; there are `a`, `token`, `list`\n\
             text:1:4: receivers::none::a: at most 100 (token )\n\
             text:2:11: receivers::none::list::1: no nines"
        );
    }

    #[test]
    fn a_body_never_prints_its_values() {
        let body = Body::from_yaml("receivers::none", "token: s3cr3t").unwrap();
        assert!(!format!("{body:?}").contains("s3cr3t"));
        let schema = SchemaGenerator::default().into_root_schema_for::<Keys>();
        assert_eq!(body.written(schema.as_value(), true)["token"], "[REDACTED]");
        assert_eq!(body.written(schema.as_value(), false)["token"], "s3cr3t");
    }
}
