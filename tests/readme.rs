//! What the README tells a user to type is accepted, and the table of dependencies is whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use schedscope::components::COMPONENTS;

const README: &str = include_str!("../README.md");

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Runs the binary in a folder; what it said where it refused.
fn schedscope(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_schedscope")).args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(out.into_owned()) } else { Err(format!("{}: {out}{err}", output.status)) }
}

#[test]
fn every_config_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let configs = blocks("yaml");
    assert!(!configs.is_empty());
    for config in configs {
        fs::write(folder.path().join("agent.yaml"), config).unwrap();
        let answer = schedscope(folder.path(), &["validate", "--config", "agent.yaml"]);
        assert_eq!(answer, Ok(String::new()), "{config}");
    }
}

#[test]
fn every_command_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("agent.yaml"), blocks("yaml")[0]).unwrap();
    let commands: Vec<&str> = blocks("sh").into_iter().flat_map(str::lines).collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip_while(|word| word.contains("=http")).collect();
        match words[..] {
            ["make", target] => {
                let dry =
                    Command::new("make").args(["-n", target]).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
                assert!(dry.status.success(), "{command}: {}", String::from_utf8_lossy(&dry.stderr));
            }
            // a run needs privileges and has no end: its config is checked the way a run checks it
            ["schedscope", "--config", file] => {
                assert_eq!(schedscope(folder.path(), &["validate", "--config", file]), Ok(String::new()), "{command}");
            }
            ["schedscope", ref arguments @ ..] => {
                let answer = schedscope(folder.path(), arguments);
                assert!(answer.is_ok(), "{command}: {answer:?}");
            }
            // what it shows is tested with a container of the test's own (tests/real)
            ["podman", "run", "--rm", "--cpus", ..] => {}
            _ => panic!("no test knows this command of the README: {command}"),
        }
    }
}

/// The defaults of a component, by `receivers::sched`.
fn defaults(kind: &str, name: &str) -> serde_json::Value {
    let mut all = COMPONENTS
        .receivers
        .iter()
        .map(|it| ("receivers", it.name, it.settings))
        .chain(COMPONENTS.processors.iter().map(|it| ("processors", it.name, it.settings)));
    let found =
        all.find(|(of, called, _)| (*of, *called) == (kind, name)).unwrap_or_else(|| panic!("no {kind}::{name}"));
    (found.2.defaults)()
}

#[test]
fn every_default_in_the_table_of_keys_is_the_default() {
    let rows = README.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(|cell| cell.trim().trim_matches('`'));
        let key = cells.next().filter(|key| key.contains("::"))?;
        Some((key, cells.next()?))
    });
    let mut checked = 0;
    for (key, default) in rows.filter(|(_, default)| !default.is_empty()) {
        let parts: Vec<&str> = key.split("::").collect();
        let defaults = defaults(parts[0], parts[1]);
        let pointer = format!("/{}", parts[2..].join("/"));
        let value = defaults.pointer(&pointer).unwrap_or_else(|| panic!("{key} is no key of {defaults}"));
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert_eq!(value, default, "{key}");
        checked += 1;
    }
    assert!(checked >= 4, "{checked} defaults found");
}

/// The list comes from the error for a metric that does not exist.
#[test]
fn every_metric_is_told_and_exists() {
    let folder = tempfile::tempdir().unwrap();
    let config = blocks("yaml")[0].replace("sched_metrics: {}", "sched_metrics: {metrics: {nosuch: {enabled: true}}}");
    fs::write(folder.path().join("agent.yaml"), config).unwrap();
    let error = schedscope(folder.path(), &["validate", "--config", "agent.yaml"]).unwrap_err();
    let list = error.split("there are ").nth(1).unwrap_or_else(|| panic!("{error}")).lines().next().unwrap();
    let known: BTreeSet<&str> = list.split(", ").collect();
    let section = README.split("## Metrics").nth(1).unwrap().split("## Spans").next().unwrap();
    let table = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let off = section.lines().find_map(|line| line.strip_prefix("Off by default")).unwrap();
    let off = off.split('`').skip(1).step_by(2).filter(|word| !word.contains("::"));
    let told: BTreeSet<&str> = table.chain(off).collect();
    assert_eq!(told, known);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.github/DEPENDENCIES.md")).unwrap();
    let mut wanted = BTreeSet::new();
    for section in manifest.split("\n[").filter(|section| section.split(']').next().unwrap().ends_with("dependencies"))
    {
        wanted.extend(
            section.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| !name.starts_with('#')),
        );
    }
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let told: BTreeSet<&str> =
        rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect();
    assert_eq!(told, wanted);
}
