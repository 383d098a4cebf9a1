//! `components --schema`, read by a validator that is not ours: every config that is shipped fits it, and common
//! mistakes do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

/// Prints a line for each document of a map that does not fit the schema.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema, documents = json.load(sys.stdin)
Validator.check_schema(schema)
validator = Validator(schema)
for name, document in documents.items():
    for error in validator.iter_errors(document):
        print(name, '/'.join(map(str, error.absolute_path)), error.message[:200])
        break
";

/// A mistake each, laid over the embedded default.
const MISTAKES: &[(&str, &str)] = &[
    ("unknown component", "receivers: {shced: {}}"),
    ("unknown key", "receivers: {sched: {collection_intervall: 10s}}"),
    ("duration without a unit", "receivers: {sched: {collection_interval: 10}}"),
    ("wrong word", "processors: {sched_metrics: {histogram: exponental}}"),
    ("text for a number", "exporters: {otlp_grpc: {sending_queue: {num_consumers: many}}}"),
    ("unknown unit", "exporters: {otlp_grpc: {sending_queue: {queue_size: 64 parsecs}}}"),
    ("unknown section", "reciever: {}"),
    ("unknown signal", "service: {pipelines: {trace: {receivers: [sched]}}}"),
];

pub(crate) fn fits_the_shipped_configs_and_no_mistakes() -> Result<()> {
    let mut documents = Map::new();
    for folder in ["config", "examples", "tests/data/config/valid", "tests/real/documents"] {
        // `many_ways.yaml` holds every other way in which a value may be written; an editor offers the usual one
        // and Collectors and the agent with an exporter of its own have components that this one has not
        let others = ["many_ways.yaml", "collector.yaml", "custom_exporter/agent.yaml"];
        let usual = |path: &PathBuf| !others.iter().any(|other| path.ends_with(other));
        for path in yaml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))?.into_iter().filter(usual) {
            // a number only to readers of YAML 1.1, as the agent and the Collector are
            let text = fs::read_to_string(&path)?.replace("1_000", "1000").replace("0640", "416");
            // deployment manifests lie among the configs
            let document: Option<Value> = serde_yaml::from_str(&text).ok();
            if let Some(document) = document.filter(|document| document.get("service").is_some()) {
                documents.insert(path.display().to_string(), document);
            }
        }
    }
    ensure!(documents.len() > 20, "{} documents only", documents.len());
    let told = told(&documents)?;
    ensure!(told.is_empty(), "the schema refuses what is shipped:\n{told}");
    println!("  {} documents fit", documents.len());

    let mistakes: serde_yaml::Result<Map<String, Value>> =
        MISTAKES.iter().map(|(name, text)| Ok(((*name).to_owned(), serde_yaml::from_str(text)?))).collect();
    let told = self::told(&mistakes?)?;
    for (name, text) in MISTAKES {
        ensure!(told.lines().any(|line| line.starts_with(name)), "{name}: `{text}` fits the schema; told:\n{told}");
    }
    Ok(())
}

/// What the validator says of these documents.
fn told(documents: &Map<String, Value>) -> Result<String> {
    let schema = Command::new(env!("CARGO_BIN_EXE_schedscope")).args(["components", "--schema"]).output()?;
    let schema: Value = serde_json::from_slice(&schema.stdout)?;
    let mut validator =
        Command::new("/usr/bin/python3").args(["-c", VALIDATE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = validator.stdin.take().context("no standard input")?;
    serde_json::to_writer(input, &(schema, documents))?;
    let output = validator.wait_with_output()?;
    ensure!(output.status.success(), "the validator failed");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(yaml_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(files)
}
