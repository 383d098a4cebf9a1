//! Area E, kind `parse`: the content of a kernel's text file to the parser that reads it.

use schedscope::host;
use serde_json::{Value, json};

/// Plays one case of this area that is no scenario.
pub fn run(case: &Value) -> Result<(), String> {
    let text = |key: &str| case.get(key).and_then(Value::as_str);
    let file = text("file").ok_or("no file")?;
    let content = text("content").ok_or("no content")?;
    let got = parse(file, content).ok_or_else(|| format!("{file} could not be read from {content:?}"))?;
    let expected = case.get("expect").and_then(Value::as_object).ok_or("no expect")?;
    for (key, want) in expected {
        let have = got.get(key).unwrap_or(&Value::Null);
        let same = match (want.as_f64(), have.as_f64()) {
            (Some(want), Some(have)) => (want - have).abs() < 1e-9,
            _ => want == have,
        };
        if !same {
            return Err(format!("{key}: expected {want}\ngot {have}, of {got}"));
        }
    }
    Ok(())
}

/// What our parser of that file makes of it, by the names that cases use.
fn parse(file: &str, content: &str) -> Option<Value> {
    let name = file.split(' ').next().unwrap_or(file);
    let last = name.rsplit('/').next().unwrap_or(name);
    Some(match last {
        "lockdown" => json!({"lockdown": host::lockdown(content)?}),
        "online" | "possible" | "present" | "offline" | "isolated" => {
            let cpus = host::CpuList::parse(content)?;
            json!({"cpus": cpus.count(), "count": cpus.count(), "max_id": cpus.highest(), "ids": cpus.iter().collect::<Vec<_>>()})
        }
        "cpu.stat" | "cpu.stat.local" => {
            let stat = host::CpuStat::parse(content);
            json!({
                "nr_periods": stat.periods,
                "nr_throttled": stat.throttled_periods,
                "throttled_seconds": stat.throttled_ns.map(seconds),
                "usage_seconds": stat.usage_ns.map(seconds),
            })
        }
        "cpu" | "pressure" | "cpu.pressure" => {
            let pressure = host::Pressure::parse(content)?;
            json!({
                "some_seconds": seconds(pressure.some_ns),
                "full_seconds": pressure.full_ns.map(seconds),
                "some_total_us": pressure.some_ns / 1000,
                "full_total_us": pressure.full_ns.map(|ns| ns / 1000),
            })
        }
        "stat" => {
            json!({"ctxt": host::context_switches(content)?, "context_switches": host::context_switches(content)?})
        }
        "schedstat" => {
            let stat = host::SchedStat::parse(content)?;
            json!({
                "run_ns": stat.run_ns,
                "run_delay_ns": stat.run_delay_ns,
                "wait_ns": stat.run_delay_ns,
                "timeslices": stat.slices,
            })
        }
        "status" => {
            let switches = host::TaskSwitches::parse(content)?;
            json!({
                "voluntary": switches.voluntary,
                "nonvoluntary": switches.involuntary,
                "involuntary": switches.involuntary,
                "voluntary_ctxt_switches": switches.voluntary,
                "nonvoluntary_ctxt_switches": switches.involuntary,
            })
        }
        "cpu.max" => {
            let quota = host::quota_v2(content)?;
            json!({"quota_us": quota.0, "period_us": quota.1, "limit_cpus": quota.0.map(|us| us as f64 / quota.1 as f64)})
        }
        _ => return None,
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
