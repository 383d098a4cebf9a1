//! Containers that are gone before anybody can look at them: what they used is still theirs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::support::agent::{Agent, Protocol, to_collector};
use crate::support::collector::Collector;
use crate::support::container::Podman;
use crate::support::folder;

const COUNT_AND_END: &str = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";

pub(crate) fn are_not_lost() -> Result<()> {
    let folder = folder()?;
    let mut collector = Collector::start(folder.path())?;
    let podman = Podman::start(folder.path())?;
    let mut agent = Agent::start(folder.path(), &to_collector(Protocol::Grpc, &collector))?;
    let ids = (0..3).map(|_| podman.run_to_end(COUNT_AND_END)).collect::<Result<Vec<String>>>()?;
    std::thread::sleep(Duration::from_millis(1500));
    agent.stop().with_context(|| agent.output())?;
    collector.stop()?;

    let points = collector.points()?;
    for id in &ids {
        let of_it = points.iter().filter(|point| point.resource.get("container.id").is_some_and(|found| found == id));
        let running = of_it.filter(|point| point.attributes.get("linux.sched.state").is_some_and(|it| it == "running"));
        let running = running.map(|point| point.value).fold(0.0, f64::max);
        println!("  {id}: {running:.6} s");
        ensure!(running > 0.001, "{id} ran, and has {running} s among {} points:\n{}", points.len(), agent.output());
    }
    Ok(())
}
