//! E15 and E16: more switches than anybody can read, and what watching them costs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libbpf_rs::query::ProgInfoIter;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::agent::{Agent, Config};
use super::endpoint::Endpoint;
use super::load;
use crate::cgroup::{Cgroup, container_id};

/// E15: the smallest ring, its reader stopped for two seconds.
pub(super) fn full(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let sched = "ring_bytes: 4096, select: {preset: everything}";
    let mut agent = Agent::start(&[], &Config { sched, ..Config::default() }.to(endpoint.address))?;
    let id = container_id(15);
    let cgroup = Cgroup::docker(&id)?;
    let load = load::run(cgroup.command(&load::program()?, &[]), 3.0, 2, false)?;
    std::thread::sleep(Duration::from_millis(500));
    let pid = agent.program.pid();
    kill_process(pid, Signal::STOP)?;
    std::thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::CONT)?;
    let truth = load::account(load)?;
    let is_lost = |point: &super::endpoint::Point| point.with("reason") == "ring_full";
    let many = truth.switches as f64 / 10.0;
    agent.waits("the loss", 10, || Ok((endpoint.sum("linux.sched.records.lost", is_lost) > many).then_some(())))?;
    std::thread::sleep(Duration::from_millis(2500));
    agent.stop()?;

    let log = agent.log();
    let told = log.lines().filter(|line| line.contains("ring_full")).count();
    ensure!((1..=8).contains(&told), "expected a line an interval about what was lost, got {told}:\n{log}");
    let of_load = |point: &super::endpoint::Point| point.of("container.id") == id;
    let running = |point: &super::endpoint::Point| {
        of_load(point) && ["running", "stolen"].contains(&point.with("linux.sched.state"))
    };
    let ran = close("running seconds", endpoint.sum("linux.sched.time", running), truth.running_s, 0.02, 0.05);
    ran.with_context(|| format!("{:#?}\n{log}", endpoint.last("linux.sched.time", of_load)))?;
    close("switches", endpoint.sum("process.context_switches", of_load), truth.switches as f64, 0.01, 50.0)
}

fn close(what: &str, got: f64, want: f64, share: f64, floor: f64) -> Result<()> {
    ensure!((got - want).abs() <= (want * share).max(floor), "{what}: expected {want}\ngot {got}");
    Ok(())
}

/// Counts and times of our programs, from the kernel's own statistics.
fn switch_program() -> (u64, u64) {
    let ours = ProgInfoIter::default().filter(|program| program.name.to_string_lossy().starts_with("sched_switch"));
    ours.map(|program| (program.run_cnt, program.run_time_ns)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Keeps the kernel's statistics of BPF programs on.
struct Statistics;

impl Statistics {
    const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

    fn on() -> Result<Self> {
        std::fs::write(Self::SWITCH, "1").context(Self::SWITCH)?;
        Ok(Self)
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::SWITCH, "0");
    }
}

/// Round trips a second of a pair on one CPU, the best of some tries: what disturbs the machine only slows.
fn best(tries: usize) -> Result<f64> {
    let mut best = 0.0_f64;
    for _ in 0..tries {
        let load = load::run(std::process::Command::new(load::program()?), 0.5, 1, true)?;
        best = best.max(load::account(load)?.round_trips as f64 / 0.5);
    }
    Ok(best)
}

/// E16: what metrics alone cost a load that does nothing but switch.
pub(super) fn cost(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config { metrics: "metrics: {linux.sched.contention.time: {enabled: false}}", ..Config::default() };
    let before = best(3)?;
    let mut agent = Agent::start(&[], &config.to(endpoint.address))?;
    let cpu = |agent: &Agent| agent.counter("otelcol_process_cpu_seconds", "");
    // the lower of two stretches: what a cold machine does at the first is not what the agent costs
    let (mut with, mut own) = (0.0_f64, f64::MAX);
    for _ in 0..2 {
        let cpu_before = cpu(&agent)?;
        with = with.max(best(4)?);
        own = own.min((cpu(&agent)? - cpu_before) / 2.0);
    }
    let per_event = {
        let _statistics = Statistics::on()?;
        let (count, ns) = switch_program();
        best(1)?;
        let (count, ns) = {
            let now = switch_program();
            (now.0 - count, now.1 - ns)
        };
        ensure!(count > 1000, "expected the switch program to run at each switch, got {count} runs");
        ns as f64 / count as f64
    };
    agent.stop()?;
    let after = best(3)?;
    let without = before.max(after);
    ensure!(per_event < 1000.0, "expected less than 1 us an event, got {per_event:.0} ns");
    ensure!(own < 0.1, "expected the agent to use less than 10 % of a CPU, got {:.1} %", own * 100.0);
    ensure!(
        with > without * 0.7,
        "expected a load that is hardly slower, got {with:.0} of {without:.0} round trips a second"
    );
    Ok(())
}
