//! Containers that live for a few milliseconds, by the thousand: nearly all are named, and together they have the
//! seconds that the kernel counted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::program::eventually;
use crate::support::agent::Agent;
use crate::support::collector::points_in;
use crate::support::folder;

/// How many, unless `SCHEDSCOPE_CHURN_CONTAINERS` says otherwise; the whole is 10,000.
const CONTAINERS: usize = 2_000;
/// New ones a second.
const RATE: f64 = 200.0;
/// A few milliseconds of work, in the cgroups that it entered.
const WORK: &str =
    "for c in \"$@\"; do echo 0 >\"$c/cgroup.procs\"; done; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";

pub(crate) fn brief_containers_are_named() -> Result<()> {
    let wanted = std::env::var("SCHEDSCOPE_CHURN_CONTAINERS").ok().and_then(|count| count.parse().ok());
    let count = wanted.unwrap_or(CONTAINERS);
    let folder = folder()?;
    let output = folder.path().join("metrics.json");
    let mut agent = Agent::start(folder.path(), &config(&output))?;
    let root = Docker::start()?;
    let (begin, mut expected) = (Instant::now(), HashMap::new());
    for number in 0..count {
        let (id, running) = root.brief(number)?;
        expected.insert(id, running);
        let due = begin + Duration::from_secs_f64(number as f64 / RATE);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let took = begin.elapsed().as_secs_f64();
    let last = format!("{:x}", count - 1);
    eventually("the last one", Duration::from_secs(30), || {
        let text = fs::read_to_string(&output).unwrap_or_default();
        Ok(text.contains(&format!("{:0>59}{last:0>5}", std::process::id())).then_some(()))
    })?;
    agent.stop().with_context(|| agent.output())?;
    judge(&output, &expected, took).with_context(|| agent.output())
}

fn config(output: &Path) -> String {
    format!(
        "receivers: {{sched: {{}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_metrics: {{max_series: 20000}}}}
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}
",
        output.display()
    )
}

/// Docker's place among the cgroups: in the hierarchy of the cpu controller, and in that which counts, if apart.
pub(crate) struct Docker {
    paths: Vec<PathBuf>,
    made: Vec<PathBuf>,
}

impl Docker {
    pub(crate) fn start() -> Result<Self> {
        let mut mounts = vec![PathBuf::from("/sys/fs/cgroup")];
        let (cpu, counting) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup/cpuacct"));
        if cpu.join("cgroup.procs").exists() {
            mounts = vec![cpu.to_owned()];
            if !cpu.join("cpuacct.usage").exists() {
                mounts.push(counting.to_owned());
            }
        }
        let paths: Vec<PathBuf> = mounts.iter().map(|mount| mount.join("docker")).collect();
        let made: Vec<PathBuf> = paths.iter().filter(|path| !path.exists()).cloned().collect();
        made.iter().try_for_each(fs::create_dir)?;
        Ok(Self { paths, made })
    }

    /// Makes a container's cgroup, lets it work and removes it: its id, and the seconds that the kernel counted.
    pub(crate) fn brief(&self, number: usize) -> Result<(String, f64)> {
        let id = format!("{:0>59}{number:0>5x}", std::process::id());
        let cgroups: Vec<PathBuf> = self.paths.iter().map(|path| path.join(&id)).collect();
        cgroups.iter().try_for_each(fs::create_dir)?;
        let mut command = Command::new("/bin/busybox");
        command.args(["sh", "-c", WORK, "sh"]).args(&cgroups).stdin(Stdio::null());
        let status = command.status()?;
        ensure!(status.success(), "{WORK}: {status}");
        let running = cgroups.last().map_or(Ok(0.0), |cgroup| running(cgroup))?;
        for cgroup in &cgroups {
            // the last thread may be on its way out
            eventually("an empty cgroup", Duration::from_secs(5), || Ok(fs::remove_dir(cgroup).ok()))?;
        }
        Ok((id, running))
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        for path in &self.made {
            let _ = fs::remove_dir(path);
        }
    }
}

fn running(cgroup: &Path) -> Result<f64> {
    if let Ok(text) = fs::read_to_string(cgroup.join("cpuacct.usage")) {
        return Ok(text.trim().parse::<f64>()? / 1e9);
    }
    let text = fs::read_to_string(cgroup.join("cpu.stat"))?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).context("no usage_usec")?;
    Ok(usage.trim().parse::<f64>()? / 1e6)
}

fn judge(output: &Path, expected: &HashMap<String, f64>, took: f64) -> Result<()> {
    let mut found: HashMap<String, f64> = HashMap::new();
    for point in points_in(output)? {
        let is = |key: &str, value: &str| point.attributes.get(key).is_some_and(|got| got == value);
        if point.metric != "linux.sched.time" || !(is("linux.sched.state", "running")) {
            continue;
        }
        let Some(id) = point.resource.get("container.id").and_then(|id| id.as_str()) else { continue };
        // others may have containers here meanwhile
        let is_ours = expected.contains_key(id);
        ensure!(
            !is_ours || point.resource.get("container.runtime.name").is_some_and(|got| got == "docker"),
            "{point:?}"
        );
        let newest = found.entry(id.to_owned()).or_default();
        *newest = newest.max(point.value);
    }
    let named = expected.keys().filter(|id| found.get(*id).is_some_and(|seconds| *seconds > 0.0)).count();
    let (told, counted): (f64, f64) =
        expected.iter().fold((0.0, 0.0), |(told, all), (id, run)| (told + found.get(id).unwrap_or(&0.0), all + run));
    let off = (told - counted).abs() / counted * 100.0;
    println!(
        "  {named} of {} containers named, {:.0} a second; {told:.4} s told of {counted:.4} s, off by {off:.3} %",
        expected.len(),
        expected.len() as f64 / took
    );
    ensure!(named * 1000 >= expected.len() * 999, "{named} of {} named", expected.len());
    ensure!(off < 2.0, "{told} s told of {counted} s");
    Ok(())
}
