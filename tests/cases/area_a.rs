//! Area A: a cgroup file, with or without mountinfo, through the `container` subcommand.

use std::path::PathBuf;

use schedscope::cli::container::{Target, run as print_attributes};
use serde_json::Value;

/// The words of the cases for our attribute names.
const SPELLINGS: [(&str, &str); 3] =
    [("runtime", "container.runtime.name"), ("qos", "k8s.pod.qos_class"), ("systemd_unit", "systemd.unit")];

/// Runs one case; the error lists every attribute that is not as expected.
pub fn run(case: &Value) -> Result<(), String> {
    let input = case.get("input").unwrap_or(case);
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let file = |name: &str, key: &str| -> Result<Option<PathBuf>, String> {
        let Some(text) = input.get(key).and_then(Value::as_str) else { return Ok(None) };
        let path = folder.path().join(name);
        std::fs::write(&path, text).map_err(|why| why.to_string())?;
        Ok(Some(path))
    };
    let cgroup = file("cgroup", "proc_cgroup")?.ok_or("the case has no proc_cgroup")?;
    let target = Target::Files { cgroup, mountinfo: file("mountinfo", "mountinfo")? };
    let printed = print_attributes(&target)?;
    let got: Value = serde_json::from_str(&printed).map_err(|why| format!("not JSON: {printed}: {why}"))?;

    let expectations = case.get("expect").and_then(Value::as_object).ok_or("the case expects nothing")?;
    let mut wrong = Vec::new();
    for (key, expected) in expectations {
        let name = SPELLINGS.iter().find(|(word, _)| word == key).map_or(key.as_str(), |(_, name)| name);
        let value = got.get(name).unwrap_or(&Value::Null);
        if key == "not" {
            // values that no attribute may have
            let found = values_of(&got).find(|value| is_listed(Some(expected), value));
            wrong.extend(found.map(|value| format!("some attribute is {value}, which is certainly wrong")));
        } else if !holds(expected, value) {
            wrong.push(format!("{name}: expected {expected}, got {value}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn holds(expected: &Value, value: &Value) -> bool {
    let Some(choice) = expected.as_object() else { return expected == value };
    let allowed = choice.get("any_of").is_none_or(|list| is_listed(Some(list), value));
    allowed && !is_listed(choice.get("not"), value)
}

fn is_listed(list: Option<&Value>, value: &Value) -> bool {
    match list {
        Some(Value::Array(list)) => list.contains(value),
        Some(single) => single == value,
        None => false,
    }
}

fn values_of(object: &Value) -> impl Iterator<Item = &Value> {
    object.as_object().into_iter().flat_map(|object| object.values())
}
