//! What a component is: receivers await and send, processors are synchronous, exporters make one attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::data::{Data, Signal};
use super::export::{ExportError, Exported};
use super::host::{Authenticator, Host, Storage};
use super::receipt::{Parcel, Receipt};
use crate::model::Wants;
use crate::telemetry::Telemetry;

/// A component could not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    /// What happened and what to do about it.
    pub message: String,
}

impl StartError {
    /// From any text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Data was not taken; the sender may try again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Why, for the sender's log.
    pub reason: String,
}

/// Asked before data enters a pipeline (`memory_limiter`).
pub trait Gate: Send + Sync {
    /// Refuses new data while it must.
    fn admit(&self, data: &Data) -> Result<(), Refused>;
}

/// One way out of a receiver: the first stage of a pipeline.
#[derive(Clone)]
pub struct Branch {
    /// What it takes.
    pub signal: Signal,
    /// Its bounded input.
    pub input: mpsc::Sender<Parcel>,
    /// The gates of that pipeline.
    pub gates: Vec<Arc<dyn Gate>>,
    /// What that pipeline needs of a `sched` receiver.
    pub wants: Wants,
}

/// Where a receiver sends: every pipeline that begins with it. Clones share the channels.
#[derive(Clone, Default)]
pub struct Outlet {
    branches: Vec<Branch>,
    counted: Option<Counted>,
}

/// Who counts what goes out.
#[derive(Clone)]
struct Counted {
    telemetry: Telemetry,
    receiver: Arc<str>,
    transport: &'static str,
}

impl Outlet {
    /// An outlet to these branches.
    pub fn new(branches: Vec<Branch>) -> Self {
        Self { branches, counted: None }
    }

    /// What all pipelines behind it need of a `sched` receiver.
    pub fn wants(&self) -> Wants {
        self.branches.iter().fold(Wants::default(), |all, branch| all.merge(branch.wants))
    }

    /// Counts accepted and refused items under the receiver's id; `transport` as the Collector has it,
    /// empty for what comes by no network.
    #[must_use]
    pub fn counted(mut self, telemetry: &Telemetry, receiver: &Arc<str>, transport: &'static str) -> Self {
        self.counted = Some(Counted { telemetry: telemetry.clone(), receiver: Arc::clone(receiver), transport });
        self
    }

    /// Whether any pipeline takes this signal.
    pub fn takes(&self, signal: Signal) -> bool {
        self.branches.iter().any(|branch| branch.signal == signal)
    }

    /// Gives data to every pipeline that takes it, waiting at most `patience` for room.
    /// Refused where any gate refuses or any pipeline has no room; then none got it.
    pub async fn send(&self, data: Data, patience: Duration) -> Result<(), Refused> {
        let (signal, items) = (data.signal(), data.items());
        let sent = self.send_uncounted(data, &Receipt::default(), patience).await;
        self.count(signal, items, sent.is_ok());
        sent
    }

