//! `examples/collector_plugin` as its README says: a real Collector with `receivers: sched:`, whose child is killed, is
//! started again, and ends with it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::needs::part;
use crate::program::{Program, eventually, free_address};
use crate::support::collector::{Point, points_in};
use crate::support::container::Podman;
use crate::support::jaeger::Jaeger;
use crate::support::span::Span;
use crate::support::{folder, http};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/collector_plugin/collector.yaml");
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn measures_and_is_kept_alive() -> Result<()> {
    let folder = folder()?;
    tells_a_wrong_key(folder.path())?;
    let mut jaeger = Jaeger::start(folder.path())?;
    let mut podman = Podman::start(folder.path())?;
    let container = podman.run("limited", 0.2, "while :; do :; done", &[])?;
    let health = free_address()?;
    let mut command = collector(folder.path())?;
    command.args(["--config", CONFIG]).env("HEALTH", health.to_string()).env("BACKEND", jaeger.grpc.to_string());
    let mut collector = Program::start("otelcol-sched", &mut command, folder.path())?;
    let answer = (|| {
        collector.says("Everything is ready")?;
        let throttled = |since_ns: u64| throttled(folder.path(), &container.id, since_ns);
        eventually("metrics", PATIENCE, || throttled(0))?;
        eventually("spans in Jaeger", PATIENCE, || {
            let is_it = |span: &Span| {
                span.name == "sched.throttle" && span.resource.get("container.id").is_some_and(|id| id == &container.id)
            };
            for service in jaeger.services()? {
                if jaeger.spans(&service)?.iter().any(is_it) {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        })?;

        let first = *children(&collector.output())?.last().context("no child")?;
        ensure!(is_child_of(first, collector.pid()), "{first:?} is not the Collector's child");
        let killed_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64;
        kill_process(first, Signal::KILL)?;
        eventually("the error in the Collector's health", PATIENCE, || Ok(is_ill(health)?.then_some(())))?;
        let point = eventually("metrics of the next child", PATIENCE, || throttled(killed_ns))?;
        println!("  killed; the next child's counter began {} ms later", (point.start_ns - killed_ns) / 1_000_000);
        eventually("the health", PATIENCE, || Ok((!is_ill(health)?).then_some(())))?;
        ensure!(collector.output().contains("signal: killed"), "how the child ended is not told");

        let second = *children(&collector.output())?.last().context("no child")?;
        ensure!(second != first, "the same child");
        let status = collector.stop(Signal::TERM)?;
        ensure!(status.success(), "the Collector ended with {status}");
        ensure!(test_kill_process(second).is_err(), "the child outlived the Collector");
        let said = collector.output();
        ensure!(said.contains("none left behind"), "the child's farewell is not in the log");
        let left: Vec<_> = fs::read_dir(folder.path().join("plugin"))?.collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(())
    })();
    answer.with_context(|| format!("the Collector said:\n{}", collector.output()))?;
    podman.remove(&container)?;
    ends_its_child_when_killed(folder.path(), &mut command)
}

fn ends_its_child_when_killed(folder: &Path, command: &mut Command) -> Result<()> {
    let mut collector = Program::start("otelcol-sched", command, folder)?;
    collector.says("Everything is ready")?;
    let child = *children(&collector.output())?.last().context("no child")?;
    collector.signal(Signal::KILL)?;
    eventually("the end of the child", PATIENCE, || Ok(test_kill_process(child).is_err().then_some(())))
}

/// The Collector with the plugin, and where its child and its files are.
fn collector(folder: &Path) -> Result<Command> {
    let temporary = folder.join("plugin");
    fs::create_dir_all(&temporary)?;
    let mut command = Command::new(part("plugin").map_err(anyhow::Error::msg)?);
    command.env("SCHEDSCOPE", env!("CARGO_BIN_EXE_schedscope")).env("TMPDIR", temporary);
    command.env("METRICS_FILE", folder.join("metrics.json")).env("INTERVAL", "1s");
    Ok(command)
}

fn tells_a_wrong_key(folder: &Path) -> Result<()> {
    let said = |set: &str| -> Result<(bool, String)> {
        let output = collector(folder)?.args(["validate", "--config", CONFIG, "--config", set]).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let (is_well, told) = said("yaml:receivers::sched::stop_timeout: 5s")?;
    ensure!(is_well, "the example is refused: {told}");
    let (is_well, told) = said("yaml:receivers::sched::sched_spans::windw: 5s")?;
    ensure!(!is_well && told.contains("processors::sched_spans::windw"), "not told: {told}");
    let line = told.lines().find(|line| line.contains("windw")).unwrap_or_default();
    println!("  a wrong key: {line}");
    Ok(())
}

/// The last point of the container's throttled seconds whose series began after that.
fn throttled(folder: &Path, container: &str, since_ns: u64) -> Result<Option<Point>> {
    let points = points_in(&folder.join("metrics.json"))?;
    Ok(points.into_iter().rfind(|point| {
        point.metric == "linux.sched.time"
            && point.attributes.get("linux.sched.state").is_some_and(|state| state == "throttled")
            && point.resource.get("container.id").is_some_and(|id| id == container)
            && point.start_ns > since_ns
            && point.value > 0.0
    }))
}

/// Pids of the children that the Collector has told of.
fn children(log: &str) -> Result<Vec<Pid>> {
    let told = log.lines().filter(|line| line.contains("schedscope started"));
    told.map(|line| {
        let pid = line.split("\"pid\": ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        Pid::from_raw(pid.context("no pid")?.parse()?).context("pid 0")
    })
    .collect()
}

fn is_child_of(pid: Pid, parent: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    after_name.split(' ').nth(1).is_some_and(|ppid| ppid == parent.as_raw_nonzero().to_string())
}

/// Whether the Collector's health page tells an error of some component.
fn is_ill(health: SocketAddr) -> Result<bool> {
    Ok(http::ask(health, "GET", "/status?verbose", "")?.contains("StatusRecoverableError"))
}
