//! Left running: churn of containers, applications that send, a container under its quota, and a Collector that is killed,
//! slow and refusing, all at once. Memory, file descriptors and threads of the agent stay where they were, and at the end
//! everything is accounted for: what was acknowledged has arrived, the container has the seconds that the kernel counted,
//! and no counter of a loss tells of one that the faults do not explain.
//!
//! Runs for `SCHEDSCOPE_SOAK_SECONDS` (60); `make soak` for half an hour.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::client::Clients;
use super::scene::{Places, Scene};
use super::{COLLECTOR_KILLED, COLLECTOR_REFUSES, COLLECTOR_SLOW, Fault, REST_MS};
use crate::churn::Docker;
use crate::program::eventually;
use crate::support::collector::points_of;
use crate::support::container::{Accounts, Container, Podman};
use crate::support::{close, folder, http};

const FAULTS: &[Fault] = &[COLLECTOR_KILLED, COLLECTOR_SLOW, COLLECTOR_REFUSES];
/// Between two containers that live for a few milliseconds.
const CHURN: Duration = Duration::from_millis(50);
/// Wants a CPU and has a fifth; at the end it sleeps, so that the kernel's counters stand still while they are read.
const LOAD: &str = "while [ ! -e /shared/stop ]; do :; done; sleep 1000";
/// Losses that a run without a bug has: the agent was told to bound spans, and threads had begun before it.
/// `unread`: a process had ended before its context could be looked at; `not_shown`: the totals have these switches.
const EXPLAINED: &[&str] = &["rate_limited", "unknown_start", "no_storage", "recursion", "unread", "not_shown"];
/// Threads that wait for a disk at the same time, more than before.
const POOL: u64 = 16;
/// Of the cycles, at most, that found no room in a pipeline on a machine whose CPUs others had for longer than its channel holds.
const STARVED: f64 = 0.001;

/// What the agent holds while its queue is empty.
#[derive(Debug, Clone, Copy)]
struct Held {
    memory_kib: u64,
    files: usize,
    threads: usize,
}

pub(crate) fn stays_flat_and_accounts_for_all() -> Result<()> {
    let seconds = std::env::var("SCHEDSCOPE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let folder = folder()?;
    let mut podman = Podman::start(folder.path())?;
    let root = Docker::start()?;
    let mut scene = Scene::start(folder.path(), config)?;
    let container = podman.run("limited", 0.2, LOAD, &[])?;
    let clients = Clients::start(scene.places.agent);
    let is_over = AtomicBool::new(false);
    let (held, brief) = std::thread::scope(|scope| {
        let churn = scope.spawn(|| churn(&root, &is_over));
        let held = suffer(&mut scene, Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
        (held, churn.join())
    });
    let held = held?;
    let brief = brief.map_err(|_| anyhow::anyhow!("the churn panicked"))??;
    let sent = clients.stop()?;
    fs::write(podman.work("limited").join("stop"), "")?;
    std::thread::sleep(Duration::from_secs(3));
    let truth = container.accounts()?;
    // a collection that has all of it
    std::thread::sleep(Duration::from_secs(2));
    rest(&scene.places)?;
    let counters = counters(&scene.places)?;
    scene.stop()?;

    let received: HashSet<u64> = scene.received()?.into_iter().collect();
    let lost = sent.acknowledged.difference(&received).count();
    println!(
        "  {seconds} s: {brief} brief containers, {} spans acknowledged, {lost} of them lost, {} spans in all",
        sent.acknowledged.len(),
        received.len()
    );
    ensure!(lost == 0, "{lost} spans were acknowledged and never arrived");
    has_its_seconds(folder.path(), &container, &truth)?;
    let flat = is_flat(&held);
    loses_nothing_else(&counters)?;
    flat?;
    podman.remove(&container)
}

fn config(places: &Places) -> String {
    let (at, to, page, files) = (places.agent, places.collector, places.page, places.folder.display());
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}, otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}
processors:
  container: {{runtimes: [], kubernetes: {{source: none}}, cache_ttl_after_exit: 5s}}
  sched_spans: {{window: 2s}}
  sched_metrics: {{}}
  sched_enrich: {{}}
extensions: {{file_storage: {{directory: '{files}/queue', create_directory: true, timeout: 5s}}}}
exporters:
  otlp_grpc:
    endpoint: '{to}'
    tls: {{insecure: true}}
    timeout: 1s
    sending_queue: {{storage: file_storage, queue_size: 100000}}
    retry_on_failure: {{initial_interval: 50ms, max_interval: 500ms, max_elapsed_time: 0s}}
service:
  extensions: [file_storage]
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: {}, port: {}}}}}}}}}]}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [otlp_grpc]}}
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [otlp_grpc]}}
    traces/app: {{receivers: [otlp], processors: [sched_enrich], exporters: [otlp_grpc]}}
",
        page.ip(),
        page.port()
    )
}

/// How many came and went.
fn churn(root: &Docker, is_over: &AtomicBool) -> Result<usize> {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        root.brief(number)?;
        number += 1;
        std::thread::sleep(CHURN);
    }
    Ok(number)
}

