//! The one runner of cases as data: every `*.json` in `tests/cases`, and in the folder that
//! `SCHEDSCOPE_CASES` names, by the file's `area` and each case's `kind`, through public API.
//!
//! A case that cannot be run has failed; so has one that panics or takes longer than [`PATIENCE`]. A scenario that
//! this machine lacks something for is listed as `not run`, which fails with CI=true.
//! To add an area: a file `area_X.rs` with `pub fn run(case: &Value) -> Result<(), String>` and a row in [`AREAS`].
#![allow(clippy::print_stdout, reason = "the report of a test binary goes to standard output")]
#![allow(clippy::self_named_module_files, reason = "the table of scenarios is looked for as scenarios.rs")]
#![allow(unreachable_pub, reason = "the areas say `pub fn run`; nothing outside this binary can reach them anyway")]

mod area_a;
mod area_b;
mod area_c;
mod area_d;
mod area_e;
mod scenarios;

#[allow(dead_code, reason = "the real tests use the rest")]
#[path = "../support/cgroup.rs"]
mod cgroup;
#[path = "../support/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Judges one case: nothing to say, or expected and got.
type Run = fn(&Value) -> Result<(), String>;

/// The areas that can be run.
const AREAS: &[(&str, Run)] =
    &[("A", area_a::run), ("B", area_b::run), ("C", area_c::run), ("D", area_d::run), ("E", area_e::run)];

/// Longer than any case may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// Cases that wait for timers of their own run beside each other; scenarios have the machine to themselves.
const WORKERS: usize = 8;

/// One case with what its file says about it.
#[derive(Clone)]
struct Case {
    area: String,
    id: String,
    file: PathBuf,
    body: Value,
}

/// What became of it.
struct Verdict {
    area: String,
    id: String,
    result: Result<(), String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = scenarios::load::as_child(&arguments) {
        return code;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders = vec![own];
    folders.extend(std::env::var_os("SCHEDSCOPE_CASES").map(PathBuf::from));
    // `cargo test --test cases -- B2 E06` runs the cases whose id or area begins with one of the words
    let words: Vec<String> = arguments.into_iter().filter(|word| !word.starts_with('-')).collect();
    std::panic::set_hook(Box::new(|_| {}));

    let mut cases = Vec::new();
    let mut verdicts = Vec::new();
    for folder in folders {
        match read_folder(&folder) {
            Ok(found) => cases.extend(found),
            Err(why) => verdicts.push(Verdict { area: "?".into(), id: folder.display().to_string(), result: Err(why) }),
        }
    }
    cases.retain(|case| {
        words.is_empty() || words.iter().any(|word| case.id.starts_with(word.as_str()) || &case.area == word)
    });
    let (mut alone, beside): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(is_scenario);
    alone.retain(|case| match scenarios::unmet(&case.body) {
        Some(why) => {
            println!("not run: {} in {}: {why}", case.id, case.file.display());
            false
        }
        None => true,
    });
    verdicts.extend(play_all(beside, WORKERS));
    verdicts.extend(play_all(alone, 1));
    report(&verdicts)
}

/// Every case of every `*.json` in a folder, in order of name.
fn read_folder(folder: &Path) -> Result<Vec<Case>, String> {
    let entries = std::fs::read_dir(folder).map_err(|why| format!("cannot list the folder: {why}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read(&file).map_err(|why| format!("{}: {why}", file.display()))?;
        let document: Value = serde_json::from_slice(&text).map_err(|why| format!("{}: {why}", file.display()))?;
        let area = document.get("area").and_then(Value::as_str).unwrap_or("?").to_owned();
        let list = document.get("cases").and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("{}: no list `cases`", file.display()))?;
        for (at, body) in list.iter().enumerate() {
            let id = body.get("id").and_then(Value::as_str).map_or_else(|| format!("#{at}"), str::to_owned);
            cases.push(Case { area: area.clone(), id, file: file.clone(), body: body.clone() });
        }
    }
    Ok(cases)
}

fn is_scenario(case: &Case) -> bool {
    case.body.get("kind").and_then(Value::as_str) == Some("scenario")
}

/// Plays the cases with that many at a time; verdicts come in the order of the cases.
fn play_all(cases: Vec<Case>, workers: usize) -> Vec<Verdict> {
    let count = cases.len();
    let queue = Arc::new(Mutex::new(cases.into_iter().enumerate()));
    let (done, verdicts) = mpsc::channel();
    for _ in 0..workers.min(count) {
        let (queue, done) = (Arc::clone(&queue), done.clone());
        std::thread::spawn(move || {
            loop {
                let next = queue.lock().ok().and_then(|mut queue| queue.next());
                let Some((at, case)) = next else { return };
                let verdict = Verdict { area: case.area.clone(), id: case.id.clone(), result: play(&case) };
                if done.send((at, verdict)).is_err() {
                    return;
                }
            }
        });
    }
    drop(done);
    let ordered: BTreeMap<usize, Verdict> = verdicts.iter().collect();
    ordered.into_values().collect()
}

/// Plays one case on a thread of its own, so that a panic or a hang is this case's failure only.
fn play(case: &Case) -> Result<(), String> {
    let run: Run = if is_scenario(case) {
        scenarios::run
    } else {
        let area = AREAS.iter().find(|(area, _)| *area == case.area);
        area.ok_or_else(|| format!("{}: no area `{}` in this runner", case.file.display(), case.area))?.1
    };
    let (done, result) = mpsc::channel();
    let body = case.body.clone();
    std::thread::spawn(move || {
        let outcome = std::panic::catch_unwind(move || run(&body));
        let outcome = outcome.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panicked: {}", text.unwrap_or_else(|| "no text".to_owned())))
        });
        // nobody listens any more where the patience ended first
        let _ = done.send(outcome);
    });
    let begin = Instant::now();
    let result = result.recv_timeout(PATIENCE);
    if is_scenario(case) {
        println!("played {} in {:.1} s", case.id, begin.elapsed().as_secs_f64());
    }
    result.unwrap_or_else(|_| Err(format!("not done after {} s", PATIENCE.as_secs())))
}

/// Prints failures, one line per area, the sum; success only where something ran and nothing failed.
fn report(verdicts: &[Verdict]) -> ExitCode {
    let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for verdict in verdicts {
        let counts = areas.entry(&verdict.area).or_default();
        match &verdict.result {
            Ok(()) => counts.0 += 1,
            Err(why) => {
                counts.1 += 1;
                println!("FAILED {}: {}", verdict.id, why.replace('\n', "\n    "));
            }
        }
    }
    for (area, (passed, failed)) in &areas {
        println!("area {area}: {passed} passed, {failed} failed");
    }
    let passed: usize = areas.values().map(|counts| counts.0).sum();
    let failed: usize = areas.values().map(|counts| counts.1).sum();
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
