//! `schedscope doctor --verify` on this machine's kernel, and on others that are booted under emulation: every
//! number agrees with the kernel's own.
//!
//! `make test-kernels` runs all flavours and writes the README's table (SCHEDSCOPE_KERNELS=all, UPDATE=1).

mod machine;
mod table;

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::machine::{Kernel, Luggage, kernel, told};
use self::table::Seen;

use crate::support::close;

/// Those of every `make test`, with arm64's.
const SHORT: [Kernel; 9] = [
    kernel("bullseye", "cloud-amd64", ""),
    kernel("bullseye", "rt-amd64", ""),
    kernel("bookworm", "cloud-amd64", ""),
    kernel("bookworm", "rt-amd64", ""),
    kernel("trixie", "cloud-amd64", ""),
    kernel("trixie", "rt-amd64", ""),
    kernel("sid", "cloud-amd64", ""),
    kernel("sid", "rt-amd64", ""),
    Kernel { is_ext: true, ..kernel("sid", "cloud-amd64", "") },
];
const ARM64: [Kernel; 2] = [kernel("bookworm", "cloud-arm64", ""), kernel("sid", "cloud-arm64", "")];

/// The rest of `make test-kernels`: other preemption models.
const LONG: [Kernel; 8] = [
    kernel("bookworm", "cloud-amd64", "preempt=none"),
    kernel("bookworm", "cloud-amd64", "preempt=full"),
    kernel("trixie", "cloud-amd64", "preempt=none"),
    kernel("trixie", "cloud-amd64", "preempt=full"),
    kernel("trixie", "cloud-amd64", "preempt=lazy"),
    kernel("sid", "cloud-amd64", "preempt=full"),
    kernel("sid", "cloud-amd64", "preempt=lazy"),
    kernel("sid", "rt-amd64", "preempt=lazy"),
];

/// Numbers that may be off by text where all of the kernel can be preempted: the kernel's run delay leaves out the wait of
/// a task that was preempted on its way to sleep (`sched_info_depart` asks for TASK_RUNNING), which text shows as `R+`.
const OFF_BY_TEXT_RT: usize = 4;
/// The name in `ext.bpf.c`.
const SCHEDULER: &str = "schedscope_test";
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];
/// Emulated at a time; more only wait for each other.
const AT_ONCE: usize = 2;

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

/// The same by single events. Where switches come to no tracepoint, as on this virtual machine, the waits that they
/// put in doubt are unknown: less than the kernel's then, never more; everything else agrees.
pub(crate) fn this_one_agrees_by_events() -> Result<()> {
    for backend in ["tracepoint", "tracefs"] {
        let config = format!(
            "yaml:{{receivers: {{sched: {{backend: {backend}}}}}, processors: {{sched_metrics: {{}}}}, exporters: {{debug: {{}}}}, \
            service: {{pipelines: {{metrics: {{receivers: [sched], processors: [sched_metrics], exporters: [debug]}}}}}}}}"
        );
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_schedscope"));
        let output = doctor.args(["doctor", "--verify", "5", "--json", "--config", &config]).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).with_context(|| told(&output))?;
        ensure!(report["findings"].to_string().contains(&format!("backend {backend}")), "{}", report["findings"]);
        let rows = report["verify"].as_array().context("nothing was verified")?;
        let (agree, off): (Vec<_>, Vec<_>) = (rows.iter())
            .filter(|row| !row["outcome"]["within"].is_null() || row["outcome"]["failed"].is_string())
            .partition(|row| row["outcome"]["within"] == true);
        println!("  {backend}: {} numbers agree, waits of {} loads are in doubt", agree.len(), off.len());
        for row in off {
            let (ours, kernel) = (row["outcome"]["ours"].as_f64(), row["outcome"]["kernel"].as_f64());
            let is_doubt = row["what"].as_str().is_some_and(|what| what.starts_with("waiting")) && ours < kernel;
            ensure!(is_doubt, "{backend}: {row}");
        }
        ensure!(agree.len() > 45, "{backend}: {rows:#?}");
    }
    Ok(())
}

/// Without task storage single events take the place of totals: a busy loop's seconds come out of them.
pub(crate) fn the_oldest_is_measured_by_events() -> Result<()> {
    let luggage = Luggage::pack()?;
    for (backend, named) in [("auto", "tracepoint"), ("tracefs", "tracefs")] {
        by_events(&luggage, backend, named)?;
    }
    Ok(())
}

