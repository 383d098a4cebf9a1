//! Who had the CPU during a wait, as told on its span, against who ran there by the raw events.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::support::close;
use crate::support::span::Span;

/// Shorter waits are a few stamps' worth of error.
const WAIT_MIN_NS: u64 = 1_000_000;
/// Share of a wait for which the events say who ran, in those that are compared.
const KNOWN: f64 = 0.99;
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
pub(crate) fn agree(spans: &[Span], mut ran: Vec<Ran>) -> Result<()> {
    ran.sort_by_key(|run| (run.cpu, run.end_ns));
    let waits: Vec<Wait> =
        spans.iter().filter_map(wait).filter(|wait| wait.end_ns - wait.start_ns >= WAIT_MIN_NS).collect();
    let (mut off, mut told_ns, mut ran_ns, mut whole, mut few) = (Vec::new(), 0.0, 0.0, 0, 0);
    let mut known = 0;
    for wait in &waits {
        let length = (wait.end_ns - wait.start_ns) as f64;
        let sum: f64 = wait.culprits.iter().map(|(_, share)| share).sum();
        ensure!(sum <= 1.005, "the shares of a wait add up to {sum}");
        if wait.culprits.len() < TOLD_MAX {
            few += 1;
            whole += usize::from(sum >= 0.99);
        }
        // where a switch was shown to nobody the events do not say who ran
        if (overlap(&ran, wait, |_| true) as f64) < length * KNOWN {
            continue;
        }
        known += 1;
        for (tid, share) in wait.culprits.iter().filter(|(tid, _)| *tid != 0) {
            let by_events = overlap(&ran, wait, |of| of == *tid) as f64;
            off.push((share - by_events / length).abs());
            told_ns += share * length;
            ran_ns += by_events;
        }
    }
    off.sort_by(f64::total_cmp);
    let at = |share: f64| off.get((off.len() as f64 * share) as usize).copied().unwrap_or(1.0);
    let (middle, most) = (at(0.5), at(0.95));
    println!(
        "  {} waits, {known} of them whole in the events, {} shares of culprits: off by {middle:.4} in the middle, {most:.4} at the 95th",
        waits.len(),
        off.len()
    );
    ensure!(known > 100 && off.len() > 100, "too few to judge");
    ensure!(whole == few, "{} of {few} waits with all their culprits told do not add up to 1", few - whole);
    ensure!(middle < 0.005 && most < 0.05, "the shares are not those of the events");
    close("the culprits' time (by the events)", told_ns / 1e9, ran_ns / 1e9, 0.01, 0.002)
}

/// What these threads had of the wait's CPU in its time.
fn overlap(ran: &[Ran], wait: &Wait, is_asked: impl Fn(u64) -> bool) -> u64 {
    let first = ran.partition_point(|run| (run.cpu, run.end_ns) < (wait.cpu, wait.start_ns));
    let during = ran.iter().skip(first).take_while(|run| run.cpu == wait.cpu && run.start_ns < wait.end_ns);
    let parts = during.filter(|run| is_asked(run.tid));
    parts.map(|run| run.end_ns.min(wait.end_ns).saturating_sub(run.start_ns.max(wait.start_ns))).sum()
}

fn wait(span: &Span) -> Option<Wait> {
    if span.name != "sched.wait" {
        return None;
    }
    let list = |key: &str| span.attributes.get(key).and_then(Value::as_array);
    let tids = list("linux.sched.culprit.pid")?.iter().map(Value::as_u64);
    let shares = list("linux.sched.culprit.share")?.iter().map(Value::as_f64);
    let culprits = tids.zip(shares).map(|(tid, share)| Some((tid?, share?))).collect::<Option<_>>()?;
    let cpu = span.attributes.get("cpu.logical_number")?.as_u64()?;
    Some(Wait { cpu, start_ns: span.start_ns, end_ns: span.end_ns, culprits })
}
