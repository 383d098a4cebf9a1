//! `schedscope doctor --verify` on this machine's kernel, and on others that are booted under emulation: every
//! number agrees with the kernel's own.
//!
//! `make test-kernels` runs all flavours and writes the README's table (SCHEDSCOPE_KERNELS=all, UPDATE=1).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::support::{close, folder};

/// A kernel: Debian's suite and flavour, and what is added to its command line.
struct Kernel {
    suite: &'static str,
    flavour: &'static str,
    append: &'static str,
}

const fn kernel(suite: &'static str, flavour: &'static str, append: &'static str) -> Kernel {
    Kernel { suite, flavour, append }
}

/// Those of every `make test`.
const SHORT: [Kernel; 4] = [
    kernel("bullseye", "cloud-amd64", ""),
    kernel("bookworm", "cloud-amd64", ""),
    kernel("trixie", "cloud-amd64", ""),
    kernel("sid", "cloud-amd64", ""),
];

/// The rest of `make test-kernels`.
const LONG: [Kernel; 6] = [
    kernel("bookworm", "rt-amd64", ""),
    kernel("bookworm", "cloud-amd64", "preempt=full"),
    kernel("trixie", "rt-amd64", ""),
    kernel("trixie", "cloud-amd64", "preempt=full"),
    kernel("trixie", "cloud-amd64", "preempt=lazy"),
    kernel("sid", "rt-amd64", ""),
];

/// Emulated at a time; more only wait for each other.
const AT_ONCE: usize = 2;
const SECONDS: &str = "2";

/// On this machine.
pub(crate) fn this_one_agrees() -> Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_schedscope")).args(["doctor", "--verify", "5"]).output()?;
    print!("{}", indented(&output.stdout));
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let left = fs::read_dir("/sys/fs/cgroup/cpu").into_iter().chain(fs::read_dir("/sys/fs/cgroup")).flatten();
    let left = left.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("schedscope-doctor"));
    ensure!(left.count() == 0, "the load's cgroups are still there");
    Ok(())
}

/// Without task storage the text of tracefs takes the place of BPF: a busy loop's seconds come out of it.
pub(crate) fn the_oldest_is_measured_by_text() -> Result<()> {
    let folder = folder()?;
    let program = stripped(folder.path())?;
    let config = "{receivers: {sched: {collection_interval: 1s}}, processors: {container: {}, sched_metrics: {}}, \
        exporters: {file: {path: /tmp/out}}, service: {pipelines: {metrics: {receivers: [sched], \
        processors: [container, sched_metrics], exporters: [file]}}}}";
    let usage = "sed -n 's/^usage_usec /usage /p' /sys/fs/cgroup/load.service/cpu.stat";
    let command = format!(
        "mkdir /sys/fs/cgroup/load.service; schedscope --config 'yaml:{config}' >/tmp/log 2>&1 & agent=$!\n\
         until grep -q 'is ready' /tmp/log; do sleep 0.1; kill -0 $agent || {{ cat /tmp/log; exit 1; }}; done\n\
         sh -c 'echo $$ >/sys/fs/cgroup/load.service/cgroup.procs; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'\n\
         sleep 2; {usage}; kill -INT $agent; wait $agent; echo code $?; ls /sys/kernel/tracing/instances; \
         grep 'backend' /tmp/log; echo; tail -n 1 /tmp/out"
    );
    let output = boot(&program, &kernel("bullseye", "cloud-amd64", ""), &command)?;
    let text = told(&output);
    ensure!(text.contains("tracefs backend") && text.contains("code 0"), "{text}");
    ensure!(!text.contains("schedscope-"), "the trace instance is still there: {text}");
    let usage = text.lines().find_map(|line| line.strip_prefix("usage ")?.parse::<f64>().ok()).context("usage")? / 1e6;
    let metrics: Value =
        serde_json::from_str(text.trim_end().lines().next_back().unwrap_or_default()).with_context(|| text.clone())?;
    let running = running_of(&metrics, "load.service").with_context(|| text.clone())?;
    // our stamps are later than the run queue's clock at each switch, and emulation is slow
    close("running of a unit by text (its cpu.stat)", running, usage, 0.05, 0.02)
}

