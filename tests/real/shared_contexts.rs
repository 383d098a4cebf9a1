//! Other eBPF instrumentation tells which span a thread is in, by its pinned map `traces_ctx_v1`: intervals hang under
//! those spans, and under no other.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapHandle, MapType, libbpf_sys};

use crate::support::agent::Agent;
use crate::support::collector::spans_in;
use crate::support::folder;
use crate::support::span::Span;

/// The agent's stamps and the program's own are taken a moment apart.
const GRAIN_NS: u64 = 500_000;
/// Until then a process that is told of is known.
const KNOWN_NS: u64 = 1_500_000_000;

pub(crate) fn are_followed() -> Result<()> {
    let folder = folder()?;
    let pins = Bpffs::mount(folder.path().join("pins"))?;
    let pin = pins.0.join("traces_ctx_v1");
    let output = folder.path().join("spans.json");
    let mut agent = Agent::start(folder.path(), &config(&pin, &output))?;
    // something else under that name is said, and left alone
    make(MapType::Hash, 8, &pin)?;
    agent.says("is not used: it is a map of another layout")?;
    fs::remove_file(&pin)?;
    make(MapType::LruHash, 24, &pin)?;
    agent.says("active spans are also told by")?;
    let truth = folder.path().join("truth");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/publisher/instrumentation.py");
    let status = Command::new("python3").arg(script).args([&pin, &truth]).arg("6").status()?;
    ensure!(status.success(), "the instrumentation ended with {status}");
    agent.stop()?;
    let truth = requests(&fs::read_to_string(truth)?);
    judge(&spans_in(&output)?, &truth).with_context(|| agent.output())
}

fn judge(spans: &[Span], truth: &HashMap<(String, String), (u64, u64)>) -> Result<()> {
    let told: Vec<&Span> =
        spans.iter().filter(|span| span.attributes.contains_key("linux.sched.context.source")).collect();
    let (mut told_of, mut runs) = (HashMap::new(), 0);
    for span in told {
        ensure!(span.attributes["linux.sched.context.source"] == "traces_ctx_v1", "another source: {span:?}");
        let of = truth.get(&(span.trace_id.clone(), span.parent_id.clone()));
        let (begin, end) = of.with_context(|| format!("under a span that never was: {span:?}"))?;
        let is_inside = span.start_ns + GRAIN_NS >= *begin && span.end_ns <= end + GRAIN_NS;
        ensure!(is_inside, "not within {begin} to {end}: {span:?}");
        runs += usize::from(span.name == "sched.run");
        *told_of.entry(&span.parent_id).or_insert(0.0) += span.seconds();
    }
    // a second goes by until the process is known
    let first = truth.values().map(|(begin, _)| *begin).min().unwrap_or(0);
    let known: Vec<&String> =
        truth.iter().filter(|(_, (begin, _))| *begin > first + KNOWN_NS).map(|((_, span), _)| span).collect();
    let whole = known.iter().filter(|span| told_of.get(**span).is_some_and(|seconds| *seconds > 0.0115)).count();
    println!(
        "  {} requests, {whole} of them with the 12 ms that they sleep, or wait as long, {runs} run slices",
        known.len()
    );
    ensure!(known.len() > 300 && whole * 100 >= known.len() * 97, "{whole} of {} requests are told", known.len());
    Ok(())
}

/// Trace and span of each request, with its begin and end.
fn requests(truth: &str) -> HashMap<(String, String), (u64, u64)> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let ids = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((ids, (words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
    };
    truth.lines().filter_map(line).collect()
}

fn make(kind: MapType, value_bytes: u32, pin: &Path) -> Result<()> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    MapHandle::create(kind, Some("traces_ctx_v1"), 8, value_bytes, 16_384, &options)?.pin(pin)?;
    Ok(())
}

/// A BPF file system of the test's own.
struct Bpffs(PathBuf);

impl Bpffs {
    fn mount(at: PathBuf) -> Result<Self> {
        fs::create_dir(&at)?;
        let status = Command::new("mount").args(["-t", "bpf", "none"]).arg(&at).status()?;
        ensure!(status.success(), "mount of a BPF file system: {status}");
        Ok(Self(at))
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn config(pin: &Path, output: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, traces_ctx_v1: '{}', select: {{rate_per_cgroup: 0, rate_total: 0}}}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_spans: {{window: 2s}}}}
exporters: {{file: {{path: '{}'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}}}
",
        pin.display(),
        output.display()
    )
}
