//! Moves data: one task per segment of a plan, bounded channels between, an ordered end.
//!
//! A segment is a maximal chain of processors without a branch. Order of start: extensions, exporters,
//! processors, receivers; a component that cannot start ends all that started before it. Order of the end,
//! under one deadline: receivers stop, segments drain and flush, exporters deliver what is queued,
//! extensions close. Refuses to know: which components exist, signals of the process, the config's text.

mod build;
mod chain;
mod end;
mod fanout;
mod segment;
mod sink;
mod start;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::build::Network;
use self::end::Rest;
use self::segment::Stop;
use super::component::{Exporter, Extension, Receiver, StartError};
use super::plan::Plan;
use crate::config::Problems;
use crate::telemetry::Telemetry;

pub use self::end::{Drained, Leftover};

/// Components, built and wired, nothing started.
pub struct Assembly {
    network: Network,
    telemetry: Telemetry,
}

/// A component could not start; what had started before it has been ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{id}` cannot start: {error}")]
pub struct Failure {
    /// `extension`, `exporter` or `receiver`.
    pub kind: &'static str,
    /// Its id.
    pub id: Arc<str>,
    /// Its own words.
    pub error: StartError,
}

impl Assembly {
    /// Builds every component of a plan. No file is opened and no port bound yet.
    pub fn build(plan: &Plan, telemetry: &Telemetry, version: &'static str) -> Result<Self, Problems> {
        Ok(Self { network: build::build(plan, telemetry, version)?, telemetry: telemetry.clone() })
    }

    /// Starts everything; on failure ends what was started, by the deadline given.
    pub async fn start(self, deadline_on_failure: Instant) -> Result<Running, Failure> {
        let mut running = Running::default();
        match running.start(self.network, &self.telemetry).await {
            Ok(()) => Ok(running),
            Err(failure) => {
                running.shutdown(deadline_on_failure).await;
                Err(failure)
            }
        }
    }
}

/// A task and the component it is named after; it gives what was left in it.
type Task = (Arc<str>, JoinHandle<Rest>);

/// Started components. End them with [`Running::shutdown`].
pub struct Running {
    extensions: Vec<(Arc<str>, Arc<dyn Extension>)>,
    exporters: Vec<(Arc<str>, Arc<dyn Exporter>)>,
    sinks: Vec<Task>,
    segments: Vec<Task>,
    receivers: Vec<(Arc<str>, Box<dyn Receiver>)>,
    segment_stop: Stop,
    sink_stop: Stop,
    deadline: watch::Sender<Instant>,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            extensions: Vec::new(),
            exporters: Vec::new(),
            sinks: Vec::new(),
            segments: Vec::new(),
            receivers: Vec::new(),
            segment_stop: Stop::default(),
            sink_stop: Stop::default(),
            deadline: watch::channel(Instant::now()).0,
        }
    }
}
