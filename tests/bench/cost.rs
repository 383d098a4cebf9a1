//! What the agent costs, beside an empty program and peers, in one interleaved run: ratios with their spread.
//! `make bench`; rounds by `SCHEDSCOPE_BENCH_ROUNDS` (default 15).

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod contexts;
mod footprint;
mod statistics;
mod variant;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use statistics::{Estimate, bootstrap, median};
use variant::Variant;

const VARIANTS: [Variant; 9] = [
    Variant::Nothing,
    Variant::Empty,
    Variant::MetricsOnly,
    Variant::MetricsAndSpans,
    Variant::Everything,
    Variant::Tracepoint,
    Variant::Tracefs,
    Variant::Bpftrace,
    Variant::PerfRecord,
];

/// Round trips of one measurement: two switches each.
const LOOPS: u32 = 100_000;

/// Nanoseconds per context switch of a pipe between two processes on one CPU.
fn pipe() -> Option<f64> {
    let loops = LOOPS.to_string();
    let command = ["-c", "0", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", &loops];
    let output = Command::new("taskset").args(command).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(seconds * 1e9 / f64::from(LOOPS) / 2.0)
}

fn main() {
    let rounds: usize = std::env::var("SCHEDSCOPE_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(15);
    let Ok(folder) = tempfile::tempdir() else {
        println!("no temporary folder can be made");
        return;
    };
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); VARIANTS.len()];
    let mut lacking: Vec<&str> = Vec::new();
    for round in 0..rounds {
        // a different order each round, so that drift of the machine favours nobody
        let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
        fastrand::Rng::with_seed(round as u64).shuffle(&mut order);
        for at in order {
            let running = VARIANTS[at].start(folder.path());
            match running.as_ref().and_then(|_| pipe()) {
                Some(ns) => times[at].push(ns),
                None if !lacking.contains(&VARIANTS[at].name()) => lacking.push(VARIANTS[at].name()),
                None => {}
            }
        }
        println!("round {} of {rounds}", round + 1);
    }
    let mut report = machine();
    report.push_str(&switches(&times));
    for name in lacking {
        let _ = writeln!(report, "\nnot measured here: {name}");
    }
    report.push_str(&contexts::report(folder.path(), rounds));
    report.push_str(&footprint::report(folder.path()));
    println!("\n{report}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench.md");
    let _ = std::fs::write(&file, report);
    println!("written to target/bench.md");
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("").trim_matches([' ', '\t', ':']);
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {cpus} CPUs, {model}\n\n", read("/proc/sys/kernel/osrelease").trim())
}

fn switches(times: &[Vec<f64>]) -> String {
    let rounds = times.iter().map(Vec::len).filter(|n| *n > 0).min().unwrap_or(0);
    let added = |at: usize, draw: &[usize]| {
        let differences: Vec<f64> = draw.iter().map(|k| times[at][*k] - times[0][*k]).collect();
        median(&differences)
    };
    let usable = |at: usize| times[at].len() >= rounds && rounds > 0;
    let peer = VARIANTS.iter().position(|variant| *variant == Variant::Bpftrace).filter(|at| usable(*at));
    let mut out = String::from(
        "| `perf bench sched pipe`, both ends on one CPU | added ns per switch (90 %) | x empty program (90 %) | x bpftrace runqlat (90 %) |\n|---|---|---|---|\n",
    );
    for (at, variant) in VARIANTS.iter().enumerate().skip(1).filter(|(at, _)| usable(*at)) {
        let ns = bootstrap(rounds, |draw| added(at, draw));
        let floor = bootstrap(rounds, |draw| added(at, draw) / added(1, draw));
        let ratio = peer.map(|peer| bootstrap(rounds, |draw| added(at, draw) / added(peer, draw)));
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| show(ratio, 2));
        let _ = writeln!(out, "| {} | {} | {} | {ratio} |", variant.name(), show(ns, 0), show(floor, 2));
    }
    let base = median(&times[0]);
    let _ = writeln!(
        out,
        "\n{rounds} rounds, all variants in each, in changing order; without any: {base:.0} ns a switch."
    );
    out
}

fn show(estimate: Estimate, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$} to {:.digits$})", estimate.value, estimate.low, estimate.high)
}
