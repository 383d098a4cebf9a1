//! What it costs to know whose an interval is, on one thread, by its CPU time: reading a cgroup path, and giving each
//! cycle of a batch its container and process at steady state. `make bench` runs it; seconds.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::model::{
    BlockState, BootNs, CgroupFacts, CgroupKey, Cycle, HostFacts, ProcessKey, Reasons, RunEnd, SchedBatch, Task,
};
use schedscope::pipeline::{BuildContext, Data, Outbox, Processor};
use schedscope::processors::container::grammar::parse_path;
use schedscope::telemetry::Telemetry;
use serde_json::Value;

/// What is repeated; the median counts.
const ROUNDS: usize = 31;
const CONTAINERS: u64 = 1000;
/// Cycles of a batch, few of each thread, as in a fleet of small containers.
const CYCLES: u32 = 20_000;
const THREADS: u32 = 5000;

fn main() -> Result<()> {
    let mut report = String::from("| identity | |\n|---|---|\n");
    for row in [grammar()?, attribution()?] {
        print!("{row}");
        report.push_str(&row);
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-identity.md"), report)?;
    println!("written to target/bench-identity.md");
    Ok(())
}

/// Every path of the handed cases.
fn grammar() -> Result<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/handed_cgroup_paths.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut paths = Vec::new();
    collect(&cases, &mut paths);
    let bytes: usize = paths.iter().map(String::len).sum();
    let walk = || {
        for path in &paths {
            black_box(parse_path(black_box(path)));
        }
    };
    let each = median(|| {
        let begin = cpu_time();
        for _ in 0..100 {
            walk();
        }
        cpu_time().saturating_sub(begin) / 100
    });
    let slowest = paths.iter().map(|path| {
        let one = || {
            let begin = cpu_time();
            for _ in 0..1000 {
                black_box(parse_path(black_box(path)));
            }
            cpu_time().saturating_sub(begin) / 1000
        };
        (median(one).as_nanos(), path.len())
    });
    let (slowest, length) = slowest.max().context("no case has a path")?;
    Ok(format!(
        "| reading a cgroup path, {} of them, {} bytes each | {} ns (the slowest, of {length} bytes, {slowest} ns) |\n",
        paths.len(),
        bytes / paths.len(),
        each.as_nanos() / paths.len() as u128,
    ))
}

/// The paths of all cgroup files below.
fn collect(value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(text) = members.get("proc_cgroup").and_then(Value::as_str) {
                paths.extend(text.lines().filter_map(|line| Some(line.splitn(3, ':').nth(2)?.to_owned())));
            }
            members.values().for_each(|member| collect(member, paths));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, paths)),
        _ => {}
    }
}

/// The `container` processor with every container and process known.
fn attribution() -> Result<String> {
    let factory = COMPONENTS.processors.iter().find(|factory| factory.name == "container").context("no container")?;
    let context = BuildContext::new("container".into(), Telemetry::default(), "0");
    let body = Body::from_yaml("container", "{}").map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let mut processor = (factory.build)(&body, &context).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    // 256 processes are read in a batch at most
    for _ in 0..THREADS / 256 + 2 {
        timed(processor.as_mut(), CYCLES);
    }
    let all = median(|| timed(processor.as_mut(), CYCLES));
    let none = median(|| timed(processor.as_mut(), 0));
    let more = median(|| timed(processor.as_mut(), 10 * CYCLES));
    let steady = more.saturating_sub(all).as_nanos() / (9 * u128::from(CYCLES));
    let first = all.saturating_sub(none).as_nanos() / u128::from(CYCLES);
    Ok(format!(
        "| attribution, {CONTAINERS} containers, {THREADS} processes | {steady} ns a further cycle of a process, {first} ns \
         with {} cycles of each; {} ns a container and batch |\n",
        CYCLES / THREADS,
        none.as_nanos() / u128::from(CONTAINERS),
    ))
}

fn timed(processor: &mut dyn Processor, cycles: u32) -> Duration {
    let data = Data::Sched(Arc::new(batch(cycles)));
    let mut out = Outbox::default();
    let begin = cpu_time();
    processor.process(data, &mut out);
    cpu_time().saturating_sub(begin)
}

fn batch(cycles: u32) -> SchedBatch {
    let path = |container: u64| format!("/docker/{container:064x}").as_str().into();
    let facts = |container| (key(container), CgroupFacts { path: Some(path(container)), gone: false });
    let tasks: Vec<Arc<Task>> = (0..THREADS).map(task).collect();
    let numbered = (0..cycles).zip(tasks.iter().cycle());
    SchedBatch {
        facts: Arc::new(HostFacts { root: "/nonexistent".into(), ..HostFacts::default() }),
        cycles: numbered.map(|(number, task)| cycle(number, task)).collect(),
        cgroups: (0..CONTAINERS).map(facts).collect::<HashMap<_, _>>(),
        ..SchedBatch::default()
    }
}

fn key(container: u64) -> CgroupKey {
    CgroupKey { id: 100 + container, serial: 1 }
}

fn task(number: u32) -> Arc<Task> {
    let tid = 10_000 + number;
    let process = ProcessKey { pid: tid, start: BootNs(1) };
    let cgroup = key(u64::from(tid) % CONTAINERS);
    Arc::new(Task { tid, process, start: BootNs(1), comm: "web".into(), cgroup, ..Task::default() })
}

fn cycle(number: u32, task: &Arc<Task>) -> Cycle {
    Cycle {
        task: Arc::clone(task),
        cgroup: task.cgroup,
        cpu: 0,
        end: BootNs(u64::from(number) * 1000),
        run_ns: 500,
        run_end: RunEnd::Preempted,
        wait_ns: Some(100),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: None,
        block_state: BlockState::Unknown,
        waker: None,
        context: None,
        reasons: Reasons::WAIT,
        culprits: Arc::default(),
    }
}

fn median(mut measure: impl FnMut() -> Duration) -> Duration {
    let mut all: Vec<Duration> = (0..ROUNDS).map(|_| measure()).collect();
    all.sort_unstable();
    all.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
