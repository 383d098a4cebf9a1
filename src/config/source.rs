//! Where documents come from: `--config` values, `--set` pairs, variables and files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use super::node::{Entry, Node, Value};
use super::parse::{DOCUMENT_BYTES_MAX, decode_utf8, parse};
use super::problem::{Position, Problem};

/// What a config may read of the world; handed in, so that tests have a world of their own.
pub trait Environment {
    /// An environment variable, if it is set.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// The content of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
}

/// The process's own variables and files.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut bytes = Vec::new();
        // one byte more than may be, so that too large a file (or an endless one) is told
        file.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// One document, not parsed yet.
#[derive(Clone)]
pub struct Document {
    /// The name in messages.
    pub name: Arc<str>,
    /// The YAML.
    pub text: String,
}

/// A mistake that no line can be given for.
pub(super) fn plain_problem(message: impl Into<String>) -> Problem {
    Problem { position: None, path: String::new(), message: message.into() }
}

/// Splits `scheme:rest`. A scheme has at least two characters, so that it is never a drive letter.
pub(super) fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let fits = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'));
    fits.then_some((scheme, rest))
}

/// Why a scheme is refused.
pub(super) fn unknown_scheme(scheme: &str) -> String {
    match scheme {
        "http" | "https" => format!("`{scheme}:` is not supported; fetch the document and name the file"),
        _ => format!("unknown scheme `{scheme}`; there are env, file and yaml"),
    }
}

/// Reads what one `--config` names.
pub(super) fn load(uri: &str, environment: &dyn Environment) -> Result<Document, Problem> {
    match split_scheme(uri) {
        None => read_file(uri, environment),
        Some(("file", path)) => read_file(path, environment),
        Some(("yaml", text)) => Ok(Document { name: "yaml:".into(), text: text.to_owned() }),
        Some(("env", name)) => {
            let (name, default) = name.split_once(":-").unwrap_or((name, ""));
            let text = variable_text(name, environment).map_err(plain_problem)?;
            Ok(Document { name: format!("env:{name}").into(), text: text.unwrap_or_else(|| default.to_owned()) })
        }
        Some((scheme, _)) => Err(plain_problem(format!("--config {scheme}:...: {}", unknown_scheme(scheme)))),
    }
}

/// A file as text.
pub(super) fn read_file(path: &str, environment: &dyn Environment) -> Result<Document, Problem> {
    let name: Arc<str> = path.into();
    let bytes = environment.read(path).map_err(|error| plain_problem(file_trouble(path, &error)))?;
    Ok(Document { text: decode_utf8(&name, bytes)?, name })
}

fn file_trouble(path: &str, error: &io::Error) -> String {
    match error.kind() {
        _ if path.is_empty() => "a config file without a name".to_owned(),
        io::ErrorKind::NotFound => format!("{path}: no such file"),
        io::ErrorKind::IsADirectory => format!("{path}: a directory; name a file in it"),
        io::ErrorKind::PermissionDenied => format!("{path}: may not be read; check its owner and mode"),
        _ => format!("{path}: cannot be read: {error}"),
    }
}

/// A variable as text, `None` where it is not set.
pub(super) fn variable_text(name: &str, environment: &dyn Environment) -> Result<Option<String>, String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        let shown: String = name.chars().take(64).collect();
        return Err(format!(
            "`{shown}` cannot be the name of an environment variable (letters, digits and `_`, no digit first); \
             for a literal `${{` write `$${{`"
        ));
    }
    match environment.variable(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(format!("environment variable `{name}` is not UTF-8")),
    }
}

/// A `--set key=value` pair as a document of its own. Only the key is ever shown: the value may be a secret.
pub(super) fn parse_set(pair: &str) -> Result<Node, Problem> {
    let Some((key, value)) = pair.split_once('=') else {
        let shown: String = pair.chars().take(64).collect();
        return Err(plain_problem(format!("--set {shown}: no `=`; write --set key=value")));
    };
    let key = key.trim().replace('.', "::");
    if key.split("::").any(str::is_empty) {
        return Err(plain_problem(format!("--set {key}: a part of the key is empty")));
    }
    let name: Arc<str> = format!("--set {key}").into();
    let value = parse(&name, value.trim())?;
    let at = Position { file: name, line: 1, column: 1 };
    Ok(Node::new(at.clone(), Value::Map(vec![Entry { key, at, value }])))
}
