//! Metrics by process and by thread: each agrees with the kernel's own counters of it, and with the rest they are the
//! whole container.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cgroup::{Cgroup, container_id};
use crate::support::agent::Agent;
use crate::support::collector::{Point, points_in};
use crate::support::{close, folder};

/// Two threads that take turns, and sleep once the file is there.
const THREADS: &str = "exec python3 -c '
import os, sys, threading, time
def work():
    while not os.path.exists(sys.argv[1]): sum(range(2000))
    time.sleep(1000)
for _ in range(2): threading.Thread(target=work).start()
' STOP";
/// One process.
const LOOP: &str = "while [ ! -e STOP ]; do :; done; exec sleep 1000";
/// Processes that live for less than a collection.
const STORM: &str = "while [ ! -e STOP ]; do /bin/true; done; exec sleep 1000";

/// What the kernel says of a thread: seconds on a CPU and waiting for one, switches of both kinds.
#[derive(Debug, Default, Clone, Copy)]
struct Truth {
    ran: f64,
    delayed: f64,
    switches: f64,
}

pub(crate) fn processes_and_threads_add_up() -> Result<()> {
    let folder = folder()?;
    let files = ["container", "process", "thread"].map(|level| folder.path().join(level));
    let id = container_id(7);
    let mut container = Cgroup::docker(&id)?;
    let quota = container.path.join("cpu.cfs_quota_us");
    if quota.exists() { fs::write(quota, "60000") } else { fs::write(container.path.join("cpu.max"), "60000 100000") }?;
    let mut agent = Agent::start(folder.path(), &config(&files))?;
    let stop = folder.path().join("stop");
    let script = |script: &str| script.replace("STOP", &stop.display().to_string());
    let pids = [THREADS, LOOP, STORM].map(|load| container.run(&script(load)));
    let pids = pids.into_iter().collect::<Result<Vec<u32>>>()?;
    std::thread::sleep(Duration::from_secs(6));
    fs::write(&stop, "")?;
    std::thread::sleep(Duration::from_millis(3500));
    let truth: HashMap<u32, HashMap<u32, Truth>> =
        pids.iter().map(|pid| Ok((*pid, threads_of(*pid)?))).collect::<Result<_>>()?;
    agent.stop()?;
    agree(&files, &id, &truth).with_context(|| format!("the kernel says {truth:?}; the agent:\n{}", agent.output()))
}

fn agree(files: &[PathBuf; 3], id: &str, truth: &HashMap<u32, HashMap<u32, Truth>>) -> Result<()> {
    let of = |file: &PathBuf| -> Result<Vec<Point>> {
        let is_of = |point: &Point| point.resource.get("container.id").is_some_and(|it| it == id);
        Ok(points_in(file)?.into_iter().filter(is_of).collect())
    };
    let (whole, processes, threads) = (of(&files[0])?, of(&files[1])?, of(&files[2])?);
    for (pid, of_threads) in truth {
        let of_all = of_threads.values().fold(Truth::default(), |sum, one| Truth {
            ran: sum.ran + one.ran,
            delayed: sum.delayed + one.delayed,
            switches: sum.switches + one.switches,
        });
        let is_pid = |point: &&Point| point.resource.get("process.pid").is_some_and(|it| it == pid);
        let own: Vec<&Point> = processes.iter().filter(is_pid).collect();
        same(&format!("process {pid}"), &own, of_all)?;
        for (tid, one) in of_threads {
            let is_tid = |point: &&Point| point.attributes.get("thread.id").is_some_and(|it| it == tid);
            let own: Vec<&Point> = threads.iter().filter(is_pid).filter(is_tid).collect();
            same(&format!("thread {tid} of {pid}"), &own, *one)?;
        }
    }
    for (level, points) in [("processes", &processes), ("threads", &threads)] {
        let rest: Vec<&Point> =
            points.iter().filter(|point| point.attributes.contains_key("otel.metric.overflow")).collect();
        ensure!(newest(&rest, "running") > 0.05, "the storm's processes are no part of the rest of {level}");
        for state in ["running", "waiting", "throttled", "interruptible"] {
            let (told, whole) = (newest(&all(points), state), newest(&all(&whole), state));
            close(&format!("{state} of {level} and the rest of the container's"), told, whole, 0.01, 0.02)?;
        }
    }
    Ok(())
}

fn all(points: &[Point]) -> Vec<&Point> {
    points.iter().collect()
}

fn same(what: &str, points: &[&Point], truth: Truth) -> Result<()> {
    ensure!(!points.is_empty(), "no point of {what}");
    let ran = newest(points, "running") + newest(points, "stolen");
    // what was open at a look is an estimate, which the series keeps where it came out shorter
    close(&format!("running of {what}"), ran, truth.ran, 0.01, 0.02)?;
    let delayed = newest(points, "waiting") + newest(points, "throttled");
    close(&format!("waiting and throttled of {what}"), delayed, truth.delayed, 0.01, 0.005)?;
    let switches = sum_of_newest(points, |point| point.metric == "process.context_switches");
    close(&format!("switches of {what}"), switches, truth.switches, 0.02, 10.0)
}

/// The sum of the newest points of all series in a state.
fn newest(points: &[&Point], state: &str) -> f64 {
    sum_of_newest(points, |point| {
        point.metric == "linux.sched.time" && point.attributes.get("linux.sched.state").is_some_and(|it| it == state)
    })
}

fn sum_of_newest(points: &[&Point], chosen: impl Fn(&Point) -> bool) -> f64 {
    let mut series: HashMap<String, f64> = HashMap::new();
    for point in points.iter().filter(|point| chosen(point)) {
        // a Resource that came to be known better ends one series, with a point without value, and begins another: both
        // count
        let of = format!("{:?} {:?} {}", point.resource, point.attributes, point.start_ns);
        let newest = series.entry(of).or_default();
        *newest = newest.max(point.value);
    }
    series.values().sum()
}

fn threads_of(pid: u32) -> Result<HashMap<u32, Truth>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = entry?.path();
        let tid = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let numbers = fs::read_to_string(folder.join("schedstat"))?;
        let numbers: Vec<f64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let status = fs::read_to_string(folder.join("status"))?;
        let switches = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
        let switches = switches.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum();
        let truth = Truth { ran: numbers[0] / 1e9, delayed: numbers[1] / 1e9, switches };
        all.insert(tid.context("a thread's id")?, truth);
    }
    Ok(all)
}

fn config([container, process, thread]: &[PathBuf; 3]) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s}}}}
processors:
  container: {{runtimes: [], kubernetes: {{source: none}}}}
  sched_metrics: {{}}
  sched_metrics/process: {{level: process}}
  sched_metrics/thread: {{level: thread}}
exporters:
  file: {{path: '{}'}}
  file/process: {{path: '{}'}}
  file/thread: {{path: '{}'}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}
    metrics/process: {{receivers: [sched], processors: [container, sched_metrics/process], exporters: [file/process]}}
    metrics/thread: {{receivers: [sched], processors: [container, sched_metrics/thread], exporters: [file/thread]}}
",
        container.display(),
        process.display(),
        thread.display()
    )
}
