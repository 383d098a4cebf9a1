//! A container that wants the agent to crash, to grow or to take it for another: its neighbour's numbers and names stay
//! right, nothing of it goes under the neighbour's name or an id that it made up, and the agent stays small.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::{Cgroup, container_id};
use crate::program::free_address;
use crate::support::agent::{Agent, to_files};
use crate::support::collector::{points_in, spans_in};
use crate::support::task::TaskCounters;
use crate::support::{close, folder, http};

const SECONDS: u64 = 8;
/// A debug build's, with room.
const RESIDENT_MAX_MIB: f64 = 200.0;

pub(crate) fn a_container_cannot_speak_as_another() -> Result<()> {
    let folder = folder()?;
    let program = build(folder.path())?;
    let files = ["metrics.json", "spans.json"].map(|name| folder.path().join(name));
    let page = free_address()?;
    let mut agent = Agent::start(folder.path(), &to_files(SCHED, &files, page))?;
    let (victim_id, hostile_id) = (container_id(0x51), container_id(0x52));
    let (mut victim, mut hostile) = (Cgroup::docker(&victim_id)?, Cgroup::docker(&hostile_id)?);
    let pid = victim.run("exec taskset -c 0 sh -c 'while :; do :; done'")?;
    hostile.run(&format!("exec {} {victim_id}", program.display()))?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let counters = http::ask(page, "GET", "/metrics", "").with_context(|| agent.output())?;
    let resident = agent.resident_mib()?;
    drop(hostile);
    // at rest, so that both count the same
    kill_process(Pid::from_raw(pid.try_into()?).context("no pid")?, Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(100));
    let counted = TaskCounters::of(&Path::new("/proc").join(pid.to_string()))?.ran;
    agent.stop()?;
    let of_contexts: Vec<&str> = counters.lines().filter(|line| line.contains("context")).collect();
    println!("  {resident:.0} MiB resident; counted: {of_contexts:#?}");
    ensure!(resident < RESIDENT_MAX_MIB, "{resident} MiB resident");
    judge(&files, &victim_id, &hostile_id, counted).with_context(|| agent.output())
}

fn build(folder: &Path) -> Result<PathBuf> {
    let (root, program) = (env!("CARGO_MANIFEST_DIR"), folder.join("hostile"));
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-rdynamic", "-I"]).arg(format!("{root}/examples/traced_c"));
    compile.arg(format!("{root}/tests/real/publisher/hostile.c")).arg("-o").arg(&program).arg("-lpthread");
    let output = compile.output().context("no C compiler")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}

/// Everything of the two is told; what else runs on the host is not what the bound of memory is about.
const SCHED: &str =
    "{collection_interval: 1s, overhead_limit: 100%, include: {cgroups: [/docker/**]}, select: {preset: everything}}";

fn judge(files: &[PathBuf; 2], victim: &str, hostile: &str, counted: f64) -> Result<()> {
    let points = points_in(&files[0])?;
    let is = |point: &crate::support::collector::Point, id: &str| {
        point.resource.get("container.id").is_some_and(|of| of == id)
    };
    let told = points.iter().filter(|point| point.metric == "linux.sched.time" && is(point, victim));
    let told = told.filter(|point| point.attributes.get("linux.sched.state").is_some_and(|state| state == "running"));
    let told = told.map(|point| point.value).fold(0.0, f64::max);
    close("the neighbour's running (its schedstat)", told, counted, 0.01, 0.02)?;
    ensure!(points.iter().any(|point| is(point, hostile)), "the hostile container has no points");
    let spans = spans_in(&files[1])?;
    let evil: Vec<_> =
        spans.iter().filter(|span| span.resource.get("service.name").is_some_and(|name| name == "evil")).collect();
    println!("  {} spans, {} of the hostile one", spans.len(), evil.len());
    ensure!(evil.len() > 100, "only {} spans of the hostile container", evil.len());
    for span in &evil {
        ensure!(span.resource.get("container.id").is_some_and(|id| id == hostile), "under another name: {span:?}");
        let claimed = ["container.name", "k8s.pod.name"].iter().any(|key| span.resource.contains_key(*key));
        ensure!(!claimed, "a claimed name: {span:?}");
    }
    // what another thread tears is its own harm; a half of an id is none, and nobody else's spans are touched
    let attached = spans.iter().filter(|span| span.attributes.contains_key("linux.sched.context.source"));
    let (no_trace, no_span) = ("00".repeat(16), "00".repeat(8));
    for span in attached {
        ensure!(span.resource.get("container.id").is_some_and(|id| id == hostile), "of another: {span:?}");
        ensure!(span.trace_id != no_trace && span.parent_id != no_span, "a half of an id: {span:?}");
    }
    Ok(())
}
