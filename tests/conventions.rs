//! `config/semantic-conventions.md` has what is emitted, no more and no less: held against the README's table of metrics
//! (itself held against the code) and against the names that the sources write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TEXT: &str = include_str!("../config/semantic-conventions.md");
const README: &str = include_str!("../README.md");

/// First two cells of the rows of a section's tables that begin with a name in code.
fn rows(text: &'static str, section: &str) -> BTreeMap<&'static str, &'static str> {
    let section = text.split(&format!("\n## {section}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name, rest.split(" |").next()?))
    });
    rows.collect()
}

#[test]
fn metrics_are_those_of_the_readme() {
    let (own, readme) = (rows(TEXT, "Metrics"), rows(README, "Metrics"));
    for (name, kind) in &readme {
        assert_eq!(own.get(name), Some(kind), "{name}");
    }
    let off = README.lines().find_map(|line| line.strip_prefix("Off by default")).unwrap();
    let more: BTreeSet<&str> = own.keys().copied().filter(|name| !readme.contains_key(name)).collect();
    let off = off.split('`').skip(1).step_by(2).filter(|word| !word.contains("::"));
    assert_eq!(more, off.collect());
}

#[test]
fn attributes_are_those_that_the_sources_write() {
    let metrics = rows(TEXT, "Metrics");
    let told: BTreeSet<String> = rows(TEXT, "Attributes").into_keys().map(str::to_owned).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut written = BTreeSet::new();
    for file in files(&root.join("processors")).into_iter().chain(files(&root.join("pipeline"))) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let names = code.split('"').skip(1).step_by(2);
        let ours = |name: &&str| name.starts_with("linux.") && name.matches('.').count() > 1;
        // a name that is a metric's as well is an attribute by the other table
        written.extend(names.filter(ours).filter(|name| !metrics.contains_key(name)).map(str::to_owned));
    }
    let both = told.iter().filter(|name| metrics.contains_key(name.as_str())).cloned();
    written.extend(both);
    assert_eq!(told, written);
}

/// Sources without tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.file_name().unwrap().to_str().unwrap().contains("tests") {
            found.push(path);
        }
    }
    found
}
