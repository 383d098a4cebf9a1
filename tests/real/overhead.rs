//! An agent that costs more than it may: fewer cycles become spans, the log and a gauge say so, and totals stay whole.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::cgroup::{Cgroup, container_id};
use crate::program::free_address;
use crate::support::agent::{Agent, to_files};
use crate::support::collector::{points_in, spans_in};
use crate::support::{folder, http};

/// Switches all the time.
const STORM: &str = "while :; do /bin/true | /bin/true; done";
/// Cycles a second that may become spans.
const RATE: usize = 200;
const SECONDS: u64 = 4;

pub(crate) fn is_limited() -> Result<()> {
    let folder = folder()?;
    let files = ["metrics.json", "spans.json"].map(|name| folder.path().join(name));
    let page = free_address()?;
    let id = container_id(0x61);
    let mut container = Cgroup::docker(&id)?;
    let sched = format!(
        "{{collection_interval: 1s, overhead_limit: 0.01%, select: {{preset: everything, rate_total: {RATE}}}}}"
    );
    let mut agent = Agent::start(folder.path(), &to_files(&sched, &files, page))?;
    for _ in 0..2 {
        container.run(STORM)?;
    }
    // until the first ten seconds are judged
    agent.says("more than overhead_limit")?;
    let tightened = now_ns()?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let gauges = http::ask(page, "GET", "/metrics", "").with_context(|| agent.output())?;
    drop(container);
    agent.stop()?;
    let told: Vec<&str> = gauges.lines().filter(|line| line.starts_with("sched_receiver_")).collect();
    let gauge = |name: &str| {
        let line = told.iter().find(|line| line.starts_with(name))?;
        line.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    let (share, steps) = (gauge("sched_receiver_overhead"), gauge("sched_receiver_selection_tightened"));
    println!("  {share:?} ppm of the host's CPU, {steps:?} steps");
    ensure!(share > Some(100.0) && steps >= Some(1.0), "{told:#?}");
    let spans = spans_in(&files[1])?;
    let ends = spans.iter().filter(|span| span.name == "sched.run").map(|span| span.end_ns);
    let (before, after): (Vec<u64>, Vec<u64>) = ends.partition(|end| *end < tightened);
    let after = after.iter().filter(|end| **end < tightened + SECONDS * 1_000_000_000).count();
    let rates = (before.len() / 10, after / SECONDS as usize);
    println!("  run intervals a second: {} before, {} after", rates.0, rates.1);
    ensure!(rates.0 > RATE / 2 && rates.1 <= RATE * 3 / 4, "{rates:?}");
    // what is not told as spans is in the totals all the same
    let points = points_in(&files[0])?;
    let of = points.iter().filter(|point| point.metric == "linux.sched.time");
    let ours = of.filter(|point| point.resource.get("container.id").is_some_and(|of| *of == id));
    let ran = ours.filter(|point| point.attributes.get("linux.sched.state").is_some_and(|state| state == "running"));
    ensure!(ran.map(|point| point.value).fold(0.0, f64::max) > 5.0, "the storm's seconds are not there");
    Ok(())
}

fn now_ns() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}
