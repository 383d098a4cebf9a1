//! CPU 0's idle task is nobody's: the walk over all threads begins with it, and its switches are in the kernel's count
//! of the host, not in anyone's.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cgroup::{Cgroup, container_id};
use crate::support::agent::Agent;
use crate::support::collector::points_in;
use crate::support::folder;

/// Wakes CPU 0 from its idling about a thousand times a second.
const NAPS: &str = "exec taskset -c 0 perl -e 'select(undef, undef, undef, 0.001) while 1'";

pub(crate) fn is_nobodys() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("metrics");
    let config = format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_metrics: {{}}}}
exporters: {{file: {{path: '{}'}}}}
service: {{pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}}}
",
        file.display()
    );
    let id = container_id(8);
    let mut container = Cgroup::docker(&id)?;
    let mut agent = Agent::start(folder.path(), &config)?;
    container.run(NAPS)?;
    std::thread::sleep(Duration::from_secs(5));
    agent.stop()?;
    let points = points_in(&file)?;
    let newest = |is_container: bool, kind: &str| {
        let chosen = points.iter().filter(|point| {
            point.metric == "process.context_switches"
                && point.attributes.values().any(|value| value == kind)
                && point.resource.get("container.id").is_some_and(|of| of == id.as_str()) == is_container
        });
        // cumulative series: the newest point of each is its greatest
        let mut series = HashMap::new();
        for point in chosen {
            let known = series.entry(format!("{:?}", point.resource)).or_insert(0.0_f64);
            *known = known.max(point.value);
        }
        series.values().sum::<f64>()
    };
    let (naps, others) = (newest(true, "voluntary"), newest(false, "involuntary"));
    println!("  {naps} naps, {others} involuntary switches of everything else");
    ensure!(naps > 500.0, "{naps} naps\n{}", agent.output());
    ensure!(others < naps / 5.0, "the idle task's {others} switches are told as somebody's");
    Ok(())
}
