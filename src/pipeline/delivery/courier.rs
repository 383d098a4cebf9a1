//! Brings one request to the endpoint: split, attempt, retry, halve, until each item has its fate.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::condition::Condition;
use super::counters::{Counters, Lost};
use super::queue::Queue;
use super::settings::{DeliverySettings, Sizer};
use super::split::{halve, split};
use super::stored::Stored;
use crate::pipeline::{Data, ExportError, Exported, Exporter, Signal};

/// A request is halved at most this often: 3.5 MiB becomes 112 KiB.
const MAX_HALVINGS: u32 = 5;

/// What the consumers share.
pub(super) struct Courier {
    pub(super) exporter: Arc<dyn Exporter>,
    pub(super) settings: DeliverySettings,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    pub(super) condition: Condition,
    /// Where the queue is kept, where it is on disk.
    pub(super) stored: Option<Stored>,
    /// What is delivered.
    pub(super) signal: Signal,
    /// Held by the consumer that gathers a batch.
    pub(super) gathering: tokio::sync::Mutex<()>,
    /// Cancelled when the shutdown begins.
    pub(super) draining: CancellationToken,
    /// When that was.
    pub(super) drain_began: OnceLock<Instant>,
}

/// Whether all of a request has got its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// Sent, or dropped and counted.
    Settled,
    /// The process ends before the endpoint would take it.
    Left,
}

/// A part of a request, and how often it was halved.
struct Part {
    data: Data,
    halvings: u32,
}

/// How one part ended.
enum Fate {
    Settled,
    Halved(Part, Part),
    Left,
}

impl Courier {
    /// In a shutdown, an endpoint that has failed since its begin is not tried again.
    pub(super) fn gave_up(&self) -> bool {
        self.drain_began.get().is_some_and(|began| self.condition.down_since(*began))
    }

    /// Brings `data`, whose items are counted as in flight.
    pub(super) async fn bring(&self, data: Data) -> Brought {
        let limit = self.settings.max_request_bytes;
        let split = split(data, limit, Sizer::Bytes);
        self.lose_oversize(split.oversize_items, "max_request_bytes", limit);
        let mut parts: VecDeque<Part> = split.parts.into_iter().map(|data| Part { data, halvings: 0 }).collect();
        let mut brought = Brought::Settled;
        while let Some(part) = parts.pop_front() {
            match self.bring_part(part).await {
                Fate::Settled => {}
                Fate::Halved(first, second) => {
                    parts.push_front(second);
                    parts.push_front(first);
                }
                Fate::Left => brought = Brought::Left,
            }
        }
        brought
    }

    async fn bring_part(&self, part: Part) -> Fate {
        let items = part.data.items() as u64;
        let began = Instant::now();
        let mut backoff = Backoff::new(&self.settings.retry_on_failure);
        let mut attempt = 0u32;
        loop {
            attempt += 1;
            let draining = self.draining.is_cancelled();
            match self.attempt(&part.data).await {
                Ok(exported) => {
                    self.accepted(&exported, items);
                    return Fate::Settled;
                }
                Err(ExportError::Permanent(message)) => {
                    self.condition.answered();
                    self.lose(Lost::Permanent, items, &message);
                    return Fate::Settled;
                }
                Err(ExportError::TooLarge(message)) => {
                    self.condition.answered();
                    return self.too_large(part, &message);
                }
                Err(ExportError::Retry { message, after }) => {
                    if !self.settings.retry_on_failure.enabled {
                        self.lose(Lost::RetriesExhausted, items, &format!("{message}; retry_on_failure is off"));
                        return Fate::Settled;
                    }
                    self.condition.failed(&message, &self.holds());
                    if draining {
                        return Fate::Left;
                    }
                    let Some(wait) = backoff.next(fastrand::f64(), after, began.elapsed()) else {
                        let message = format!("{message} (attempt {attempt}, max_elapsed_time is over)");
                        self.lose(Lost::RetriesExhausted, items, &message);
                        return Fate::Settled;
                    };
                    self.sleep(wait).await;
                }
            }
        }
    }

    /// One attempt under `timeout`.
    async fn attempt(&self, data: &Data) -> Result<Exported, ExportError> {
        let limit = self.settings.timeout.0;
        if limit.is_zero() {
            return self.exporter.export(data).await;
        }
        tokio::time::timeout(limit, self.exporter.export(data)).await.unwrap_or_else(|_| {
            let target = self.condition.target();
            let message = format!("{target} gave no answer within {} (timeout)", self.settings.timeout);
            Err(ExportError::Retry { message, after: None })
        })
    }

    /// Waits, until the shutdown begins at the latest.
    async fn sleep(&self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.draining.cancelled() => {}
        }
    }

    fn accepted(&self, exported: &Exported, items: u64) {
        self.condition.answered();
        let rejected = exported.rejected_items.min(items);
        self.counters.sent.add(items - rejected);
        self.counters.lose(Lost::Rejected, rejected);
        self.queue.settle(items);
        if rejected > 0 || exported.message.is_some() {
            self.condition.partial(exported.message.as_deref().unwrap_or("no reason given"), rejected);
        }
    }

    fn too_large(&self, part: Part, message: &str) -> Fate {
        let items = part.data.items() as u64;
        if part.halvings >= MAX_HALVINGS {
            self.lose(Lost::TooLarge, items, message);
            return Fate::Settled;
        }
        let halvings = part.halvings + 1;
        match halve(part.data) {
            Ok((first, second)) => Fate::Halved(Part { data: first, halvings }, Part { data: second, halvings }),
            Err(_) => {
                self.lose(Lost::TooLarge, items, message);
                Fate::Settled
            }
        }
    }

    /// Items that are each larger than the limit which `key` sets.
    pub(super) fn lose_oversize(&self, items: u64, key: &str, limit: u64) {
        if items > 0 {
            self.lose(Lost::TooLarge, items, &format!("an item alone is over {key}, which is {limit}"));
        }
    }

    /// Items in flight are lost.
    pub(super) fn lose(&self, why: Lost, items: u64, message: &str) {
        self.counters.lose(why, items);
        self.queue.settle(items);
        self.condition.dropped(message, items);
    }

    /// How full the queue is, in words.
    pub(super) fn holds(&self) -> String {
        let queue = &self.settings.sending_queue;
        if !queue.enabled {
            return "there is no queue and the pipeline waits".to_owned();
        }
        format!("queue holds {} of {} {}", self.queue.load().weight, self.queue.capacity, queue.sizer.unit())
    }
}
