//! `examples/demo`, as a person runs it: what it prints says why each request was slow, and the exemplars that the
//! Collector got lead to those requests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::attached::service;
use crate::needs::part;
use crate::program::free_address;
use crate::support::folder;

/// A line of its table: trace id, ms by column, who had the CPU.
struct Row<'a> {
    trace: &'a str,
    waited: f64,
    throttled: f64,
    culprit: &'a str,
}

pub(crate) fn says_why_requests_are_slow() -> Result<()> {
    let folder = folder()?;
    let metrics = folder.path().join("metrics.json");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/demo/run");
    let mut command = Command::new(script);
    command.arg(env!("CARGO_BIN_EXE_schedscope")).arg(service()?);
    for name in ["collector", "jaeger"] {
        command.arg(part(name).map_err(anyhow::Error::msg)?);
    }
    command.arg("1").env("METRICS_FILE", &metrics).stdin(Stdio::null());
    for name in [
        "COLLECTOR_PORT",
        "OTLP_GRPC_PORT",
        "OTLP_HTTP_PORT",
        "QUERY_PORT",
        "QUERY_GRPC_PORT",
        "HEALTH_PORT",
        "SERVICE_PORT",
    ] {
        command.env(name, free_address()?.port().to_string());
    }
    let output = command.output()?;
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}: {text}{error}", output.status);
    let rows: Vec<Row<'_>> = text.lines().filter_map(row).collect();
    let slow = || format!("{text}{error}");
    ensure!(rows.len() == 10, "{} requests\n{}", rows.len(), slow());
    let (quota, neighbour) = rows.split_at(5);
    let throttled = quota.iter().filter(|row| row.throttled > 50.0).count();
    let waited = neighbour.iter().filter(|row| row.waited > 20.0 && row.culprit == "batch").count();
    println!("  {throttled} of 5 throttled by their quota, {waited} of 5 waited for `batch`");
    ensure!(throttled >= 4, "{}", slow());
    ensure!(waited >= 4 && neighbour.iter().all(|row| row.throttled < 1.0), "{}", slow());

    let traces: BTreeSet<&str> = rows.iter().map(|row| row.trace).collect();
    for name in ["linux.sched.wait.duration", "linux.sched.throttle.duration"] {
        let exemplars = exemplars(&metrics, name)?;
        let open = exemplars.iter().filter(|id| traces.contains(id.as_str())).count();
        println!("  {open} of {} exemplars of {name} open one of these requests", exemplars.len());
        ensure!(open > 0, "{exemplars:?} of {name} open none of {traces:?}");
    }
    ensure!(left().is_empty(), "cgroups are left: {:?}", left());
    Ok(())
}

fn row(line: &str) -> Option<Row<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [trace, _, _, waited, throttled, _, culprit] = words[..] else { return None };
    Some(Row { trace, waited: waited.parse().ok()?, throttled: throttled.parse().ok()?, culprit })
}

/// Trace ids of the exemplars of a histogram, in the Collector's file.
fn exemplars(metrics: &Path, name: &str) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(metrics).context("no metrics")?;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let all: Value = serde_json::from_str(line)?;
        let of = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        let scopes = of(&all, "resourceMetrics").into_iter().flat_map(|resource| of(&resource, "scopeMetrics"));
        let metrics = scopes.flat_map(|scope| of(&scope, "metrics")).filter(|metric| metric["name"] == name);
        let points = metrics.flat_map(|metric| of(&metric["histogram"], "dataPoints"));
        let ids = points.flat_map(|point| of(&point, "exemplars"));
        found.extend(ids.filter_map(|exemplar| Some(exemplar["traceId"].as_str()?.to_owned())));
    }
    Ok(found)
}

/// What the demo made and did not remove.
fn left() -> Vec<PathBuf> {
    let mounts = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
    let cgroups = mounts.iter().flat_map(|mount| ["shop", "batch"].map(|name| format!("{mount}/lxc.payload.{name}")));
    cgroups.map(PathBuf::from).filter(|path| path.exists()).collect()
}
