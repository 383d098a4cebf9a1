//! Recordings of real runs, replayed: each thread's sums held against the kernel's and against `perf sched`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Program, eventually};
use crate::support::task::TaskCounters;
use crate::support::{close, folder};

const SCHEDSCOPE: &str = env!("CARGO_BIN_EXE_schedscope");
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// A thread's line of `replay --format summary`; seconds.
#[derive(Debug, Clone, Copy)]
struct Line {
    run: f64,
    wait: f64,
    involuntary: u64,
    voluntary: u64,
    unknown: f64,
}

/// By thread id. A name may hold spaces, so that the columns are counted from the right.
fn summary(file: &Path) -> Result<HashMap<u32, Line>> {
    let output = Command::new(SCHEDSCOPE).arg("replay").arg(file).args(["--format", "summary"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(tid) = words.first().and_then(|word| word.parse().ok()) else { continue };
        let [.., run, _, wait, _, _, _, _, involuntary, voluntary, unknown, _] = words[..] else { continue };
        let found = (run.parse(), wait.parse(), involuntary.parse(), voluntary.parse(), unknown.parse());
        let (Ok(run), Ok(wait), Ok(involuntary), Ok(voluntary), Ok(unknown)) = found else { bail!("{line}") };
        lines.insert(tid, Line { run, wait, involuntary, voluntary, unknown });
    }
    ensure!(!lines.is_empty(), "no table: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(lines)
}

/// The kernel's own counters of a thread; seconds.
fn counters(pid: u32) -> Result<Line> {
    let TaskCounters { ran, delayed, voluntary, involuntary } =
        TaskCounters::of(&Path::new("/proc").join(pid.to_string()))?;
    Ok(Line { run: ran, wait: delayed, involuntary, voluntary, unknown: 0.0 })
}

/// Processes with a life of their own, ended with the test.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Self> {
        let scripts = ["while :; do :; done", "while :; do :; done", "while :; do sleep 0.005; done"];
        let start = |script| Command::new("taskset").args(["-c", "0", "sh", "-c", script]).stdin(Stdio::null()).spawn();
        Ok(Self(scripts.into_iter().map(start).collect::<Result<_, _>>()?))
    }

    fn stop(&self) -> Result<()> {
        for child in &self.0 {
            kill_process(Pid::from_child(child), Signal::STOP)?;
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn mount_tracefs() -> Result<()> {
    if !Path::new(INSTANCES).exists() {
        let mount = Command::new("mount").args(["-t", "tracefs", "none", "/sys/kernel/tracing"]).status()?;
        ensure!(mount.success(), "tracefs cannot be mounted: {mount}");
    }
    Ok(())
}

pub(crate) fn instances() -> Result<Vec<String>> {
    let names = fs::read_dir(INSTANCES)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Result<Vec<String>> = names.collect();
    Ok(names?.into_iter().filter(|name| name.starts_with("schedscope-")).collect())
}

/// Threads that live wholly inside a recording come out of it as the kernel counted them.
pub(crate) fn agrees_with_the_kernel() -> Result<()> {
    mount_tracefs()?;
    let folder = folder()?;
    let file = folder.path().join("run.sched");
    let mut command = Command::new(SCHEDSCOPE);
    command.arg("record").arg("-o").arg(&file);
    let mut record = Program::start("record", &mut command, folder.path())?;
    eventually("the recording's first block", Duration::from_secs(20), || {
        record.is_alive()?;
        Ok(fs::metadata(&file).ok().filter(|file| file.len() > 10).map(drop))
    })?;
    let load = Load::start()?;
    std::thread::sleep(Duration::from_secs(3));
    load.stop()?;
    let truth: Vec<(u32, Line)> =
        load.0.iter().map(|child| Ok((child.id(), counters(child.id())?))).collect::<Result<_>>()?;
    let status = record.stop(Signal::INT)?;
    ensure!(status.success(), "{status}: {}", record.output());
    println!("  {}", record.output().trim());
    ensure!(instances()?.is_empty(), "the trace instance is still there: {:?}", instances()?);
    let lines = summary(&file)?;
    for (tid, kernel) in truth {
        let ours = lines.get(&tid).with_context(|| format!("no line of {tid}"))?;
        // what was not shown to any tracer is told as unknown: some runs, and each wait that it puts in doubt. The
        // text is in microseconds, which is much of the slices of a thread that mostly sleeps
        if kernel.run > 0.5 {
            close(&format!("{tid} run"), ours.run, kernel.run, 0.01, 0.002 + ours.unknown.min(kernel.run * 0.05))?;
            close(&format!("{tid} wait"), ours.wait, kernel.wait, 0.01, 0.002 + ours.unknown)?;
        }
        let off = (ours.voluntary + ours.involuntary).abs_diff(kernel.voluntary + kernel.involuntary);
        let all = kernel.voluntary + kernel.involuntary;
        println!("  {tid} switches: {} of {all}", ours.voluntary + ours.involuntary);
        ensure!(off <= 2 + all / 100, "{tid}: {ours:?} of {kernel:?}");
    }
    Ok(())
}

/// An agent that was killed leaves its instance; the next one removes it.
pub(crate) fn cleans_up_after_the_killed() -> Result<()> {
    mount_tracefs()?;
    let folder = folder()?;
    let record = |name: &str| -> Result<(Program, std::path::PathBuf)> {
        let file = folder.path().join(name);
        let mut command = Command::new(SCHEDSCOPE);
        command.arg("record").arg("-o").arg(&file);
        let program = Program::start("record", &mut command, folder.path())?;
        eventually("a recording", Duration::from_secs(20), || Ok(file.exists().then_some(())))?;
        Ok((program, file))
    };
    let (mut first, file) = record("first.sched")?;
    eventually("events in it", Duration::from_secs(20), || Ok(fs::metadata(&file)?.len().gt(&1000).then_some(())))?;
    first.stop(Signal::KILL)?;
    let left = instances()?;
    ensure!(left.len() == 1, "after kill -9: {left:?}");
    // cut off anywhere, it is readable up to its last whole block, and says so
    let cut = Command::new(SCHEDSCOPE).arg("replay").arg(&file).args(["--format", "summary"]).output()?;
    ensure!(cut.status.code() == Some(1), "{:?}", cut.status);
    ensure!(String::from_utf8_lossy(&cut.stderr).contains("no end mark"), "{}", String::from_utf8_lossy(&cut.stderr));
    let (mut second, _) = record("second.sched")?;
    second.stop(Signal::INT)?;
    ensure!(instances()?.is_empty(), "{:?}", instances()?);
    Ok(())
}

/// Seconds on the CPU by thread, of `perf sched timehist -s`: `name[tid/pid]  parent  in  run-time(ms) ...`.
fn timehist(text: &str) -> HashMap<u32, f64> {
    let line = |line: &str| {
        let (name, numbers) = line.rsplit_once(']')?;
        let tid = name.rsplit_once('[')?.1.split('/').next()?.parse().ok()?;
        let run: f64 = numbers.split_whitespace().nth(2)?.parse().ok()?;
        Some((tid, run / 1e3))
    };
    text.lines().filter_map(line).collect()
}

/// `perf sched record` of a mixed load: our sums are those of `perf sched timehist`.
pub(crate) fn agrees_with_perf() -> Result<()> {
    let folder = folder()?;
    let (data, text) = (folder.path().join("perf.data"), folder.path().join("perf.txt"));
    let load = Load::start()?;
    let perf = |arguments: &[&str]| Command::new("perf").args(arguments).arg(&data).stdin(Stdio::null()).output();
    let record =
        Command::new("perf").args(["sched", "record", "-m", "16M", "-o"]).arg(&data).args(["sleep", "2"]).output()?;
    ensure!(record.status.success(), "perf: {}", String::from_utf8_lossy(&record.stderr));
    // to threads that it did not see from their begin perf charges what another did
    let own: Vec<u32> = load.0.iter().map(Child::id).collect();
    drop(load);
    fs::write(&text, perf(&["script", "-i"])?.stdout)?;
    let theirs = timehist(&String::from_utf8_lossy(&perf(&["sched", "timehist", "-s", "-i"])?.stdout));
    let ours = summary(&text)?;
    let mut compared = 0;
    for (tid, run) in theirs.iter().filter(|(tid, run)| own.contains(tid) && **run > 0.5) {
        let line = ours.get(tid).with_context(|| format!("no line of {tid}"))?;
        // over a switch that was not recorded perf charges the next one to be recorded; we say unknown
        close(&format!("{tid} run"), line.run, *run, 0.01, 0.0015 + line.unknown.min(run * 0.05))?;
        compared += 1;
    }
    ensure!(compared >= 2, "only {compared} threads ran for long: {theirs:?}");
    Ok(())
}