/// Pure v2, the oldest and the newest way of the kernel's own paths: containers under systemd's and under the kubelet's
/// names are told where no cgroup file system can be seen.
pub(crate) fn hidden_containers_are_named() -> Result<()> {
    let folder = folder()?;
    let program = stripped(folder.path())?;
    let id = "9b1c0a4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef01";
    let pod =
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4f1c0d6e_2b7a_4d52_9c55_0a6b1c2d3e4f.slice";
    let paths =
        [format!("system.slice/docker-{id}.scope"), format!("{pod}/cri-containerd-{}.scope", id.replace('9', "8"))];
    let config = "{receivers: {sched: {collection_interval: 1s, scope: host}}, processors: {container: {runtimes: [], \
        kubernetes: {source: none}}, sched_metrics: {level: process}}, exporters: {file: {path: /tmp/out}}, service: {pipelines: \
        {metrics: {receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}}}";
    let command = format!(
        "for path in {}; do mkdir -p /sys/fs/cgroup/$path; sh -c 'echo 0 >/sys/fs/cgroup/'$path'/cgroup.procs; \
         while :; do :; done' & done; sleep 0.3; umount /sys/fs/cgroup\n\
         schedscope --config 'yaml:{config}' >/tmp/log 2>&1 & agent=$!\n\
         until grep -q 'is ready' /tmp/log; do sleep 0.1; kill -0 $agent || {{ cat /tmp/log; exit 1; }}; done\n\
         sleep 2; kill -INT $agent; wait $agent; cat /tmp/log; echo; tail -n 1 /tmp/out",
        paths.join(" ")
    );
    for kernel in [&SHORT[1], &SHORT[3]] {
        let text = told(&boot(&program, kernel, &command)?);
        let metrics: Value = serde_json::from_str(text.trim_end().lines().next_back().unwrap_or_default())
            .with_context(|| text.clone())?;
        for id in [id.to_owned(), id.replace('9', "8")] {
            let running = running_of(&metrics, &id).with_context(|| format!("{}: {id}: {text}", kernel.name()))?;
            println!("  {}: {}… ran {running:.3} s", kernel.name(), &id[..12]);
        }
        ensure!(text.contains("4f1c0d6e-2b7a-4d52-9c55-0a6b1c2d3e4f"), "the pod is not told: {text}");
        ensure!(text.contains("process.pid"), "no process is told apart: {text}");
    }
    Ok(())
}

/// Running seconds of a systemd unit, or of a container.
fn running_of(metrics: &Value, owner: &str) -> Option<f64> {
    let resources = metrics["resourceMetrics"].as_array()?;
    let resource = resources.iter().find(|resource| resource["resource"].to_string().contains(owner))?;
    let metrics = resource["scopeMetrics"].as_array()?.iter().flat_map(|scope| scope["metrics"].as_array());
    let time = metrics.flatten().find(|metric| metric["name"] == "linux.sched.time")?;
    let points = time["sum"]["dataPoints"].as_array()?;
    points.iter().find(|point| point["attributes"].to_string().contains("running"))?["asDouble"].as_f64()
}

/// What one kernel showed.
struct Seen {
    name: String,
    report: Value,
}

