//! `schedscope`: runs the agent until told to stop.

use std::io;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::arguments::ConfigArguments;
use super::load::{Loaded, load, told};
use super::logs::Log;
use super::tell;
use crate::agent::{self, Agent, RunError};
use crate::pipeline::{Components, Plan, Signal};
use crate::telemetry::Telemetry;

/// Threads of the runtime where applications send to us, at most.
const WORKERS_MAX: usize = 4;

/// Nothing to print; or why the run could not begin.
pub(super) fn run(config: &ConfigArguments, components: &Components) -> Result<String, String> {
    let since = Instant::now();
    let Loaded { plan, notes } = load(config, components).map_err(|problems| told(&problems))?;
    let log = Log::default();
    follow(&log, &plan);
    log.install().map_err(|error| format!("the log cannot be installed: {error}"))?;
    for note in &notes {
        tracing::info!("{note}");
    }
    let runtime = runtime(&plan).map_err(|error| format!("the runtime cannot start: {error}"))?;
    let ended = runtime.block_on(async {
        let commands = agent::from_signals().map_err(|error| format!("signals cannot be handled: {error}"))?;
        let agent = Agent {
            version: env!("CARGO_PKG_VERSION"),
            since,
            telemetry: Telemetry::default(),
            load: &|| load(config, components).map(|loaded| loaded.plan),
            on_plan: &|plan| follow(&log, plan),
        };
        agent.run(plan, commands).await.map_err(|error| match error {
            RunError::Config(problems) => told(&problems),
            RunError::Start(failure) => failure.to_string(),
        })
    });
    // Whatever still blocks (a name that is looked up, a disk) must not hold up the end.
    runtime.shutdown_background();
    ended.map(|_| String::new())
}

pub(super) fn follow(log: &Log, plan: &Plan) {
    for trouble in log.follow(&plan.service.telemetry.logs) {
        tell(&trouble);
    }
}

/// One thread does for our own data: its reader and its processors cost little, and one thread wakes the
/// host least. Where applications send to us, decoding their requests gets threads of its own. A reload
/// keeps what was chosen at the start.
pub(super) fn runtime(plan: &Plan) -> io::Result<Runtime> {
    let serves = plan.receivers.iter().any(|receiver| receiver.factory.emits.iter().any(|one| *one != Signal::Sched));
    let mut builder = if serves { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    if serves {
        builder.worker_threads(std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(WORKERS_MAX)));
    }
    builder.enable_all().thread_name("schedscope").build()
}
