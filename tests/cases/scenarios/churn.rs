//! E18, E20, E22: what comes and goes by the thousand leaves nothing behind; what is too much is summed.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::agent::{Agent, Config};
use super::endpoint::{Endpoint, Point};
use crate::cgroup::{Cgroup, container_id};

/// Starts and ends so many processes, two at a time.
fn processes(cgroup: &Cgroup, count: usize) -> Result<()> {
    let half = format!("i=0; while [ $i -lt {} ]; do i=$((i+1)); (:); done", count / 2);
    cgroup.run_to_end(&format!("({half}) & {half}; wait"))
}

/// E18: processes without end, at last with nobody reading of their exits. A tenth of the case's number.
pub(super) fn of_processes(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config { sched: "ring_bytes: 65536, select: {preset: everything}", ..Config::default() };
    let mut agent = Agent::start(&[], &config.to(endpoint.address))?;
    let cgroup = Cgroup::docker(&container_id(18))?;
    processes(&cgroup, 4000)?;
    let before = agent.resident_mib()?;
    processes(&cgroup, 12_000)?;
    let pid = agent.program.pid();
    kill_process(pid, Signal::STOP)?;
    let unseen = processes(&cgroup, 4000);
    kill_process(pid, Signal::CONT)?;
    unseen?;
    // one more collection
    std::thread::sleep(Duration::from_millis(1500));
    let grown = agent.resident_mib()? - before;
    let kept = agent.counter("otelcol_processor_container_cache_entries", "processes")?;
    agent.stop()?;
    ensure!(grown < 20.0, "expected less than 20 MiB more, got {grown:.1} MiB ({kept} processes kept)");
    ensure!(agent.log().contains("ring_full"), "the exits were to be lost, and were not:\n{}", agent.log());
    Ok(())
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// E20: 2,000 containers in a row, five at a time.
pub(super) fn of_cgroups(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config { container: "kubernetes: {source: none}, cache_ttl_after_exit: 1s", ..Config::default() };
    let mut agent = Agent::start(&[], &config.to(endpoint.address))?;
    let mut alive = VecDeque::new();
    let mut ended = Vec::new();
    let mut end = |cgroup: Option<(String, Cgroup)>| {
        if let Some((id, cgroup)) = cgroup {
            drop(cgroup);
            ended.push((id, now_ns()));
        }
    };
    for number in 0..2000 {
        let id = container_id(200_000 + number);
        let cgroup = Cgroup::docker(&id)?;
        cgroup.visit()?;
        alive.push_back((id, cgroup));
        if alive.len() > 5 {
            end(alive.pop_front());
        }
    }
    while !alive.is_empty() {
        end(alive.pop_front());
    }
    let last_removal = now_ns();
    // caches are swept every five seconds
    agent.waits("the state to be freed", 15, || {
        Ok((agent.counter("otelcol_processor_container_cache_entries", "owners")? < 20.0).then_some(()))
    })?;
    let points = endpoint.points();
    agent.stop()?;

    let mut newest: HashMap<&str, u64> = HashMap::new();
    for point in &points {
        let newest = newest.entry(point.of("container.id")).or_default();
        *newest = point.time_ns.max(*newest);
    }
    let last = |id: &str| newest.get(id).copied();
    let seen = ended.iter().filter(|(id, _)| last(id).is_some()).count();
    ensure!(seen >= 1990, "expected a point of each of 2,000 containers, got {seen}");
    // two intervals, the rest of the one that it ended in, and the time until the endpoint has it
    let late = ended.iter().filter(|(id, gone)| last(id).is_some_and(|last| last > gone + 3_500_000_000));
    let late: Vec<_> = late.collect();
    ensure!(late.is_empty(), "expected no points two intervals after the end, got {} such: {:?}", late.len(), late[0]);
    let after = points.iter().filter(|point| point.time_ns > last_removal + 3_500_000_000);
    let after = after.filter(|point| point.of("container.id").starts_with("e5ce")).count();
    ensure!(after == 0, "expected no points of containers at last, got {after}");
    Ok(())
}

/// E22: 500 containers where there is room for 100 series.
pub(super) fn of_series(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config { metrics: "max_series: 100", ..Config::default() };
    let mut agent = Agent::start(&[], &config.to(endpoint.address))?;
    let begin = Instant::now();
    let mut cgroups = Vec::new();
    for number in 0..500 {
        let cgroup = Cgroup::docker(&container_id(220_000 + number))?;
        // each switches by itself about ten times, and counts as it stands in /proc at its end
        cgroup.run_to_end("i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; sleep 0.01")?;
        cgroups.push(cgroup);
    }
    let took = begin.elapsed();
    std::thread::sleep(Duration::from_millis(2500));
    agent.stop()?;

    let running = |point: &Point| point.with("linux.sched.state") == "running";
    let all = endpoint.last("linux.sched.time", running);
    let is_overflow = |point: &&Point| point.with("otel.metric.overflow") == "true";
    let (overflow, apart): (Vec<&Point>, Vec<&Point>) = all.iter().partition(is_overflow);
    ensure!(apart.len() <= 100, "expected at most 100 series, got {}", apart.len());
    ensure!(apart.len() > 90, "expected the room to be used, got {} series", apart.len());
    ensure!(overflow.len() == 1, "expected one overflow series, got {}: {overflow:?}", overflow.len());
    let sum = |points: &[&Point]| points.iter().filter_map(|point| point.value).sum::<f64>();
    let ours = apart.iter().filter(|point| point.of("container.id").starts_with("e5ce"));
    let ours: Vec<&Point> = ours.copied().collect();
    // the containers are all alike: those that were summed used as much each as those apart
    let (each, summed) = (sum(&ours) / ours.len() as f64, sum(&overflow) / (500 - ours.len()) as f64);
    ensure!(
        summed > each * 0.6 && summed < each * 1.7,
        "expected the overflow to hold the rest: {each:.6} s each apart, got {summed:.6} s each summed, in {took:?}"
    );
    let switches = endpoint.sum("process.context_switches", |point| point.with("otel.metric.overflow") == "true");
    ensure!(switches >= 400.0, "expected the switches of 400 containers, got {switches}");
    ensure!(agent.log().contains("max_series"), "expected a warning:\n{}", agent.log());
    Ok(())
}
