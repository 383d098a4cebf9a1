//! One real run told twice: by the BPF program, and as raw events of tracefs by the reference machine. Cycle by
//! cycle both must have seen the same.
//!
//! A switch that this host shows to one of them only (or to none) has no partner; there may be few of these.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use schedscope::record::{Chunk, Input};
use schedscope::timeline::{Limits, Machine};
use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::culprits::{self, Ran};
use crate::program::{Program, eventually};
use crate::recording::{instances, mount_tracefs};
use crate::support::agent::Agent;
use crate::support::collector::spans_in;
use crate::support::span::Span;
use crate::support::{close, folder};

/// Two stamps of one switch: the run queue's clock, and the tracer's some microseconds later, in text of whole ones.
const STAMPS_NS: u64 = 500_000;
/// How far the middle one of all lengths may be off, ns.
const TYPICAL_NS: u64 = 50_000;
/// Cycles of all that may have no partner,
const ALONE: f64 = 0.01;
/// and for each place where the machine found that a switch was shown to nobody: the runs on both of its sides.
const ALONE_AT_GAP: f64 = 2.0;
/// What runs: two that compete, one that sleeps between, one whose children are short.
const LOAD: [&str; 4] = [
    "exec taskset -c 0 sh -c 'while :; do :; done'",
    "exec taskset -c 0 sh -c 'while :; do :; done'",
    "exec taskset -c 0 python3 -c 'import time\nwhile 1: time.sleep(0.003)'",
    "while :; do sleep 0.01; done",
];

/// A run and the wait before it, by wall time.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    end_ns: u64,
    run_ns: u64,
    /// With what was throttled; `None`: not known.
    wait_ns: Option<u64>,
    involuntary: bool,
}

type Threads = HashMap<u32, Vec<Cycle>>;

pub(crate) fn both_tell_the_same() -> Result<()> {
    mount_tracefs()?;
    let folder = folder()?;
    let (spans, events) = (folder.path().join("spans"), folder.path().join("events"));
    let mut agent = Agent::start(folder.path(), &config(&spans))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedscope"));
    command.arg("record").arg("-o").arg(&events);
    let mut record = Program::start("record", &mut command, folder.path())?;
    eventually("the recording's first block", Duration::from_secs(20), || {
        record.is_alive()?;
        Ok(fs::metadata(&events).ok().filter(|file| file.len() > 10).map(drop))
    })?;
    let wall = wall_minus_boot();
    let mut cgroup = Cgroup::make("schedscope-differential.service")?;
    for script in LOAD {
        cgroup.run(script)?;
    }
    std::thread::sleep(Duration::from_secs(4));
    drop(cgroup);
    let drift = wall_minus_boot().abs_diff(wall);
    ensure!(record.stop(Signal::INT)?.success(), "{}", record.output());
    ensure!(instances()?.is_empty(), "the trace instance is still there");
    std::thread::sleep(Duration::from_millis(1500));
    ensure!(agent.stop()?.success(), "{}", agent.output());
    println!("  {}; the wall clock went {drift} ns its own way", record.output().trim());
    let of_group =
        |span: &Span| span.resource.values().any(|value| value.to_string().contains("schedscope-differential"));
    let spans: Vec<Span> = spans_in(&spans)?.into_iter().filter(of_group).collect();
    let (machine, ran, gaps) = of_events(&events, wall)?;
    compare(&of_spans(&spans), &machine, drift, gaps)?;
    culprits::agree(&spans, ran)
}

fn config(spans: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{preset: everything, rate_per_cgroup: 0, rate_total: 0}}}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_spans: {{window: 1s, max_spans_per_trace: 100000}}}}
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}}}
",
        spans.display()
    )
}

fn wall_minus_boot() -> u64 {
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    ns(ClockId::Realtime) - ns(ClockId::Boottime)
}

/// The reference: raw events through the machine.
fn of_events(path: &Path, wall: u64) -> Result<(Threads, Vec<Ran>, u64)> {
    let mut input = Input::open(Box::new(File::open(path)?)).context("the recording")?;
    let (mut machine, mut cycles) = (Machine::new(Limits::default()), Vec::new());
    while input.next(&mut |chunk| {
        if let Chunk::Record(record) = chunk {
            machine.on(&record, &mut cycles);
        }
    }) {}
    let (mut threads, mut ran) = (Threads::new(), Vec::new());
    for cycle in cycles {
        let (end_ns, run_ns, wait_ns) = (cycle.end.0 + wall, cycle.run_ns, cycle.wait_ns);
        let found = Cycle { end_ns, run_ns, wait_ns, involuntary: cycle.run_end.involuntary() };
        threads.entry(cycle.task.tid).or_default().push(found);
        let (cpu, tid) = (u64::from(cycle.cpu), u64::from(cycle.task.tid));
        ran.push(Ran { cpu, tid, start_ns: end_ns - run_ns, end_ns });
    }
    println!("  the machine: {:?}", machine.discards());
    Ok((threads, ran, machine.discards().gaps))
}

