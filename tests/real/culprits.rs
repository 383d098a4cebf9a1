//! Who had the CPU during a wait, as told on its span, against who ran there by the raw events.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::support::close;

/// Shorter waits are a few stamps' worth of error.
const WAIT_MIN_NS: u64 = 1_000_000;
/// Culprits that a span tells.
const TOLD_MAX: usize = 3;

/// A stay on a CPU, by the raw events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) cpu: u64,
    pub(crate) tid: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A wait as it was told.
struct Wait {
    cpu: u64,
    start_ns: u64,
    end_ns: u64,
    /// Thread, 0 for none, and its share.
    culprits: Vec<(u64, f64)>,
}

/// Holds every told share of a wait against the events.
pub(crate) fn agree(spans: &[&Value], mut ran: Vec<Ran>) -> Result<()> {
    ran.sort_by_key(|run| (run.cpu, run.end_ns));
    let waits: Vec<Wait> =
        spans.iter().filter_map(|span| wait(span)).filter(|wait| wait.end_ns - wait.start_ns >= WAIT_MIN_NS).collect();
    let (mut off, mut told_ns, mut ran_ns, mut whole, mut few) = (Vec::new(), 0.0, 0.0, 0, 0);
    for wait in &waits {
        let length = (wait.end_ns - wait.start_ns) as f64;
        let sum: f64 = wait.culprits.iter().map(|(_, share)| share).sum();
        ensure!(sum <= 1.005, "the shares of a wait add up to {sum}");
        if wait.culprits.len() < TOLD_MAX {
            few += 1;
            whole += usize::from(sum >= 0.99);
        }
        for (tid, share) in wait.culprits.iter().filter(|(tid, _)| *tid != 0) {
            let by_events = overlap(&ran, wait, *tid) as f64;
            off.push((share - by_events / length).abs());
            told_ns += share * length;
            ran_ns += by_events;
        }
    }
    off.sort_by(f64::total_cmp);
    let at = |share: f64| off.get((off.len() as f64 * share) as usize).copied().unwrap_or(1.0);
    let (middle, most) = (at(0.5), at(0.95));
    println!(
        "  {} waits, {} shares of culprits: off by {middle:.4} in the middle, {most:.4} at the 95th",
        waits.len(),
        off.len()
    );
    ensure!(waits.len() > 100 && off.len() > 100, "too few to judge");
    ensure!(whole == few, "{} of {few} waits with all their culprits told do not add up to 1", few - whole);
    ensure!(middle < 0.005 && most < 0.05, "the shares are not those of the events");
    close("the culprits' time (by the events)", told_ns / 1e9, ran_ns / 1e9, 0.02, 0.002)
}

/// What a thread had of the wait's CPU in its time.
fn overlap(ran: &[Ran], wait: &Wait, tid: u64) -> u64 {
    let first = ran.partition_point(|run| (run.cpu, run.end_ns) < (wait.cpu, wait.start_ns));
    let during = ran.iter().skip(first).take_while(|run| run.cpu == wait.cpu && run.start_ns < wait.end_ns);
    let parts = during.filter(|run| run.tid == tid);
    parts.map(|run| run.end_ns.min(wait.end_ns).saturating_sub(run.start_ns.max(wait.start_ns))).sum()
}

fn wait(span: &Value) -> Option<Wait> {
    let value = |key: &str| {
        let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
        found["value"].as_object()?.values().next().cloned()
    };
    let numbers = |key: &str| -> Option<Vec<f64>> {
        let list = value(key)?;
        let all = list["values"].as_array()?.iter().map(|value| {
            let value = value.as_object()?.values().next()?;
            value.as_f64().or_else(|| value.as_str()?.parse().ok())
        });
        all.collect()
    };
    let time = |key: &str| span[key].as_str()?.parse::<u64>().ok();
    if span["name"] != "sched.wait" {
        return None;
    }
    let cpu = value("cpu.logical_number")?.as_str()?.parse().ok()?;
    let (tids, shares) = (numbers("linux.sched.culprit.pid")?, numbers("linux.sched.culprit.share")?);
    let culprits = tids.into_iter().map(|tid| tid as u64).zip(shares).collect();
    Some(Wait { cpu, start_ns: time("startTimeUnixNano")?, end_ns: time("endTimeUnixNano")?, culprits })
}