fn by_events(luggage: &Luggage, backend: &str, named: &str) -> Result<()> {
    let config = "{receivers: {sched: {collection_interval: 1s, backend: BACKEND}}, processors: {container: {}, sched_metrics: {}}, \
        exporters: {file: {path: /tmp/out}}, service: {pipelines: {metrics: {receivers: [sched], \
        processors: [container, sched_metrics], exporters: [file]}}}}";
    let config = config.replace("BACKEND", backend);
    let usage = "sed -n 's/^usage_usec /usage /p' /sys/fs/cgroup/load.service/cpu.stat";
    let command = format!(
        "mkdir /sys/fs/cgroup/load.service; schedscope --config 'yaml:{config}' >/tmp/log 2>&1 & agent=$!\n\
         until grep -q 'is ready' /tmp/log; do sleep 0.1; kill -0 $agent || {{ cat /tmp/log; exit 1; }}; done\n\
         sh -c 'echo $$ >/sys/fs/cgroup/load.service/cgroup.procs; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'\n\
         sleep 2; {usage}; kill -INT $agent; wait $agent; echo code $?; ls /sys/kernel/tracing/instances; \
         grep 'backend' /tmp/log; echo; tail -n 1 /tmp/out"
    );
    let output = luggage.boot(&kernel("bullseye", "cloud-amd64", ""), &command)?;
    let text = told(&output);
    ensure!(text.contains(&format!("sched: {named} backend")) && text.contains("code 0"), "{text}");
    ensure!(!text.contains("schedscope-"), "the trace instance is still there: {text}");
    let usage = text.lines().find_map(|line| line.strip_prefix("usage ")?.parse::<f64>().ok()).context("usage")? / 1e6;
    let metrics: Value =
        serde_json::from_str(text.trim_end().lines().next_back().unwrap_or_default()).with_context(|| text.clone())?;
    let running = running_of(&metrics, "load.service").with_context(|| text.clone())?;
    // our stamps are later than the run queue's clock at each switch, and emulation is slow
    close(&format!("running of a unit by {named} (its cpu.stat)"), running, usage, 0.05, 0.02)
}

/// Pure v2, the oldest and the newest way of the kernel's own paths: containers under systemd's and under the kubelet's
/// names are told where no cgroup file system can be seen.
pub(crate) fn hidden_containers_are_named() -> Result<()> {
    let luggage = Luggage::pack()?;
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
    for kernel in [kernel("bookworm", "cloud-amd64", ""), kernel("sid", "cloud-amd64", "")] {
        let text = told(&luggage.boot(&kernel, &command)?);
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

/// A scheduler that heeds no quota is told by its name, and each quota that it does not enforce.
pub(crate) fn another_scheduler_is_told() -> Result<()> {
    let luggage = Luggage::pack()?;
    let config = "{receivers: {sched: {collection_interval: 1s}}, processors: {container: {}, sched_metrics: {}}, \
        exporters: {file: {path: /tmp/out}}, service: {pipelines: {metrics: {receivers: [sched], \
        processors: [container, sched_metrics], exporters: [file]}}}}";
    let command = format!(
        "group=/sys/fs/cgroup/load.service; mkdir $group; echo '20000 100000' >$group/cpu.max\n\
         sh -c 'echo $$ >/sys/fs/cgroup/load.service/cgroup.procs; while :; do :; done' &\n\
         schedscope --config 'yaml:{config}' >/tmp/log 2>&1 & agent=$!\n\
         until grep -q 'not enforce' /tmp/log || ! kill -0 $agent; do sleep 0.2; done; sleep 1\n\
         kill -INT $agent; wait $agent; cat /tmp/log; echo; tail -n 1 /tmp/out"
    );
    let kernel = SHORT.iter().find(|kernel| kernel.is_ext).context("no kernel with sched_ext")?;
    let text = told(&luggage.boot(kernel, &command)?);
    ensure!(text.contains(&format!("the sched_ext scheduler `{SCHEDULER}` decides")), "{text}");
    let line = text.lines().find(|line| line.contains("does not enforce the quota")).with_context(|| text.clone())?;
    println!("  {line}");
    ensure!(line.contains("/load.service"), "{line}");
    let metrics: Value =
        serde_json::from_str(text.trim_end().lines().next_back().unwrap_or_default()).with_context(|| text.clone())?;
    let points = points_of(&metrics, "host-scheduler", "linux.sched.ext.active").context("the gauge is not there")?;
    let (value, name) = (points[0]["asInt"].to_string(), points[0]["attributes"].to_string());
    ensure!(value.contains('1') && name.contains(SCHEDULER), "{points:?}");
    Ok(())
}

/// Running seconds of a systemd unit, or of a container.
fn running_of(metrics: &Value, owner: &str) -> Option<f64> {
    let points = points_of(metrics, owner, "linux.sched.time")?;
    points.iter().find(|point| point["attributes"].to_string().contains("running"))?["asDouble"].as_f64()
}

fn points_of<'a>(metrics: &'a Value, owner: &str, name: &str) -> Option<&'a Vec<Value>> {
    let resources = metrics["resourceMetrics"].as_array()?;
    let resource = resources.iter().find(|resource| resource["resource"].to_string().contains(owner))?;
    let metrics = resource["scopeMetrics"].as_array()?.iter().flat_map(|scope| scope["metrics"].as_array());
    let metric = metrics.flatten().find(|metric| metric["name"] == name)?;
    [&metric["sum"], &metric["gauge"]].into_iter().find_map(|of| of["dataPoints"].as_array())
}

