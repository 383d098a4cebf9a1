//! One-job layers around an exporter's attempt: bounded queue, batching, splitting, retry, timeout.
//!
//! [`Delivery`] is what a pipeline holds for each exporter and signal; [`settings`] are its keys,
//! [`courier`] brings one request to its end, [`queue`] bounds what waits. Refuses to know: protocols.

pub mod backoff;
mod condition;
mod consumer;
pub mod counters;
mod courier;
mod queue;
pub mod settings;
pub mod size;
pub mod split;
mod stored;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use counters::{Account, Kept, Lost};
pub use settings::{Batch, DEFAULT_MAX_REQUEST_BYTES, DeliverySettings, RetryOnFailure, SendingQueue, Sizer};

use self::condition::Condition;
use self::counters::Counters;
use self::courier::{Brought, Courier};
use self::queue::{Entry, NoRoom, Payload, Queue, Ticket};
use self::stored::Stored;
use super::component::{Exporter, StartError};
use super::data::{Data, Signal};
use super::host::{Host, StorageError};
use crate::telemetry::Telemetry;

/// How long consumers may take to notice that they are ended.
const CONSUMERS_END: Duration = Duration::from_millis(500);

/// Who a delivery belongs to.
#[derive(Clone)]
pub struct Place {
    /// Id of the exporter, `type` or `type/name`.
    pub id: Arc<str>,
    /// What it delivers.
    pub signal: Signal,
    /// Where its counters are registered.
    pub telemetry: Telemetry,
}

/// What a shutdown could not deliver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Spans, metric points, log records that are lost with the process (counted as such).
    pub lost_items: u64,
    /// Those that stay in the storage for the next start.
    pub stored_items: u64,
}

/// What became of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offered {
    /// Queued (on disk, where the queue is there), or sent or lost and counted where there is no queue.
    Taken,
    /// Dropped and counted, for this reason; it may be offered again.
    Refused(String),
}

/// The way to one exporter for one signal. Starting and stopping the exporter itself is its owner's part:
/// started before, stopped after.
pub struct Delivery {
    courier: Arc<Courier>,
    consumers: JoinSet<()>,
}

impl Delivery {
    /// Starts the consumers of the queue. Fails where the storage that the settings name cannot be opened.
    pub async fn start(
        exporter: Arc<dyn Exporter>,
        settings: DeliverySettings,
        place: Place,
        host: &Host,
    ) -> Result<Self, StartError> {
        let capacity = if settings.sending_queue.enabled { settings.sending_queue.queue_size.get() } else { 0 };
        let stored = open_storage(&settings, &place, host)?;
        let courier = Arc::new(Courier {
            stored,
            counters: Counters::new(&place.telemetry, &place.id, place.signal, capacity),
            condition: Condition::new(place.id.clone(), place.signal, exporter.target()),
            queue: Queue::new(capacity),
            signal: place.signal,
            gathering: tokio::sync::Mutex::default(),
            draining: CancellationToken::new(),
            drain_began: OnceLock::new(),
            exporter,
            settings,
        });
        courier.restore(&place).await.map_err(|error| StartError::new(format!("sending_queue::storage: {error}")))?;
        let mut consumers = JoinSet::new();
        if courier.settings.sending_queue.enabled {
            for _ in 0..courier.settings.sending_queue.num_consumers {
                consumers.spawn(consumer::run(courier.clone()));
            }
        }
        Ok(Self { courier, consumers })
    }

    /// Takes data on its way. Returns at once, the data queued or dropped and counted; waits for room with
    /// `block_on_overflow`, for the result with `wait_for_result` or without a queue.
    pub async fn offer(&self, data: Data) -> Offered {
        let items = data.items() as u64;
        self.courier.counters.offered.add(items);
        if !self.courier.settings.sending_queue.enabled {
            self.courier.queue.begin(items);
            if self.courier.bring(data).await == Brought::Left {
                self.courier.lose(Lost::Shutdown, items, "the shutdown came before the endpoint answered");
            }
            return Offered::Taken;
        }
        let weight = size::weight(&data, self.courier.settings.sending_queue.sizer);
        let room = if self.courier.settings.sending_queue.block_on_overflow {
            self.courier.queue.reserve_waiting(weight).await
        } else {
            self.courier.queue.reserve(weight)
        };
        if let Err(why) = room {
            return self.refuse(why, items);
        }
        let (waiter, result) = tokio::sync::oneshot::channel();
        let waiter = self.courier.settings.sending_queue.wait_for_result.then_some(waiter);
        let waits = waiter.is_some();
        let (payload, stored) = match &self.courier.stored {
            None => (Payload::Memory(data), None),
            Some(stored) => match stored.append(data).await {
                Ok(id) => (Payload::Stored(id), Some(id)),
                Err(error) => {
                    self.courier.queue.release(weight);
                    self.courier.counters.keep_out(Kept::Storage, items);
                    let why = format!("the sending queue cannot be stored: {error}");
                    self.courier.condition.overflowed(&why, items);
                    return Offered::Refused(why);
                }
            },
        };
        self.courier.condition.has_room();
        self.courier.queue.push(Entry { payload, ticket: Ticket { items, weight, stored, waiter } });
        self.courier.show_load();
        if waits {
            // An error means that the consumers were ended, who counted the items.
            let _ended = result.await;
        }
        Offered::Taken
    }

