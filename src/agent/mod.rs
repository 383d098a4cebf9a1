//! How a run begins and ends: plan, start, wait, reload, drain, report.
//!
//! Refuses to know: how a config is read (it is handed in as [`Loader`]), where logs go, exit codes.

mod commands;
mod farewell;
mod own;

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::config::Problems;
use crate::pipeline::{Assembly, Drained, Failure, Plan, Running};
use crate::telemetry::{Phase, Telemetry};

pub use commands::{Command, from_signals};

/// Gives the plan of the config as it is now; called at the start and at each reload.
pub type Loader<'a> = dyn Fn() -> Result<Plan, Problems> + Sync + 'a;

/// Told of each plan that runs from now on; the log follows its `service` section.
pub type OnPlan<'a> = dyn Fn(&Plan) + Sync + 'a;

/// Why a run could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The config has mistakes; nothing was started.
    #[error("{0}")]
    Config(Problems),
    /// A component could not start; what had started before it has been ended.
    #[error("{0}")]
    Start(#[from] Failure),
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Told to stop a second time, before the drain was over.
    pub at_once: bool,
    /// What was left.
    pub drained: Drained,
}

/// One run of the agent.
pub struct Agent<'a> {
    /// This build's version.
    pub version: &'static str,
    /// When the process began.
    pub since: Instant,
    /// The counters and the condition, kept over reloads.
    pub telemetry: Telemetry,
    /// Reads the config.
    pub load: &'a Loader<'a>,
    /// Told of each plan that runs.
    pub on_plan: &'a OnPlan<'a>,
}

/// A plan and what runs of it.
struct Run {
    plan: Plan,
    running: Running,
    own: own::OwnReaders,
}

impl Run {
    fn patience(&self) -> Duration {
        self.plan.service.shutdown_timeout.0
    }
}

impl Agent<'_> {
    /// Runs a plan until told to stop; `commands` that close stop as well.
    pub async fn run(&self, plan: Plan, mut commands: mpsc::Receiver<Command>) -> Result<Ended, RunError> {
        let starting = self.start(plan);
        let mut run = tokio::select! {
            run = starting => run?,
            () = stopped(&mut commands) => {
                tracing::info!("told to stop while starting");
                return Ok(Ended { at_once: true, ..Ended::default() });
            }
        };
        tracing::info!("Everything is ready. Begin running and processing data.");
        while commands.recv().await == Some(Command::Reload) {
            run = self.reload(run).await?;
        }
        Ok(self.stop(run, &mut commands).await)
    }

    async fn start(&self, plan: Plan) -> Result<Run, RunError> {
        self.telemetry.health().enter(Phase::Starting);
        for warning in &plan.warnings {
            tracing::warn!("{warning}");
        }
        let assembly = Assembly::build(&plan, &self.telemetry, self.version).map_err(RunError::Config)?;
        let running = assembly.start(Instant::now() + plan.service.shutdown_timeout.0).await?;
        let own = own::OwnReaders::start(&plan.service.telemetry, &self.telemetry, self.version, self.since).await;
        self.telemetry.health().enter(Phase::Ready);
        Ok(Run { plan, running, own })
    }

    /// Changes to the config as it is now. One with mistakes changes nothing; one that cannot start gives
    /// way to the old one, started anew.
    async fn reload(&self, mut run: Run) -> Result<Run, RunError> {
        tracing::info!("reloading the config");
        let new = (self.load)().and_then(|plan| {
            // A rehearsal: what cannot be built must not cost the run that works.
            Assembly::build(&plan, &Telemetry::default(), self.version).map(|_| plan)
        });
        let new = match new {
            Ok(plan) => plan,
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!("{problem}");
                }
                tracing::error!("the new config has mistakes; the old one keeps running");
                return Ok(run);
            }
        };
        let old = run.plan.clone();
        run.own.stop().await;
        let drained = run.running.shutdown(Instant::now() + run.patience()).await;
        if drained.left_items() > 0 {
            tracing::warn!(items = drained.left_items(), "left behind by the old config");
        }
        (self.on_plan)(&new);
        match self.start(new).await {
            Ok(run) => {
                tracing::info!("the new config runs");
                Ok(run)
            }
            Err(error) => {
                tracing::error!("the new config cannot start, going back to the old one: {error}");
                (self.on_plan)(&old);
                self.start(old).await
            }
        }
    }

    async fn stop(&self, mut run: Run, commands: &mut mpsc::Receiver<Command>) -> Ended {
        tracing::info!("Starting shutdown...");
        self.telemetry.health().enter(Phase::Stopping);
        let deadline = Instant::now() + run.patience();
        let drained = tokio::select! {
            drained = run.running.shutdown(deadline) => drained,
            () = stopped(commands) => {
                tracing::warn!("told to stop again: what is queued is left behind");
                return Ended { at_once: true, ..Ended::default() };
            }
        };
        run.own.stop().await;
        tracing::info!("{}", farewell::farewell(&self.telemetry.snapshot(), &drained));
        tracing::info!("Shutdown complete.");
        Ended { at_once: false, drained }
    }
}

/// Until told to stop; commands that have closed say nothing more.
async fn stopped(commands: &mut mpsc::Receiver<Command>) {
    loop {
        match commands.recv().await {
            Some(Command::Stop) => return,
            Some(Command::Reload) => {}
            None => std::future::pending().await,
        }
    }
}
