//! A thousand requests a second, some throttled and some beside a neighbour, whose service writes down which span was
//! active when: every interval under a span is held against that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::cgroup::{Cgroup, container_id};
use crate::program::Program;
use crate::support::agent::Agent;
use crate::support::collector::spans_in;
use crate::support::folder;
use crate::support::span::Span;

const SECONDS: u64 = 6;
/// What a thread does between its own look at the clock and the kernel's: a switch may fall there.
const GRAIN_NS: u64 = 20_000;
/// Between two changes: either span is right.
const CHANGING: &str = "ffffffffffffffff";
const NONE: &str = "0000000000000000";

/// The span of each thread from a time on.
type Truth = HashMap<u64, BTreeMap<u64, String>>;

pub(crate) fn intervals_are_under_the_right_spans() -> Result<()> {
    let folder = folder()?;
    let (out, truth) = (folder.path().join("spans.json"), folder.path().join("truth"));
    let program = build(folder.path())?;
    let (service, mut neighbour) = (Cgroup::docker(&container_id(1))?, Cgroup::docker(&container_id(2))?);
    // less than the requests want
    service.limit(17_000)?;
    let mut agent = Agent::start(folder.path(), &config(&out))?;
    neighbour.run("exec taskset -c 0 sh -c 'while :; do :; done'")?;
    let path = program.display().to_string();
    let mut command = service.command("taskset", &["-c", "0", &path]);
    let mut requests = Program::start("requests", command.arg(&truth), folder.path())?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let pid = requests.pid().as_raw_nonzero().get();
    requests.stop(Signal::INT)?;
    std::thread::sleep(Duration::from_secs(1));
    agent.stop()?;
    // others may publish on this host meanwhile
    let of_service = |span: &Span| span.resource.get("process.pid").is_some_and(|it| it == pid);
    let spans: Vec<Span> = spans_in(&out)?.into_iter().filter(of_service).collect();
    judge(&read(&truth)?, &spans).with_context(|| agent.output())
}

fn build(folder: &Path) -> Result<std::path::PathBuf> {
    let root = env!("CARGO_MANIFEST_DIR");
    let program = folder.join("requests");
    let (file, headers) = (format!("{root}/tests/real/publisher/requests.c"), format!("{root}/examples/traced_c"));
    let mut compile = Command::new("cc");
    let output = compile
        .args(["-O1", "-rdynamic"])
        .arg(&file)
        .arg("-I")
        .arg(&headers)
        .arg("-o")
        .arg(&program)
        .arg("-lpthread")
        .output()
        .context("no C compiler")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // the example that the headers are there for
    let example = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-rdynamic"])
        .arg(format!("{headers}/main.c"))
        .arg("-o")
        .arg(folder.join("traced_c"))
        .output()?;
    ensure!(example.status.success(), "{}", String::from_utf8_lossy(&example.stderr));
    Ok(program)
}

fn config(out: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{preset: everything}}}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_spans: {{window: 1s}}}}
exporters: {{file: {{path: {}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}}}
",
        out.display()
    )
}

fn read(file: &Path) -> Result<Truth> {
    let mut truth = Truth::new();
    for line in fs::read_to_string(file)?.lines() {
        let [tid, ns, span] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        truth.entry(tid.parse()?).or_default().insert(ns.parse()?, span.to_owned());
    }
    Ok(truth)
}

/// Every span that may be told of a moment.
fn allowed(changes: &BTreeMap<u64, String>, at: u64) -> BTreeSet<&str> {
    let before = changes.range(..=at).next_back().map(|(_, span)| span.as_str());
    let near = changes.range(at.saturating_sub(GRAIN_NS)..=at + GRAIN_NS).map(|(_, span)| span.as_str());
    before.into_iter().chain(near).collect()
}

fn judge(truth: &Truth, spans: &[Span]) -> Result<()> {
    let attached: Vec<(&Span, u64)> = spans
        .iter()
        .filter(|span| span.attributes.contains_key("linux.sched.context.source"))
        .filter_map(|span| Some((span, span.attributes.get("thread.id")?.as_u64()?)))
        .collect();
    let (mut of_kind, mut assumed) = (BTreeMap::<&str, usize>::new(), (0_usize, 0_usize));
    for (span, tid) in &attached {
        let changes = truth.get(tid).with_context(|| format!("thread {tid} publishes nothing: {span:?}"))?;
        *of_kind.entry(&span.name).or_default() += 1;
        let right = |at: u64| {
            let allowed = allowed(changes, at);
            allowed.contains(span.parent_id.as_str()) || allowed.contains(CHANGING)
        };
        if span.name == "sched.run" {
            let inside = changes
                .range(span.start_ns + GRAIN_NS..span.end_ns.saturating_sub(GRAIN_NS).max(span.start_ns + GRAIN_NS));
            let others = inside.filter(|(_, other)| *other != CHANGING && **other != span.parent_id).count();
            assumed = (assumed.0 + usize::from(others == 0 && right(span.start_ns)), assumed.1 + 1);
        } else {
            ensure!(right(span.start_ns), "under the wrong span: {span:?}, {:?}", allowed(changes, span.start_ns));
        }
    }
    let (told, queries) = queries(truth, &attached)?;
    println!("  intervals under spans: {of_kind:?}; {told} of {queries} queries have their block");
    println!("  {} of {} run slices lie wholly under the span that is assumed", assumed.0, assumed.1);
    ensure!(queries > 1_000, "only {queries} queries were made");
    ensure!(told * 100 >= queries * 99, "{told} of {queries} queries have their block");
    ensure!(assumed.0 * 100 >= assumed.1 * 99, "{} of {} run slices are right", assumed.0, assumed.1);
    for kind in ["sched.wait", "sched.throttle", "sched.run"] {
        ensure!(of_kind.contains_key(kind), "no {kind}: {of_kind:?}");
    }
    Ok(())
}

/// How many queries have the block that each sleeps, of those made since the service was known.
fn queries(truth: &Truth, attached: &[(&Span, u64)]) -> Result<(usize, usize)> {
    let blocks: BTreeSet<&str> = attached
        .iter()
        .filter(|(span, _)| span.name == "sched.block")
        .map(|(span, _)| span.parent_id.as_str())
        .collect();
    let first = attached.iter().map(|(span, _)| span.start_ns).min().context("nothing is attached")?;
    // each thread counts from its own first switch-out that was read
    let (since, until) = (first + 200_000_000, attached.iter().map(|(span, _)| span.end_ns).max().unwrap_or(first));
    let ends = |span: &str| span.starts_with("02") && span != NONE;
    let all: BTreeSet<&str> = truth
        .values()
        .flat_map(|changes| changes.range(since..until.saturating_sub(200_000_000)))
        .map(|(_, span)| span.as_str())
        .filter(|span| ends(span))
        .collect();
    Ok((all.iter().filter(|span| blocks.contains(**span)).count(), all.len()))
}
