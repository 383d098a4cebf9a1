//! What it costs to read the context that a thread publishes, at each of its switches, and what the reading costs those
//! that publish none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::statistics::{bootstrap, median};
use crate::variant::{Running, agent, spans_with};

const LOOPS: &str = "100000";
/// Spans of every kind are on in each; nothing is chosen, so that no record is made.
const SELECT: &str =
    "{select: {wait: 1h, throttle: 1h, block: 1h, sampled_context: false, foreign_preemption: false, sample_ratio: 0}}";

/// What runs, and whether the two threads publish.
const ROWS: [(&str, Option<&str>, bool); 4] = [
    ("no agent", None, false),
    ("contexts not read (`attach: []`)", Some("{attach: []}"), false),
    ("contexts read, this process publishes none", Some("{}"), false),
    ("contexts read, at each of its switches", Some("{}"), true),
];

/// The table; the reason where it cannot be made.
pub(crate) fn report(folder: &Path, rounds: usize) -> String {
    let Some(program) = build(folder) else { return "\nnot measured here: contexts (no C compiler)\n".to_owned() };
    let mut times = vec![Vec::new(); ROWS.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..ROWS.len()).collect();
        fastrand::Rng::with_seed(round as u64).shuffle(&mut order);
        for at in order {
            let (_, sched_spans, publishes) = ROWS[at];
            let running = match sched_spans {
                None => Some(Running::Nothing),
                Some(settings) => agent(folder, "contexts", &spans_with(SELECT, settings)),
            };
            times[at].extend(running.and_then(|_running| switch(&program, publishes)));
        }
    }
    let rounds = times.iter().map(Vec::len).min().unwrap_or(0);
    let mut out = String::from(
        "\n| two threads of a process on one CPU | ns a switch | more than without reading (90 %) |\n|---|---|---|\n",
    );
    if rounds == 0 {
        return "\nnot measured here: contexts\n".to_owned();
    }
    for (at, (name, ..)) in ROWS.iter().enumerate() {
        let more = bootstrap(rounds, |draw| {
            let differences: Vec<f64> = draw.iter().map(|k| times[at][*k] - times[1][*k]).collect();
            median(&differences)
        });
        let _ = writeln!(out, "| {name} | {:.0} | {} |", median(&times[at]), crate::show(more, 0));
    }
    out
}

fn build(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("pipe");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/pipe.c");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-rdynamic"]).arg(source).arg("-o").arg(&program).arg("-lpthread");
    compile.status().ok()?.success().then_some(program)
}

fn switch(program: &Path, publishes: bool) -> Option<f64> {
    let output = Command::new(program).arg(LOOPS).args(publishes.then_some("publish")).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