/// The program: what the agent exported of the cgroup's threads.
fn of_spans(exported: &[Span]) -> Threads {
    let mut spans: BTreeMap<(u32, u64), &Span> = BTreeMap::new();
    for span in exported.iter().filter(|span| !span.name.starts_with("sched.thread")) {
        let tid = span.attributes.get("thread.id").and_then(Value::as_u64);
        let Some(tid) = tid.and_then(|tid| u32::try_from(tid).ok()) else { continue };
        // at one moment a thread may begin several, all but one of no length
        if span.end_ns > span.start_ns {
            spans.insert((tid, span.start_ns), span);
        }
    }
    let mut threads = Threads::new();
    let mut wait: Option<(u32, u64, u64)> = None;
    for ((tid, start), span) in spans {
        let end = span.end_ns;
        let before = wait.filter(|(whose, until, _)| *whose == tid && *until == start).map_or(0, |(_, _, ns)| ns);
        wait = None;
        match span.name.as_str() {
            "sched.wait" | "sched.throttle" => wait = Some((tid, end, before + (end - start))),
            "sched.run" => threads.entry(tid).or_default().push(Cycle {
                end_ns: end,
                run_ns: end - start,
                wait_ns: Some(before),
                involuntary: span.attributes.get("linux.sched.run.end").is_some_and(|ended| {
                    ["preempted", "throttled", "yielded"].iter().any(|involuntary| ended == involuntary)
                }),
            }),
            _ => {}
        }
    }
    threads
}

/// What came of all pairs.
#[derive(Debug, Default)]
struct Tally {
    pairs: usize,
    /// Cycles of the program, and of the machine, that the other has not.
    alone: [usize; 2],
    other_end: usize,
    run_off: Vec<u64>,
    wait_off: Vec<u64>,
    run: [u64; 2],
    wait: [u64; 2],
}

impl Tally {
    fn pair(&mut self, program: Cycle, machine: Cycle) {
        self.pairs += 1;
        self.other_end += usize::from(program.involuntary != machine.involuntary);
        self.run_off.push(program.run_ns.abs_diff(machine.run_ns));
        self.run = [self.run[0] + program.run_ns, self.run[1] + machine.run_ns];
        if let (Some(ours), Some(theirs)) = (program.wait_ns, machine.wait_ns) {
            self.wait_off.push(ours.abs_diff(theirs));
            self.wait = [self.wait[0] + ours, self.wait[1] + theirs];
        }
    }

    /// Both in the order of their ends.
    fn thread(&mut self, program: &[Cycle], machine: &[Cycle], slack: u64) {
        let (mut ours, mut theirs) = (program.iter().peekable(), machine.iter().peekable());
        while let (Some(left), Some(right)) = (ours.peek(), theirs.peek()) {
            if left.end_ns.abs_diff(right.end_ns) <= slack {
                self.pair(**left, **right);
                ours.next();
                theirs.next();
            } else if left.end_ns < right.end_ns {
                self.alone[0] += 1;
                ours.next();
            } else {
                self.alone[1] += 1;
                theirs.next();
            }
        }
        self.alone[0] += ours.count();
        self.alone[1] += theirs.count();
    }
}

/// The value below which this share of all lie.
fn quantile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    values.get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn compare(program: &Threads, machine: &Threads, drift: u64, gaps: u64) -> Result<()> {
    let mut tally = Tally::default();
    let slack = STAMPS_NS + drift;
    for (tid, ours) in program {
        let first = ours.iter().map(|cycle| cycle.end_ns).min().unwrap_or(0);
        // before its move into the cgroup a thread was another's
        let theirs: Vec<Cycle> = machine.get(tid).into_iter().flatten().copied().collect();
        let theirs: Vec<Cycle> = theirs.into_iter().filter(|cycle| cycle.end_ns + slack >= first).collect();
        tally.thread(ours, &theirs, slack);
    }
    let (pairs, alone) = (tally.pairs, tally.alone);
    println!("  {} threads, {pairs} cycles in both, {alone:?} in one alone", program.len());
    let (run, wait) = (quantile(&mut tally.run_off, 0.5), quantile(&mut tally.wait_off, 0.5));
    let tails = [0.99, 1.0].map(|share| (quantile(&mut tally.run_off, share), quantile(&mut tally.wait_off, share)));
    println!("  run and wait off by {run} and {wait} ns in the middle, 99th and most {tails:?}");
    ensure!(pairs > 1_000, "only {pairs} cycles");
    for alone in alone {
        ensure!(
            (alone as f64) < 5.0 + pairs as f64 * ALONE + gaps as f64 * ALONE_AT_GAP,
            "{alone} of {pairs} cycles are in one alone"
        );
    }
    // at a gap the machine may pair a run with the end of another
    ensure!(tally.other_end as u64 <= gaps / 100, "{} of {pairs} runs ended in another way", tally.other_end);
    ensure!(run <= TYPICAL_NS && wait <= TYPICAL_NS, "{run} and {wait} ns");
    let seconds = |ns: u64| ns as f64 / 1e9;
    close("run (the machine's)", seconds(tally.run[0]), seconds(tally.run[1]), 0.01, 0.002)?;
    close("wait (the machine's)", seconds(tally.wait[0]), seconds(tally.wait[1]), 0.01, 0.002)
}