/// On the others.
pub(crate) fn others_agree() -> Result<()> {
    let folder = folder()?;
    let program = stripped(folder.path())?;
    let is_whole = std::env::var("SCHEDSCOPE_KERNELS").is_ok_and(|value| value == "all");
    let kernels: Vec<&Kernel> = SHORT.iter().chain(LONG.iter().filter(|_| is_whole)).collect();
    let queue = Mutex::new((0..kernels.len()).collect::<Vec<_>>());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(at) =
                    queue.lock().ok().and_then(|mut queue| (!queue.is_empty()).then(|| queue.remove(0)))
                {
                    let seen = kernels[at].verify(&program);
                    if let Ok(mut results) = results.lock() {
                        results.push((at, seen));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(at, _)| *at);
    let mut rows = Vec::new();
    for (at, seen) in results {
        let seen = seen.with_context(|| kernels[at].name())?;
        println!("  {}: {}", seen.name, summary(&seen.report));
        judge(kernels[at], &seen)?;
        rows.push(row(&seen));
    }
    if is_whole {
        table(&rows)?;
    }
    Ok(())
}

impl Kernel {
    fn name(&self) -> String {
        format!("{} {} {}", self.suite, self.flavour, self.append).trim_end().to_owned()
    }

    fn path(&self) -> Result<PathBuf> {
        let get = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/get");
        let output = Command::new(get).args([self.suite, self.flavour]).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the kernel could not be fetched: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    }

    fn verify(&self, program: &Path) -> Result<Seen> {
        let output = boot(program, self, &format!("uname -r; schedscope doctor --verify {SECONDS} --json"))?;
        let text = told(&output);
        let (Some(begin), Some(end)) = (text.find("\n{"), text.rfind('}')) else { bail!("no report: {text}") };
        let report = serde_json::from_str(&text[begin..=end]).with_context(|| text.clone())?;
        let release = text[..begin].trim();
        Ok(Seen { name: format!("{release} {}", self.append).trim_end().to_owned(), report })
    }
}

/// The program without debug information: that is most of it, and all goes into a file system in emulated memory.
fn stripped(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("schedscope");
    let strip = Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_schedscope")).status()?;
    ensure!(strip.success(), "strip: {strip}");
    Ok(program)
}

fn boot(program: &Path, kernel: &Kernel, command: &str) -> Result<Output> {
    let boot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/boot");
    let mut boot = Command::new(boot);
    boot.args(["--timeout", "240", "--append", kernel.append, "--file", "/usr/bin/chrt", "--file"]).arg(program);
    Ok(boot.arg(kernel.path()?).arg(command).output()?)
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Kernels without task storage say so; all others agree.
fn judge(kernel: &Kernel, seen: &Seen) -> Result<()> {
    let findings = seen.report["findings"].as_array().context("no findings")?;
    let programs = findings.iter().find(|finding| finding["about"] == "programs").context("no programs")?;
    if kernel.suite == "bullseye" {
        let found = programs["found"].as_str().unwrap_or_default();
        ensure!(found.contains("no BPF task storage"), "5.10 refuses in other words: {programs}");
        return Ok(());
    }
    ensure!(programs["grade"] == "ok", "{}: {programs:#}", seen.name);
    let rows = seen.report["verify"].as_array().context("nothing was verified")?;
    ensure!(rows.len() > 80, "{}: only {} rows", seen.name, rows.len());
    let off: Vec<&Value> =
        rows.iter().filter(|row| row["outcome"]["within"] == false || row["outcome"]["failed"].is_string()).collect();
    ensure!(off.is_empty(), "{}: {off:#?}", seen.name);
    let not_played: Vec<&Value> = rows.iter().filter(|row| row["what"] == "all of it").collect();
    ensure!(not_played.is_empty(), "{}: {not_played:#?}", seen.name);
    let quota = rows.iter().find(|row| row["what"] == "throttled (cpu.stat)").context("no row of a quota")?;
    ensure!(quota["outcome"]["ours"].is_number(), "{}: {quota}", seen.name);
    Ok(())
}

/// The largest deviation of the rows that begin so, in percent of the kernel's.
fn worst(report: &Value, begins: &str) -> String {
    let rows = report["verify"].as_array().cloned().unwrap_or_default();
    let off = |row: &Value| {
        let (ours, kernel) = (row["outcome"]["ours"].as_f64()?, row["outcome"]["kernel"].as_f64()?);
        let is_it = row["what"].as_str().is_some_and(|what| what.starts_with(begins));
        is_it.then(|| if ours == kernel { 0.0 } else { (ours - kernel).abs() / kernel.abs().max(1e-9) * 100.0 })
    };
    let worst = rows.iter().filter_map(off).fold(None, |worst: Option<f64>, off| Some(worst.unwrap_or(0.0).max(off)));
    worst.map_or_else(|| "n/a".to_owned(), |worst| if worst == 0.0 { "0".to_owned() } else { format!("{worst:.3} %") })
}

const COLUMNS: [(&str, &str); 6] = [
    ("running", "running (the"),
    ("waiting + throttled", "waiting"),
    ("throttled", "throttled (cpu.stat)"),
    ("voluntary", "voluntary"),
    ("involuntary", "involuntary"),
    ("all switches", "all switches"),
];

fn summary(report: &Value) -> String {
    COLUMNS.map(|(name, begins)| format!("{name} off by {}", worst(report, begins))).join(", ")
}

fn row(seen: &Seen) -> String {
    let found = |about: &str| {
        let findings = seen.report["findings"].as_array().cloned().unwrap_or_default();
        let found = findings.iter().find(|finding| finding["about"] == about);
        found.and_then(|found| found["found"].as_str()).unwrap_or("n/a").to_owned()
    };
    if seen.report["verify"].is_null() {
        return format!("| {} | refused: {} |{}", seen.name, found("programs"), " |".repeat(COLUMNS.len()));
    }
    let source = found("throttled time");
    let source = source.rsplit_once("(source ").map_or("none", |(_, word)| word.trim_end_matches(')'));
    let cells = COLUMNS.map(|(_, begins)| worst(&seen.report, begins)).join(" | ");
    format!("| {} | {source} | {cells} |", seen.name)
}

/// Writes the README's table, between its marks.
fn table(rows: &[String]) -> Result<()> {
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let rule = "---|".repeat(COLUMNS.len() + 2);
    let text = format!("| kernel | throttled from | {names} |\n|{rule}\n{}\n", rows.join("\n"));
    println!("{text}");
    if std::env::var_os("UPDATE").is_none() {
        return Ok(());
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = fs::read_to_string(path)?;
    let (before, rest) = readme.split_once("<!-- kernels: written by `make test-kernels` -->\n").context("no mark")?;
    let (_, after) = rest.split_once("<!-- end -->").context("no end mark")?;
    let mark = "<!-- kernels: written by `make test-kernels` -->";
    Ok(fs::write(path, format!("{before}{mark}\n\n{text}\n<!-- end -->{after}"))?)
}

fn indented(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().map(|line| format!("  {line}\n")).collect()
}