    /// As [`Self::send`], and waits until somebody behind it answers for the data: then it may be acknowledged.
    pub async fn deliver(&self, data: Data, patience: Duration) -> Result<(), Refused> {
        let (signal, items) = (data.signal(), data.items());
        let (receipt, outcome) = Receipt::new();
        let sent = self.send_uncounted(data, &receipt, patience).await;
        drop(receipt);
        let delivered = match sent {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(Refused { reason: SHUT_DOWN.into() })),
            refused => refused,
        };
        self.count(signal, items, delivered.is_ok());
        delivered
    }

    async fn send_uncounted(&self, data: Data, receipt: &Receipt, patience: Duration) -> Result<(), Refused> {
        let takers: Vec<&Branch> = self.branches.iter().filter(|branch| branch.signal == data.signal()).collect();
        for branch in &takers {
            for gate in &branch.gates {
                gate.admit(&data)?;
            }
        }
        let mut permits = Vec::with_capacity(takers.len());
        for branch in takers {
            let permit = match branch.input.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Closed(())) => return Err(Refused { reason: SHUT_DOWN.into() }),
                Err(mpsc::error::TrySendError::Full(())) => {
                    match tokio::time::timeout(patience, branch.input.reserve()).await {
                        Ok(Ok(permit)) => permit,
                        Ok(Err(_)) => return Err(Refused { reason: SHUT_DOWN.into() }),
                        Err(_) => return Err(Refused { reason: NO_ROOM.into() }),
                    }
                }
            };
            permits.push(permit);
        }
        let last = permits.pop();
        for permit in permits {
            permit.send(Parcel { data: data.clone(), receipt: receipt.clone() });
        }
        match last {
            Some(permit) => permit.send(Parcel { data, receipt: receipt.clone() }),
            // No pipeline takes it: nothing is lost that anybody wanted.
            None => receipt.taken(),
        }
        Ok(())
    }

    /// Gives data without waiting, from any thread; for sources that must never be held up.
    pub fn try_send(&self, data: &Data) -> Result<(), Refused> {
        let mut refused = None;
        for branch in self.branches.iter().filter(|branch| branch.signal == data.signal()) {
            let admitted = branch.gates.iter().try_for_each(|gate| gate.admit(data));
            let sent = admitted.and_then(|()| {
                branch
                    .input
                    .try_send(Parcel { data: data.clone(), receipt: Receipt::default() })
                    .map_err(|_| Refused { reason: NO_ROOM.into() })
            });
            if let Err(why) = sent {
                refused = Some(why);
            }
        }
        self.count(data.signal(), data.items(), refused.is_none());
        refused.map_or(Ok(()), Err)
    }

    fn count(&self, signal: Signal, items: usize, accepted: bool) {
        let Some(Counted { telemetry, receiver, transport }) = &self.counted else { return };
        let (taken, refused, unit) = match signal {
            Signal::Traces => ("otelcol_receiver_accepted_spans", "otelcol_receiver_refused_spans", "{span}"),
            Signal::Metrics => {
                ("otelcol_receiver_accepted_metric_points", "otelcol_receiver_refused_metric_points", "{datapoint}")
            }
            Signal::Logs => {
                ("otelcol_receiver_accepted_log_records", "otelcol_receiver_refused_log_records", "{record}")
            }
            Signal::Sched => ("otelcol_receiver_accepted_cycles", "otelcol_receiver_refused_cycles", "{cycle}"),
        };
        let both = [("receiver", receiver.as_ref()), ("transport", transport)];
        let attributes = if transport.is_empty() { &both[..1] } else { &both[..] };
        telemetry.counter(if accepted { taken } else { refused }, unit, attributes).add(items as u64);
    }
}

const NO_ROOM: &str = "the pipeline has no room";
const SHUT_DOWN: &str = "the pipeline has been shut down";

/// A source of data.
#[async_trait]
pub trait Receiver: Send {
    /// Binds, loads, attaches; returns when data can flow, or why it cannot.
    async fn start(&mut self, outlet: Outlet) -> Result<(), StartError>;

    /// Stops the source and sends what it still holds; safe before `start` and twice.
    async fn shutdown(&mut self);
}

/// Collects what a processor gives.
#[derive(Default)]
pub struct Outbox {
    items: Vec<Data>,
}

impl Outbox {
    /// Gives one batch to the next stages; empty batches go no further.
    pub fn send(&mut self, data: Data) {
        if !data.is_empty() {
            self.items.push(data);
        }
    }

    /// Takes what was given.
    pub fn drain(&mut self) -> impl Iterator<Item = Data> + '_ {
        self.items.drain(..)
    }
}

/// A stage between receivers and exporters: synchronous, one instance owned by one task.
pub trait Processor: Send {
    /// Takes one batch, gives any number.
    fn process(&mut self, data: Data, out: &mut Outbox);

    /// When `tick` wants to be called next, if at all.
    fn next_tick(&self) -> Option<Instant> {
        None
    }

    /// The time has come.
    fn tick(&mut self, _now: Instant, _out: &mut Outbox) {}

    /// The input has ended: give what is held.
    fn flush(&mut self, _out: &mut Outbox) {}

    /// What it needs of a `sched` receiver in front of it.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// A gate to ask before data enters the pipeline.
    fn gate(&self) -> Option<Arc<dyn Gate>> {
        None
    }
}

/// Sends to one endpoint. Queue, retry, timeout and splitting are layers around it (`pipeline::delivery`).
#[async_trait]
pub trait Exporter: Send + Sync {
    /// What a person calls the place it sends to, such as `localhost:4317`; empty: the component's id says it.
    fn target(&self) -> &str {
        ""
    }

    /// Connects lazily where it can; fails only on what no retry can mend.
    async fn start(&self, _host: &Host) -> Result<(), StartError> {
        Ok(())
    }

    /// One attempt.
    async fn export(&self, data: &Data) -> Result<Exported, ExportError>;

    /// Flushes and closes; no attempt follows.
    async fn shutdown(&self) {}
}

/// Something beside the pipelines: health check, storage, authentication.
#[async_trait]
pub trait Extension: Send + Sync {
    /// Binds and starts.
    async fn start(&self) -> Result<(), StartError>;

    /// Ends; safe before `start` and twice.
    async fn shutdown(&self);

    /// A place where queues may keep records, if it is one.
    fn storage(&self) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Credentials for outgoing requests, if it has any.
    fn authenticator(&self) -> Option<Arc<dyn Authenticator>> {
        None
    }
}
