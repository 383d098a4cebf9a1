//! `schedscope replay` through pipelines: the input takes the place of the config's `sched` receivers.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::agent::{self, Agent, Command, Ended, RunError};
use crate::cli::arguments::{ConfigArguments, ReplayArguments};
use crate::cli::load::{load, told};
use crate::cli::logs::Log;
use crate::cli::run::{follow, runtime};
use crate::config::Body;
use crate::pipeline::service::MetricLevel;
use crate::pipeline::{Components, Plan};
use crate::receivers::replay;
use crate::telemetry::Telemetry;

/// How often it is asked whether the input has ended.
const POLL: Duration = Duration::from_millis(20);
/// A receiver at the other end may be slow; a second signal ends the wait.
const DRAIN: Duration = Duration::from_secs(600);

/// Without a config: everything as OTLP JSON lines on standard output.
const EMBEDDED: &str = "\
receivers: {sched: {}}
processors: {sched_spans: {}, sched_metrics: {}}
exporters: {file: {path: /dev/stdout}}
service:
  telemetry: {logs: {level: warn}}
  pipelines:
    traces: {receivers: [sched], processors: [sched_spans], exporters: [file]}
    metrics: {receivers: [sched], processors: [sched_metrics], exporters: [file]}
";

/// Runs the input through the pipelines of the config until all of it is delivered.
pub(super) fn run(
    arguments: &ReplayArguments,
    config: &ConfigArguments,
    components: &Components,
) -> Result<String, String> {
    let mut config = config.clone();
    if config.sources.is_empty() {
        config.sources.push(format!("yaml:{EMBEDDED}"));
    }
    let loaded = load(&config, components).map_err(|problems| told(&problems))?;
    let plan = replaying(loaded.plan, arguments)?;
    let log = Log::default();
    follow(&log, &plan);
    log.install().map_err(|error| format!("the log cannot be installed: {error}"))?;
    let runtime = runtime(&plan).map_err(|error| format!("the runtime cannot start: {error}"))?;
    let telemetry = Telemetry::default();
    let ended = runtime.block_on(play(plan, &telemetry));
    runtime.shutdown_background();
    judge(&ended?, &telemetry)
}

async fn play(plan: Plan, telemetry: &Telemetry) -> Result<Ended, String> {
    let mut signals = agent::from_signals().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let (commands, taken) = mpsc::channel(8);
    let inputs = plan.receivers.len();
    let health = telemetry.health().clone();
    tokio::spawn(async move {
        let mut told = false;
        loop {
            let command = tokio::select! {
                command = signals.recv() => command,
                () = tokio::time::sleep(POLL), if !told => {
                    if health.ended_inputs().len() < inputs {
                        continue;
                    }
                    told = true;
                    Some(Command::Stop)
                }
            };
            // there is no config to take anew: the input cannot be read twice
            if let Some(Command::Stop) | None = command
                && commands.send(Command::Stop).await.is_err()
            {
                return;
            }
        }
    });
    let kept = plan.clone();
    let agent = Agent {
        version: env!("CARGO_PKG_VERSION"),
        since: Instant::now(),
        telemetry: telemetry.clone(),
        load: &|| Ok(kept.clone()),
        on_plan: &|_| {},
    };
    agent.run(plan, taken).await.map_err(|error| match error {
        RunError::Config(problems) => told(&problems),
        RunError::Start(failure) => failure.to_string(),
    })
}

/// The plan with the input in the place of every `sched` receiver; other receivers would never end.
fn replaying(mut plan: Plan, arguments: &ReplayArguments) -> Result<Plan, String> {
    plan.receivers.retain(|receiver| receiver.factory.name == "sched");
    let Some(first) = plan.receivers.first() else {
        return Err("the config has no pipeline that begins with a `sched` receiver, whose place the input would take"
            .to_owned());
    };
    let first = first.id.clone();
    if plan.receivers.len() > 1 {
        return Err("the config has several `sched` receivers; an input can take the place of one".to_owned());
    }
    let settings = serde_json::json!({"path": arguments.file, "boot_time": arguments.boot_time});
    let path = format!("receivers::{first}");
    for receiver in &mut plan.receivers {
        receiver.factory = &replay::FACTORY;
        receiver.body =
            Body::from_yaml(path.as_str(), &settings.to_string()).map_err(|problems| problems.to_string())?;
        let mistakes = (receiver.factory.settings.check)(&receiver.body);
        if !mistakes.0.is_empty() {
            return Err(mistakes.to_string());
        }
    }
    for tree in &mut plan.trees {
        tree.inputs.retain(|input| input.receiver == first);
    }
    plan.trees.retain(|tree| !tree.inputs.is_empty());
    // the live agent's port is not ours
    plan.service.telemetry.metrics.level = MetricLevel::None;
    plan.service.telemetry.metrics.readers.clear();
    plan.service.shutdown_timeout.0 = plan.service.shutdown_timeout.0.max(DRAIN);
    Ok(plan)
}

/// Whether everything arrived.
fn judge(ended: &Ended, telemetry: &Telemetry) -> Result<String, String> {
    let series = telemetry.snapshot();
    let sum =
        |part: &str| -> u64 { series.iter().filter(|one| one.key.name.contains(part)).map(|one| one.value).sum() };
    let failed = sum("otelcol_exporter_send_failed") + sum("otelcol_exporter_enqueue_failed");
    let wrong = [
        (telemetry.sum("otelcol_receiver_replay_unreadable"), "places could not be read"),
        (telemetry.sum("otelcol_receiver_replay_lost_events"), "events had been lost when it was recorded"),
        (u64::from(telemetry.sum("otelcol_receiver_replay_records") == 0), "input without a scheduler event"),
        (failed, "items could not be sent"),
        (ended.drained.left_items() as u64, "items were left behind"),
    ];
    let wrong: Vec<String> =
        wrong.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if wrong.is_empty() { Ok(String::new()) } else { Err(format!("replayed with losses: {}", wrong.join(", "))) }
}
