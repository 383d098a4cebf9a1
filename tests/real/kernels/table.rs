//! What the kernels showed, as a line each and as the README's table.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

/// What one kernel showed.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) report: Value,
}

/// The largest deviation of the rows that begin so, in percent of the kernel's.
fn worst(report: &Value, begins: &str) -> String {
    let rows = report["verify"].as_array().cloned().unwrap_or_default();
    let off = |row: &Value| {
        let (ours, kernel) = (row["outcome"]["ours"].as_f64()?, row["outcome"]["kernel"].as_f64()?);
        let is_it = row["what"].as_str().is_some_and(|what| what.starts_with(begins));
        is_it.then(|| if ours == kernel { 0.0 } else { (ours - kernel).abs() / kernel.abs().max(1e-9) * 100.0 })
    };
    let worst = rows.iter().filter_map(off).fold(None, |worst: Option<f64>, off| Some(worst.unwrap_or(0.0).max(off)));
    worst.map_or_else(|| "n/a".to_owned(), |worst| if worst == 0.0 { "0".to_owned() } else { format!("{worst:.3} %") })
}

const COLUMNS: [(&str, &str); 6] = [
    ("running", "running (the"),
    ("waiting + throttled", "waiting"),
    ("throttled", "throttled (cpu.stat)"),
    ("voluntary", "voluntary"),
    ("involuntary", "involuntary"),
    ("all switches", "all switches"),
];

pub(super) fn summary(report: &Value) -> String {
    COLUMNS.map(|(name, begins)| format!("{name} off by {}", worst(report, begins))).join(", ")
}

pub(super) fn row(seen: &Seen) -> String {
    let found = |about: &str| {
        let findings = seen.report["findings"].as_array().cloned().unwrap_or_default();
        let found = findings.iter().find(|finding| finding["about"] == about);
        found.and_then(|found| found["found"].as_str()).unwrap_or("n/a").to_owned()
    };
    let programs = found("programs");
    let backend = ["tracefs", "tracepoint"].into_iter().find(|name| programs.contains(&format!("{name} backend")));
    let backend = backend.unwrap_or("tp_btf");
    let source = found("throttled time");
    let source = source.rsplit_once("(source ").map_or("none", |(_, word)| word.trim_end_matches(')'));
    let cells = COLUMNS.map(|(_, begins)| worst(&seen.report, begins)).join(" | ");
    format!("| {} | {backend} | {source} | {cells} |", seen.name)
}

/// Writes the README's table, between its marks.
pub(super) fn write(rows: &[String]) -> Result<()> {
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let rule = "---|".repeat(COLUMNS.len() + 3);
    let text = format!("| kernel | backend | throttled from | {names} |\n|{rule}\n{}\n", rows.join("\n"));
    println!("{text}");
    if std::env::var_os("UPDATE").is_none() {
        return Ok(());
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = fs::read_to_string(path)?;
    let (before, rest) = readme.split_once("<!-- kernels: written by `make test-kernels` -->\n").context("no mark")?;
    let (_, after) = rest.split_once("<!-- end -->").context("no end mark")?;
    let mark = "<!-- kernels: written by `make test-kernels` -->";
    Ok(fs::write(path, format!("{before}{mark}\n\n{text}\n<!-- end -->{after}"))?)
}
