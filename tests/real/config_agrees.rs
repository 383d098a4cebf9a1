//! The agent and a real Collector read the same documents and print what they amount to, defaults included. What
//! both print, and whatever a document says, must be the same; what differs stands in one table, each row of which
//! must be needed. Keys that one of them has alone (the Collector also leaves out what is zero) are not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use schedscope::config::Period;
use serde_json::Value;

use crate::needs::part;

/// What differs: a path with `*` for one step, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("service::telemetry::metrics::level", "the Collector prints it with a capital"),
    ("exporters::*::verbosity", "the Collector prints it with a capital, and `basic`, its zero, not at all"),
    ("exporters::*::sending_queue::sizer", "the Collector does not print `items`, its zero"),
    ("exporters::*::sending_queue::enabled", "the Collector prints nothing of a queue that is off"),
];

/// The variables that the documents name.
const VARIABLES: &[(&str, &str)] = &[
    ("HOST", "localhost"),
    ("PORT", "4317"),
    ("PERIOD", "7s"),
    ("YES", "true"),
    ("NUMBER", "0x20"),
    ("ZEROS", "00123"),
    ("OTLP", "{protocols: {grpc: {endpoint: 'localhost:4317'}, http: }}"),
    ("RECEIVERS", "[otlp]"),
];

/// What a document amounts to: path and value, without what is empty.
type Flat = BTreeMap<String, String>;

pub(crate) fn on_what_documents_amount_to() -> Result<()> {
    let collector = part("collector").map_err(anyhow::Error::msg)?;
    let documents = documents()?;
    ensure!(documents.len() >= 20, "{} documents only", documents.len());
    let mut used = BTreeSet::new();
    let mut unexplained = Vec::new();
    for (name, files) in &documents {
        let sets = sets(&files[0])?;
        let print = |program: &str, more: &[&str]| {
            let mut command = Command::new(program);
            command.args(["print-config", "--mode=unredacted"]).args(more);
            printed(&mut command, files, &sets).with_context(|| format!("{name}: {program}"))
        };
        let agent = env!("CARGO_BIN_EXE_schedscope");
        let (theirs, ours, written) = (print(&collector, &[])?, print(agent, &["--defaults"])?, print(agent, &[])?);
        let both = ours.keys().filter(|path| theirs.contains_key(*path));
        let paths: BTreeSet<&String> = both.chain(written.keys()).collect();
        for path in paths.into_iter().filter(|path| theirs.get(*path) != ours.get(*path)) {
            match DIFFERENCES.iter().position(|(pattern, _)| matches(pattern, path)) {
                Some(row) => drop(used.insert(row)),
                None => {
                    let shown =
                        |side: &Flat| side.get(path).map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"));
                    unexplained.push(format!("{name}: {path}: {} there, {} here", shown(&theirs), shown(&ours)));
                }
            }
        }
    }
    ensure!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let rows = DIFFERENCES.iter().enumerate();
    let unneeded: Vec<_> = rows.filter(|(row, _)| !used.contains(row)).map(|(_, (pattern, _))| pattern).collect();
    ensure!(unneeded.is_empty(), "rows of the table that nothing needs: {unneeded:?}");
    println!("  {} documents, {} rows of differences", documents.len(), DIFFERENCES.len());
    Ok(())
}

/// The documents by name; `NAME.1.yaml` and `NAME.2.yaml` are laid over each other.
fn documents() -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/documents"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        let name = name.split('.').next().unwrap_or_default().to_owned();
        found.entry(name).or_default().push(path);
    }
    found.values_mut().for_each(|files| files.sort());
    Ok(found)
}

/// What its comments ask for by `--set`.
fn sets(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file)?;
    Ok(text.lines().filter_map(|line| line.strip_prefix("# --set ")).map(str::to_owned).collect())
}

fn printed(command: &mut Command, files: &[PathBuf], sets: &[String]) -> Result<Flat> {
    for file in files {
        command.arg("--config").arg(file);
    }
    for set in sets {
        command.arg("--set").arg(set);
    }
    let output = command.envs(VARIABLES.iter().copied()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut flat = Flat::new();
    flatten("", &serde_yaml::from_slice(&output.stdout)?, &mut flat);
    Ok(flat)
}

/// Null, `""`, `{}` and `[]` are nothing; durations and numbers are compared in one notation, headers as a map.
fn flatten(path: &str, value: &Value, into: &mut Flat) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}::{key}") };
    match value {
        Value::Null => {}
        Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, into)),
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                match (value["name"].as_str(), value.get("value")) {
                    (Some(name), Some(value)) => flatten(&below(name), value, into),
                    _ => flatten(&below(&at.to_string()), value, into),
                }
            }
        }
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => {
            let period = text.parse::<Period>().ok().filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic()));
            into.insert(path.to_owned(), period.map_or_else(|| text.clone(), |period| period.to_string()));
        }
        other => {
            let text = other.as_f64().map_or_else(|| other.to_string(), |number| number.to_string());
            into.insert(path.to_owned(), text);
        }
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split("::").collect(), path.split("::").collect());
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(step, found)| *step == "*" || *step == found)
}