/// One fault after the other, and what the agent holds when it has recovered from each.
fn suffer(scene: &mut Scene, length: Duration) -> Result<Vec<Held>> {
    let end = Instant::now() + length;
    let mut held = Vec::new();
    for (what, fault) in FAULTS.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        fault(scene).context(*what)?;
        scene.wait(REST_MS);
        rest(&scene.places)?;
        held.push(Held::of(scene.agent()?.pid().as_raw_nonzero().get())?);
    }
    Ok(held)
}

/// Until all that is queued has gone.
fn rest(places: &Places) -> Result<()> {
    eventually("an empty queue", Duration::from_secs(60), || {
        let queued = counters(places)?.into_iter().filter(|(name, _)| name.starts_with("otelcol_exporter_queue_size"));
        Ok(queued.map(|(_, value)| value).all(|value| value == 0.0).then_some(()))
    })
}

/// The agent's own counters by name and labels.
fn counters(places: &Places) -> Result<BTreeMap<String, f64>> {
    let text = http::ask(places.page, "GET", "/metrics", "")?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect())
}

impl Held {
    fn of(pid: i32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
            line.and_then(|value| value.parse::<u64>().ok()).with_context(|| format!("no {name}"))
        };
        Ok(Self {
            memory_kib: field("RssAnon:")?,
            files: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            threads: field("Threads:")? as usize,
        })
    }
}

/// The last third beside the one before it; the first is left out, in which tables and caches fill.
fn is_flat(held: &[Held]) -> Result<()> {
    ensure!(held.len() >= 6, "too few looks to tell anything: {held:?}");
    let third = held.len() / 3;
    let (before, after) = (&held[third..held.len() - third], &held[held.len() - third..]);
    let most = |of: &[Held], what: fn(&Held) -> u64| of.iter().map(what).max().unwrap_or_default();
    let both = |what: fn(&Held) -> u64| (most(before, what), most(after, what));
    let (memory, files, threads) =
        (both(|held| held.memory_kib), both(|held| held.files as u64), both(|held| held.threads as u64));
    println!(
        "  {} looks, most in the middle and in the last third: {} and {} KiB, {} and {} files, {} and {} threads",
        held.len(),
        memory.0,
        memory.1,
        files.0,
        files.1,
        threads.0,
        threads.1
    );
    ensure!(memory.1 <= memory.0 * 11 / 10 + 4096, "memory grows: {held:?}");
    ensure!(files.1 <= files.0 + 2, "files stay open: {held:?}");
    // the pool for files grows where the disk is slow, and gives its threads back after a while
    ensure!(threads.1 <= threads.0 + POOL, "threads stay: {held:?}");
    Ok(())
}

/// By the last points that arrived: counters, so that no outage in between can have cost anything.
fn has_its_seconds(folder: &Path, container: &Container, truth: &Accounts) -> Result<()> {
    let mut last: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for line in BufReader::new(fs::File::open(folder.join("metrics.json"))?).lines() {
        let line = line?;
        // a Collector that is killed leaves a part of a line
        let Some(request) = line.contains(&container.id).then(|| serde_json::from_str(&line).ok()).flatten() else {
            continue;
        };
        let of_it = points_of(&request).into_iter().filter(|point| {
            point.metric == "linux.sched.time"
                && point.resource.get("container.id").is_some_and(|id| id == &container.id)
        });
        for point in of_it {
            let state = point.attributes.get("linux.sched.state").and_then(|state| state.as_str()).unwrap_or_default();
            let entry = last.entry(state.to_owned()).or_default();
            if point.time_ns >= entry.0 {
                *entry = (point.time_ns, point.value);
            }
        }
    }
    let seconds = |state: &str| last.get(state).map_or(0.0, |(_, seconds)| *seconds);
    close("running of the cgroup's CPU usage", seconds("running") + seconds("stolen"), truth.running, 0.01, 0.05)?;
    close("throttled of the cgroup's cpu.stat", seconds("throttled"), truth.throttled, 0.05, 0.05)?;
    let held_up = seconds("waiting") + seconds("throttled");
    close("waiting and throttled of the tasks' run delay", held_up, truth.run_delay, 0.01, 0.05)
}

fn loses_nothing_else(counters: &BTreeMap<String, f64>) -> Result<()> {
    let is_loss =
        |name: &str| ["_lost", "send_failed", "enqueue_failed", "_refused_"].iter().any(|part| name.contains(part));
    for (name, value) in counters.iter().filter(|(name, value)| is_loss(name) && **value > 0.0) {
        println!("  {name} {value}");
    }
    let sum =
        |part: &str| -> f64 { counters.iter().filter(|(name, _)| name.contains(part)).map(|(_, value)| value).sum() };
    let (taken, refused) = (sum("accepted_cycles"), sum("refused_cycles"));
    ensure!(refused <= taken * STARVED, "{refused} cycles beside {taken} found no room");
    ensure!(refused <= sum("pipeline_full"), "cycles that found no room are not told as lost");
    let is_explained = |name: &str| {
        EXPLAINED.iter().any(|reason| name.contains(reason))
            || name.contains("refused_cycles")
            || name.contains("pipeline_full")
    };
    let unexplained = counters.iter().find(|(name, value)| is_loss(name) && **value > 0.0 && !is_explained(name));
    ensure!(unexplained.is_none(), "a loss that nothing explains: {unexplained:?}");
    Ok(())
}
