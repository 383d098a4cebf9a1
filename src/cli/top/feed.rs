//! The stock receiver and processors with nothing behind them: a table each interval.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::components::COMPONENTS;
use crate::config::{Body, Period};
use crate::exporters::table::rows::{Last, Table};
use crate::exporters::table::text::Frame;
use crate::pipeline::{Branch, BuildContext, Data, Outbox, Outlet, Parcel, Processor, Receiver, Signal};
use crate::telemetry::Telemetry;

/// Batches between the kernel's reader and us.
const INPUT_BATCHES: usize = 16;

/// One interval of all owners.
pub(super) struct Reading {
    pub(super) table: Table,
    /// What it covers.
    pub(super) seconds: f64,
}

impl Reading {
    /// What stands around its rows.
    pub(super) fn frame(&self, top: usize) -> Frame {
        Frame::now(env!("CARGO_PKG_VERSION"), &self.table, self.seconds, String::new(), top)
    }
}

/// The running stages.
pub(super) struct Feed {
    runtime: Runtime,
    receiver: Box<dyn Receiver>,
    processors: Vec<Box<dyn Processor>>,
    input: mpsc::Receiver<Parcel>,
    last: Last,
    interval: Duration,
    ready: VecDeque<Reading>,
    /// Of the last points, 0 before the first: those have everything since the start in them.
    time_ns: u64,
}

impl Feed {
    /// Starts them; fails with what the receiver says.
    pub(super) fn start(interval: Duration) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let telemetry = Telemetry::default();
        let context = |name: &str| BuildContext::new(name.into(), telemetry.clone(), env!("CARGO_PKG_VERSION"));
        let mut processors = Vec::new();
        let settings = [
            ("container", "{}".to_owned()),
            ("sched_metrics", "{temporality: delta, max_series: 10000, exemplars: false}".to_owned()),
        ];
        for (name, settings) in settings {
            let factory = COMPONENTS.processors.iter().find(|factory| factory.name == name);
            let factory = factory.ok_or_else(|| format!("this build has no {name}"))?;
            let body = Body::from_yaml(name, &settings).map_err(|problems| problems.to_string())?;
            processors.push((factory.build)(&body, &context(name)).map_err(|problems| problems.to_string())?);
        }
        let factory = COMPONENTS.receivers.iter().find(|factory| factory.name == "sched");
        let factory = factory.ok_or("this build has no sched")?;
        let settings = format!("{{collection_interval: {}}}", Period(interval));
        let body = Body::from_yaml("sched", &settings).map_err(|problems| problems.to_string())?;
        let mut receiver = (factory.build)(&body, &context("sched")).map_err(|problems| problems.to_string())?;
        let (sender, input) = mpsc::channel(INPUT_BATCHES);
        let wants = processors.iter().fold(Default::default(), |all: crate::model::Wants, one| all.merge(one.wants()));
        let outlet = Outlet::new(vec![Branch { signal: Signal::Sched, input: sender, gates: Vec::new(), wants }]);
        runtime.block_on(receiver.start(outlet)).map_err(|error| error.message)?;
        let (last, ready) = (Last::default(), VecDeque::new());
        Ok(Self { runtime, receiver, processors, input, last, interval, ready, time_ns: 0 })
    }

    /// Time that one reading covers.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// The next reading; `None` where none comes within the patience.
    pub(super) fn next(&mut self, patience: Option<Duration>) -> Result<Option<Reading>, String> {
        loop {
            if let Some(reading) = self.ready.pop_front() {
                return Ok(Some(reading));
            }
            let input = &mut self.input;
            let next = self.runtime.block_on(async {
                match patience {
                    None => Ok(input.recv().await),
                    Some(patience) => tokio::time::timeout(patience, input.recv()).await,
                }
            });
            match next {
                Err(_) => return Ok(None),
                Ok(None) => return Err("the kernel's side has ended".to_owned()),
                Ok(Some(parcel)) => self.take(parcel.data),
            }
        }
    }

    fn take(&mut self, data: Data) {
        let mut all = vec![data];
        for processor in &mut self.processors {
            let mut out = Outbox::default();
            for data in all {
                processor.process(data, &mut out);
            }
            all = out.drain().collect();
        }
        for data in all {
            let Data::Metrics(metrics) = data else { continue };
            let table = self.last.table(&metrics);
            let seconds = table.time_ns.saturating_sub(self.time_ns) as f64 / 1e9;
            let is_first = std::mem::replace(&mut self.time_ns, table.time_ns) == 0;
            if !is_first {
                self.ready.push_back(Reading { table, seconds });
            }
        }
    }

    /// Ends them.
    pub(super) fn stop(mut self) {
        self.input.close();
        self.runtime.block_on(self.receiver.shutdown());
        self.runtime.shutdown_background();
    }
}
