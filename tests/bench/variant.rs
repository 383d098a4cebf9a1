//! What is measured: nothing, an empty program, ours, peers. Each is a child process or a loaded object.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, Object, ObjectBuilder};

/// Something that costs, while it lives.
pub(crate) enum Running {
    Nothing,
    Child(Child),
    Object { _links: Vec<Link>, _object: Box<Object> },
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Child(child) = self {
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
            let deadline = Instant::now() + Duration::from_secs(15);
            while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Nothing,
    Empty,
    MetricsOnly,
    MetricsAndSpans,
    Everything,
    Tracepoint,
    Tracefs,
    Bpftrace,
    PerfRecord,
}

const RUNQLAT: &str = "tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @q[args->pid] = nsecs; } \
    tracepoint:sched:sched_switch { if (args->prev_state == 0) { @q[args->prev_pid] = nsecs; } \
    $n = @q[args->next_pid]; if ($n) { @us = hist((nsecs - $n) / 1000); } delete(@q[args->next_pid]); }";

impl Variant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Empty => "empty tp_btf program",
            Self::MetricsOnly => "schedscope, metrics only",
            Self::MetricsAndSpans => "schedscope, metrics + spans",
            Self::Everything => "schedscope, every cycle",
            Self::Tracepoint => "schedscope, metrics + spans, by classic tracepoints",
            Self::Tracefs => "schedscope, metrics + spans, by the text of tracefs",
            Self::Bpftrace => "bpftrace runqlat one-liner",
            Self::PerfRecord => "perf sched record",
        }
    }

    /// Starts it and returns once it is attached; `None` where this machine lacks it.
    pub(crate) fn start(self, folder: &Path) -> Option<Running> {
        match self {
            Self::Nothing => Some(Running::Nothing),
            Self::Empty => empty(folder),
            Self::MetricsOnly => agent(folder, "metrics", METRICS_ONLY),
            Self::MetricsAndSpans => agent(folder, "spans", &spans("{}")),
            Self::Everything => agent(folder, "everything", &spans("{select: {preset: everything}}")),
            Self::Tracepoint => agent(folder, "tracepoint", &spans("{backend: tracepoint}")),
            Self::Tracefs => agent(folder, "tracefs", &spans("{backend: tracefs}")),
            Self::Bpftrace => {
                child(Command::new("bpftrace").args(["-e", RUNQLAT]), "Attaching", Duration::from_secs(3))
            }
            Self::PerfRecord => {
                let file = folder.join("perf.data");
                let mut command = Command::new("perf");
                command.args(["sched", "record", "-o"]).arg(file);
                child(&mut command, "", Duration::from_secs(2))
            }
        }
    }
}

const METRICS_ONLY: &str = "
receivers: {sched: {}}
processors: {container: {}, sched_metrics: {metrics: {linux.sched.contention.time: {enabled: false}}}}
exporters: {file: {path: /dev/null}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [sched], processors: [container, sched_metrics], exporters: [file]}
";

fn spans(sched: &str) -> String {
    spans_with(sched, "{}")
}

/// Spans and metrics, with these settings of the receiver and of `sched_spans`.
pub(crate) fn spans_with(sched: &str, sched_spans: &str) -> String {
    format!(
        "
receivers: {{sched: {sched}}}
processors: {{container: {{}}, sched_metrics: {{}}, sched_spans: {sched_spans}}}
exporters: {{file: {{path: /dev/null}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [sched], processors: [container, sched_metrics], exporters: [file]}}
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}
"
    )
}

/// The agent under test: the release binary that `cargo bench` built.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_schedscope"))
}

pub(crate) fn agent(folder: &Path, name: &str, yaml: &str) -> Option<Running> {
    let config = folder.join(format!("{name}.yaml"));
    fs::write(&config, yaml).ok()?;
    child(Command::new(binary()).arg("--config").arg(config), "Everything is ready", Duration::ZERO)
}

/// Starts a child and waits for a line that holds `ready`, then a little longer.
fn child(command: &mut Command, ready: &str, settle: Duration) -> Option<Running> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let (out, err) = (child.stdout.take()?, child.stderr.take()?);
    let (told, heard) = std::sync::mpsc::channel();
    for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
        let (told, ready) = (told.clone(), ready.to_owned());
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if !ready.is_empty() && line.contains(&ready) {
                    let _ = told.send(());
                }
            }
        });
    }
    if !ready.is_empty() && heard.recv_timeout(Duration::from_secs(30)).is_err() {
        drop(Running::Child(child));
        return None;
    }
    std::thread::sleep(settle);
    Some(Running::Child(child))
}

fn empty(folder: &Path) -> Option<Running> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/empty.bpf.c");
    let object = folder.join("empty.bpf.o");
    let mut compile = Command::new("clang");
    compile.args(["-g", "-O2", "-target", "bpf", "-c"]).arg(source).arg("-o").arg(&object);
    compile.status().ok().filter(|status| status.success())?;
    let loaded = Box::new(ObjectBuilder::default().open_file(&object).ok()?.load().ok()?);
    let links = loaded.progs_mut().filter_map(|program| program.attach().ok()).collect::<Vec<_>>();
    (!links.is_empty()).then_some(Running::Object { _links: links, _object: loaded })
}
