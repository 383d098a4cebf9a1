//! What the verifier makes of the switch program: kernels allow a million instructions, and a change that doubles the
//! ways through it is not seen otherwise until one refuses to load it.

use anyhow::{Result, ensure};
use libbpf_rs::query::ProgInfoIter;

use crate::support::agent::Agent;
use crate::support::folder;

/// Half of what kernels allow.
const INSTRUCTIONS_MAX: u32 = 500_000;
const EVERYTHING: &str = "
receivers: {sched: {select: {preset: everything}}, otlp: {protocols: {grpc: {endpoint: '127.0.0.1:0'}}}}
processors:
  container: {runtimes: [], kubernetes: {source: none}}
  sched_metrics: {metrics: {linux.sched.run.duration: {enabled: true}, linux.sched.block.duration: {enabled: true}}}
  sched_spans: {}
  sched_enrich: {}
exporters: {file: {path: /dev/null}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [sched], processors: [container, sched_metrics], exporters: [file]}
    traces: {receivers: [sched], processors: [container, sched_spans], exporters: [file]}
    traces/app: {receivers: [otlp], processors: [sched_enrich], exporters: [file]}
";

pub(crate) fn are_far_from_the_verifiers_bound() -> Result<()> {
    let folder = folder()?;
    let before: Vec<u32> = ProgInfoIter::default().map(|program| program.id).collect();
    let mut agent = Agent::start(folder.path(), EVERYTHING)?;
    let ours = ProgInfoIter::default().filter(|program| !before.contains(&program.id));
    let mut told: Vec<(u32, String)> =
        ours.map(|program| (program.verified_insns, program.name.to_string_lossy().into_owned())).collect();
    agent.stop()?;
    told.sort();
    let most: Vec<_> = told.iter().rev().take(3).collect();
    println!("  instructions that the verifier walked: {most:?}");
    ensure!(told.iter().any(|(_, name)| name == "sched_switch"), "the switch program is not there: {told:?}");
    ensure!(most.iter().all(|(count, _)| *count <= INSTRUCTIONS_MAX), "{most:?}");
    Ok(())
}