/// On the others.
pub(crate) fn others_agree() -> Result<()> {
    let is_whole = std::env::var("SCHEDSCOPE_KERNELS").is_ok_and(|value| value == "all");
    if !is_whole {
        return agree(&SHORT.iter().collect::<Vec<_>>()).map(|_rows| ());
    }
    let mut kernels: Vec<&Kernel> = SHORT.iter().chain(&LONG).chain(&ARM64).collect();
    // every kernel beside its own flavours, in the table as in the log
    kernels.sort_by_key(|kernel| SUITES.iter().position(|suite| *suite == kernel.suite));
    table::write(&agree(&kernels)?)
}

/// On the other machine.
pub(crate) fn arm64_agrees() -> Result<()> {
    agree(&ARM64.iter().collect::<Vec<_>>()).map(|_rows| ())
}

/// A row of the table for each.
fn agree(kernels: &[&Kernel]) -> Result<Vec<String>> {
    let luggage = Luggage::pack()?;
    let queue = Mutex::new((0..kernels.len()).collect::<Vec<_>>());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(at) =
                    queue.lock().ok().and_then(|mut queue| (!queue.is_empty()).then(|| queue.remove(0)))
                {
                    let seen = luggage.verify(kernels[at]);
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
        println!("  {}: {}", seen.name, table::summary(&seen.report));
        judge(kernels[at], &seen)?;
        rows.push(table::row(&seen));
    }
    Ok(rows)
}

/// Kernels without task storage say so, and are measured by single events; all others agree.
fn judge(kernel: &Kernel, seen: &Seen) -> Result<()> {
    let findings = seen.report["findings"].as_array().context("no findings")?;
    let programs = findings.iter().find(|finding| finding["about"] == "programs").context("no programs")?;
    let rows = seen.report["verify"].as_array().context("nothing was verified")?;
    let (is_by_events, is_rt) = (kernel.suite == "bullseye", kernel.flavour.starts_with("rt"));
    if is_by_events {
        let found = programs["found"].as_str().unwrap_or_default();
        // its BPF ring would sleep where all of the kernel can be preempted
        let backend = if is_rt { "tracefs backend is used" } else { "tracepoint backend is used" };
        ensure!(found.contains("no BPF task storage") && found.contains(backend), "{programs}");
    } else {
        ensure!(programs["grade"] == "ok", "{}: {programs:#}", seen.name);
    }
    ensure!(rows.len() > if is_by_events { 70 } else { 80 }, "{}: only {} rows", seen.name, rows.len());
    let off: Vec<&Value> =
        rows.iter().filter(|row| row["outcome"]["within"] == false || row["outcome"]["failed"].is_string()).collect();
    for row in &off {
        println!("  {}: off: {} {} {}", seen.name, row["whose"], row["what"], row["outcome"]);
    }
    let allowed = if is_by_events && is_rt { OFF_BY_TEXT_RT } else { 0 };
    ensure!(off.len() <= allowed, "{}: {off:#?}", seen.name);
    let not_played: Vec<&Value> = rows.iter().filter(|row| row["what"] == "all of it").collect();
    ensure!(not_played.is_empty(), "{}: {not_played:#?}", seen.name);
    if is_by_events {
        return Ok(());
    }
    let quota = rows.iter().find(|row| row["what"] == "throttled (cpu.stat)").context("no row of a quota")?;
    if kernel.is_ext {
        let found = findings.iter().find(|finding| finding["about"] == "sched_ext").context("no word of sched_ext")?;
        ensure!(found["found"].to_string().contains(SCHEDULER), "{found}");
    }
    ensure!(quota["outcome"]["ours"].is_number(), "{}: {quota}", seen.name);
    Ok(())
}

fn indented(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().map(|line| format!("  {line}\n")).collect()
}