    /// Takes nothing more, sends what is queued until `deadline`, and tells what is left. Each waiting
    /// request gets one last attempt; when an endpoint does not answer that, the rest is left at once.
    pub async fn shutdown(mut self, deadline: Instant) -> Left {
        self.courier.drain_began.get_or_init(tokio::time::Instant::now);
        self.courier.draining.cancel();
        self.courier.queue.close();
        let all_ended = async { while self.consumers.join_next().await.is_some() {} };
        if tokio::time::timeout_at(deadline.into(), all_ended).await.is_err() {
            // One that does not yield is left to itself: the deadline is for the process.
            let _stuck = tokio::time::timeout(CONSUMERS_END, self.consumers.shutdown()).await;
        }
        let left = self.courier.queue.abandon();
        self.courier.show_load();
        if self.courier.stored.is_some() {
            return Left { lost_items: 0, stored_items: left };
        }
        self.courier.counters.lose(Lost::Shutdown, left);
        Left { lost_items: left, stored_items: 0 }
    }

    /// What became of all items so far.
    pub fn account(&self) -> Account {
        self.courier.account()
    }

    fn refuse(&self, why: NoRoom, items: u64) -> Offered {
        let courier = &self.courier;
        let (kept, message) = match why {
            NoRoom::Full => (Kept::QueueFull, format!("the sending queue is full ({})", courier.holds())),
            NoRoom::Never => {
                (Kept::QueueFull, format!("one request is larger than the whole sending queue ({})", courier.holds()))
            }
            NoRoom::Closed => (Kept::Shutdown, "the exporter has been shut down".to_owned()),
        };
        courier.counters.keep_out(kept, items);
        courier.condition.overflowed(&message, items);
        Offered::Refused(message)
    }
}

/// The store that the settings ask for, one for each exporter and signal.
fn open_storage(settings: &DeliverySettings, place: &Place, host: &Host) -> Result<Option<Stored>, StartError> {
    let queue = &settings.sending_queue;
    match &queue.storage {
        Some(id) if queue.enabled && place.signal != Signal::Sched => {
            let name = format!("{}_{}", place.id, counters::data_type(place.signal));
            let store = host.storage(id)?.open(&name)?;
            Ok(Some(Stored(store)))
        }
        _ => Ok(None),
    }
}

impl Courier {
    /// Takes over what an earlier process left in the store.
    async fn restore(&self, place: &Place) -> Result<(), StorageError> {
        let Some(stored) = &self.stored else { return Ok(()) };
        let mut damaged = Vec::new();
        for (id, brief) in stored.left(self.signal).await? {
            match brief {
                Ok(brief) => {
                    let weight = match self.settings.sending_queue.sizer {
                        Sizer::Requests => 1,
                        Sizer::Items => brief.items,
                        Sizer::Bytes => brief.bytes,
                    };
                    let ticket = Ticket { items: brief.items, weight, stored: Some(id), waiter: None };
                    self.counters.offered.add(brief.items);
                    self.queue.restore(Entry { payload: Payload::Stored(id), ticket });
                }
                Err(error) => {
                    damaged.push(error.to_string());
                    stored.remove(id).await?;
                }
            }
        }
        let name = "schedscope_exporter_damaged_records";
        place.telemetry.counter(name, "{record}", &[("exporter", &place.id)]).add(damaged.len() as u64);
        self.condition.restored(self.queue.load().queued_items, &damaged);
        self.show_load();
        Ok(())
    }

    fn account(&self) -> Account {
        let load = self.queue.load();
        Account {
            offered: self.counters.offered.get(),
            sent: self.counters.sent.get(),
            queued: load.queued_items,
            in_flight: load.in_flight_items,
            failed: self.counters.failed(),
            refused: self.counters.refused(),
        }
    }

    /// Sets the gauges.
    fn show_load(&self) {
        let load = self.queue.load();
        self.counters.queue_size.set(load.weight);
        self.counters.in_flight_requests.set(load.in_flight_requests);
    }
}

#[cfg(test)]
mod tests;
