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
use crate::support::task::TaskCounters;
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

pub(crate) fn processes_and_threads_add_up() -> Result<()> {
    let folder = folder()?;
    let files = ["container", "process", "thread"].map(|level| folder.path().join(level));
    let id = container_id(7);
    let mut container = Cgroup::docker(&id)?;
    container.limit(60_000)?;
    let mut agent = Agent::start(folder.path(), &config(&files))?;
    let stop = folder.path().join("stop");
    let script = |script: &str| script.replace("STOP", &stop.display().to_string());
    let pids = [THREADS, LOOP, STORM].map(|load| container.run(&script(load)));
    let pids = pids.into_iter().collect::<Result<Vec<u32>>>()?;
    std::thread::sleep(Duration::from_secs(6));
    fs::write(&stop, "")?;
    std::thread::sleep(Duration::from_millis(3500));
    let truth: HashMap<u32, HashMap<u32, TaskCounters>> =
        pids.iter().map(|pid| Ok((*pid, threads_of(*pid)?))).collect::<Result<_>>()?;
    agent.stop()?;
    agree(&files, &id, &truth).with_context(|| format!("the kernel says {truth:?}; the agent:\n{}", agent.output()))
}

fn agree(files: &[PathBuf; 3], id: &str, truth: &HashMap<u32, HashMap<u32, TaskCounters>>) -> Result<()> {
    let of = |file: &PathBuf| -> Result<Vec<Point>> {
        let is_of = |point: &Point| point.resource.get("container.id").is_some_and(|it| it == id);
        Ok(points_in(file)?.into_iter().filter(is_of).collect())
    };
    let (whole, processes, threads) = (of(&files[0])?, of(&files[1])?, of(&files[2])?);
    for (pid, of_threads) in truth {
        let mut of_all = TaskCounters::default();
        for one in of_threads.values() {
            of_all.ran += one.ran;
            of_all.delayed += one.delayed;
            of_all.voluntary += one.voluntary;
            of_all.involuntary += one.involuntary;
        }
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

fn same(what: &str, points: &[&Point], truth: TaskCounters) -> Result<()> {
    ensure!(!points.is_empty(), "no point of {what}");
    let ran = newest(points, "running") + newest(points, "stolen");
    // what was open at a look is an estimate, which the series keeps where it came out shorter
    close(&format!("running of {what}"), ran, truth.ran, 0.01, 0.02)?;
    let delayed = newest(points, "waiting") + newest(points, "throttled");
    close(&format!("waiting and throttled of {what}"), delayed, truth.delayed, 0.01, 0.005)?;
    let switches = sum_of_newest(points, |point| point.metric == "process.context_switches");
    close(&format!("switches of {what}"), switches, (truth.voluntary + truth.involuntary) as f64, 0.02, 10.0)
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

fn threads_of(pid: u32) -> Result<HashMap<u32, TaskCounters>> {
    let counters = |entry: fs::DirEntry| {
        let tid = entry.file_name().to_str().and_then(|name| name.parse().ok()).context("a thread's id")?;
        Ok((tid, TaskCounters::of(&entry.path())?))
    };
    fs::read_dir(format!("/proc/{pid}/task"))?.map(|entry| counters(entry?)).collect()
}

fn config([container, process, thread]: &[PathBuf; 3]) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}}}
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
