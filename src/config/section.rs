//! The part of a config that belongs to one component: its untyped, positioned form and its typed one.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::{Problem, Problems};

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
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// Joined by `::`, such as `receivers::sched`.
    pub path: String,
    /// The value; null means all defaults.
    pub value: serde_yaml::Value,
}

impl Body {
    /// A body from YAML text as it would stand at `path`, references not expanded.
    pub fn from_yaml(path: impl Into<String>, text: &str) -> Result<Self, Problems> {
        let path = path.into();
        match serde_yaml::from_str(text) {
            Ok(value) => Ok(Self { path, value }),
            Err(error) => Err(Problems(vec![Problem { position: None, path, message: error.to_string() }])),
        }
    }

    /// The typed settings, or every mistake in them.
    pub fn decode<T: Section>(&self) -> Result<T, Problems> {
        let mut problems = Problems::default();
        let settings: T = if self.value.is_null() {
            T::default()
        } else {
            match serde_yaml::from_value(self.value.clone()) {
                Ok(settings) => settings,
                Err(error) => {
                    problems.push(Problem { position: None, path: self.path.clone(), message: error.to_string() });
                    return Err(problems);
                }
            }
        };
        settings.validate(&mut Checker { body: self, problems: &mut problems });
        problems.or(settings)
    }
}

/// Collects what a [`Section::validate`] finds, at the place of the key it names.
pub struct Checker<'a> {
    body: &'a Body,
    problems: &'a mut Problems,
}

impl Checker<'_> {
    /// A mistake at `key`, which is relative to the section and joined by `::` (empty: the section itself).
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let path = if key.is_empty() { self.body.path.clone() } else { format!("{}::{key}", self.body.path) };
        self.problems.push(Problem { position: None, path, message: message.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_from_text_decodes() {
        let body = Body::from_yaml("receivers::none", "").unwrap();
        assert_eq!(body.decode::<NoSettings>().unwrap(), NoSettings {});
        assert!(Body::from_yaml("receivers::none", "{a: 1}").unwrap().decode::<NoSettings>().is_err());
        assert!(Body::from_yaml("receivers::none", "{a: ").is_err());
    }
}
