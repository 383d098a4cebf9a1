//! Rust files as the layer test sees them: without comments, strings and test modules, with every path spelled out.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// One file of `src/`.
pub(crate) struct Source {
    /// From the package's root.
    pub(crate) path: String,
    /// `receivers::sched`, `main`, `lib`.
    pub(crate) module: String,
    /// A sibling `tests.rs` or `x_tests.rs`.
    pub(crate) is_test_file: bool,
    /// As written.
    pub(crate) raw: String,
    /// Without comments, strings and the trailing test module.
    pub(crate) code: String,
    /// Every path in it: `use` groups expanded, `self` and `super` resolved; own ones begin with `crate`.
    pub(crate) paths: Vec<String>,
}

/// Every file of `src/`.
pub(crate) fn all() -> &'static [Source] {
    static ALL: LazyLock<Vec<Source>> = LazyLock::new(read);
    &ALL
}

fn read() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push(Source::new(name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// The crate's own documentation, without the comment marks.
pub(crate) fn lib_doc() -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("//!")).map(|line| format!("{}\n", line.trim())).collect()
}

impl Source {
    pub(crate) fn new(path: String, raw: String) -> Self {
        let inner = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        let module = inner.replace('/', "::");
        let is_test_file = module.split("::").any(|part| part == "tests" || part.ends_with("_tests"));
        let code = without_tests(&without_comments_and_strings(&raw)).to_owned();
        let mut paths = use_paths(&code, &module);
        paths.extend(inline_paths(&code, &module));
        Self { path, module, is_test_file, raw, code, paths }
    }

    /// Modules of this crate that the file names, without the leading `crate`.
    pub(crate) fn own_imports(&self) -> impl Iterator<Item = String> + '_ {
        self.paths.iter().filter_map(|path| path.strip_prefix("crate::")).map(str::to_owned)
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.code.split(|c: char| !c.is_alphanumeric() && c != '_')
    }

    /// Lines before the trailing test module, comments and blank ones included.
    pub(crate) fn lines(&self) -> usize {
        let end = self.raw.lines().position(|line| line.trim() == "#[cfg(test)]");
        end.unwrap_or_else(|| self.raw.lines().count())
    }
}

fn without_tests(code: &str) -> &str {
    code.find("\n#[cfg(test)]").map_or(code, |at| &code[..at])
}

fn without_comments_and_strings(raw: &str) -> String {
    const PATTERN: &str = concat!(
        r"(?s)//[^\n]*|/\*.*?\*/",                   // comments
        r##"|r#"(?:.*?)"#|r"[^"]*""##,               // raw strings
        r#"|b?"(?:\\.|[^"\\])*""#,                   // strings
        r"|'(?:\\[^u]|\\u\{[0-9a-fA-F]+\}|[^'\\])'"  // characters
    );
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(PATTERN).unwrap());
    TOKEN
        .replace_all(raw, |found: &regex::Captures<'_>| if found[0].starts_with('/') { "" } else { "\"\"" })
        .into_owned()
}

fn use_paths(code: &str, module: &str) -> Vec<String> {
    static STATEMENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap());
    let mut paths = Vec::new();
    for found in STATEMENT.captures_iter(code) {
        expand(&found[1].split_whitespace().collect::<Vec<_>>().join(" "), "", &mut paths);
    }
    paths.into_iter().map(|path| absolute(&path, module)).collect()
}

/// `a::{b, c::{d, e as f}}` becomes `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let inner = group.trim_end().trim_end_matches('}');
        let inner = if group.matches('{').count() == 0 { inner } else { &group[..group.rfind('}').unwrap()] };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inner[start..at], &format!("{prefix}{}", head.trim()), paths);
                    start = at + 1;
                }
                _ => {}
            }
        }
    } else if !tree.is_empty() {
        let name = tree.split(" as ").next().unwrap_or(tree).trim();
        paths.push(format!("{prefix}{name}").trim_end_matches("::self").to_owned());
    }
}

fn inline_paths(code: &str, module: &str) -> Vec<String> {
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b[a-zA-Z_][a-zA-Z0-9_]*(?:::[a-zA-Z_][a-zA-Z0-9_]*)+").unwrap());
    PATH.find_iter(code).map(|found| absolute(found.as_str(), module)).collect()
}

/// Resolves `self`, `super` and the crate's own name against the module that says them.
fn absolute(path: &str, module: &str) -> String {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut here: Vec<&str> = module.split("::").filter(|part| !matches!(*part, "lib" | "main")).collect();
    let mut relative = false;
    while let Some(first @ ("super" | "self")) = parts.first().copied() {
        relative = true;
        if first == "super" {
            here.pop();
        }
        parts.remove(0);
    }
    if relative {
        return ["crate"].into_iter().chain(here).chain(parts).collect::<Vec<_>>().join("::");
    }
    if parts[0] == "schedscope" {
        parts[0] = "crate";
    }
    parts.join("::")
}

#[test]
fn a_source_is_read_as_rust_reads_it() {
    let text = r##"//! Pure: says `use crate::wrong`.
use crate::{config::{Body, Section as S}, model};
use super::super::pipeline::data;
fn f() -> &'static str { let _ = '"'; std::fs::read("x").ok(); "crate::also::wrong" } // crate::wrong
#[cfg(test)]
mod tests { use crate::agent; }
"##;
    let source = Source::new("src/receivers/sched/wire.rs".into(), text.into());
    assert_eq!(source.module, "receivers::sched::wire");
    assert_eq!(
        source.paths,
        [
            "crate::config::Body",
            "crate::config::Section",
            "crate::model",
            "crate::receivers::pipeline::data",
            "super::super::pipeline::data",
            "std::fs::read"
        ]
        .map(|path| absolute(path, &source.module))
        .into_iter()
        .collect::<Vec<_>>()
    );
    assert_eq!(source.lines(), 4);
}
