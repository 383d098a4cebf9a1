//! The keys and defaults of the Collector's exporterhelper (`sending_queue`, `retry_on_failure`,
//! `timeout`) and our `max_request_bytes`. Exporters embed the section structs as fields of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ByteSize, Checker, Period};

/// 3.5 MiB: below the 4 MiB that most gRPC servers take, with room for framing.
pub const DEFAULT_MAX_REQUEST_BYTES: u64 = 3_670_016;

/// What delivery needs to know of one exporter.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliverySettings {
    /// Bound of one attempt; zero for none.
    pub timeout: Period,
    /// The queue before the exporter.
    pub sending_queue: SendingQueue,
    /// What happens after a failure that another attempt may mend.
    pub retry_on_failure: RetryOnFailure,
    /// Requests are split below this many bytes, uncompressed protobuf; zero for no limit.
    pub max_request_bytes: u64,
}

impl Default for DeliverySettings {
    fn default() -> Self {
        Self {
            timeout: Period::secs(5),
            sending_queue: SendingQueue::default(),
            retry_on_failure: RetryOnFailure::default(),
            max_request_bytes: DEFAULT_MAX_REQUEST_BYTES,
        }
    }
}

impl DeliverySettings {
    /// Tells every mistake, at keys relative to the exporter's section.
    pub fn validate(&self, at: &mut Checker<'_>) {
        self.sending_queue.validate(at);
        self.retry_on_failure.validate(at);
    }
}

/// The unit a queue or a batch is measured in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sizer {
    /// Batches as the pipeline gave them.
    #[default]
    Requests,
    /// Spans, metric points, log records.
    Items,
    /// Bytes as uncompressed protobuf.
    Bytes,
}

impl Sizer {
    /// The unit in words.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Items => "items",
            Self::Bytes => "bytes",
        }
    }
}

/// The queue between the pipeline and the exporter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SendingQueue {
    /// Off: the pipeline itself waits for each export.
    pub enabled: bool,
    /// Requests sent at the same time.
    pub num_consumers: usize,
    /// How much the queue holds, requests under way included, in units of `sizer`; with `bytes` also such as `64MiB`.
    pub queue_size: ByteSize,
    /// What `queue_size` counts.
    pub sizer: Sizer,
    /// On a full queue the pipeline waits for room, instead of dropping what does not fit.
    pub block_on_overflow: bool,
    /// The pipeline waits until what it gave has been sent or dropped.
    pub wait_for_result: bool,
    /// Id of a storage extension: the queue is kept on disk and survives the process.
    pub storage: Option<String>,
    /// Gathers small requests before they are sent; absent: each is sent as it came.
    pub batch: Option<Batch>,
}

impl Default for SendingQueue {
    fn default() -> Self {
        Self {
            enabled: true,
            num_consumers: 10,
            queue_size: ByteSize::new(1000),
            sizer: Sizer::Requests,
            block_on_overflow: false,
            wait_for_result: false,
            storage: None,
            batch: None,
        }
    }
}

impl SendingQueue {
    fn validate(&self, at: &mut Checker<'_>) {
        if !self.enabled {
            return;
        }
        if self.num_consumers == 0 {
            at.problem("sending_queue::num_consumers", "must be at least 1, or nothing is ever sent");
        }
        if self.queue_size.get() == 0 {
            at.problem("sending_queue::queue_size", "must be at least 1; to have no queue set `enabled: false`");
        }
        if self.queue_size.has_unit() && self.sizer != Sizer::Bytes {
            at.problem(
                "sending_queue::queue_size",
                format!("is a size in bytes, and sizer counts {}", self.sizer.unit()),
            );
        }
        if self.wait_for_result && self.storage.is_some() {
            let message = "cannot be combined with `storage`: what is on disk has no one who waits; remove one of them";
            at.problem("sending_queue::wait_for_result", message);
        }
        if self.storage.as_deref().is_some_and(|id| id.trim().is_empty()) {
            at.problem(
                "sending_queue::storage",
                "is empty; name a storage extension such as `file_storage`, or remove it",
            );
        }
        if let Some(batch) = &self.batch {
            batch.validate(self, at);
        }
    }
}

/// Batching inside the queue: after persistence, before the request is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// A batch leaves at the latest this long after its first request was taken.
    pub flush_timeout: Period,
    /// A batch leaves when it has at least this much, in units of `sizer`.
    pub min_size: ByteSize,
    /// No request has more than this, in units of `sizer`; 0 for no limit.
    pub max_size: ByteSize,
    /// What the sizes count: `items` or `bytes`.
    pub sizer: Sizer,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            flush_timeout: Period::millis(200),
            min_size: ByteSize::new(8192),
            max_size: ByteSize::default(),
            sizer: Sizer::Items,
        }
    }
}

impl Batch {
    fn validate(&self, queue: &SendingQueue, at: &mut Checker<'_>) {
        if self.sizer == Sizer::Requests {
            at.problem("sending_queue::batch::sizer", "must be `items` or `bytes`");
        }
        if self.flush_timeout == Period::default() {
            at.problem("sending_queue::batch::flush_timeout", "must be longer than 0, such as 200ms");
        }
        for (key, size) in [("min_size", self.min_size), ("max_size", self.max_size)] {
            if size.has_unit() && self.sizer == Sizer::Items {
                at.problem(&format!("sending_queue::batch::{key}"), "is a size in bytes, and sizer counts items");
            }
        }
        if self.max_size.get() > 0 && self.max_size.get() < self.min_size.get() {
            let message = format!("must be 0 or at least min_size, which is {}", self.min_size);
            at.problem("sending_queue::batch::max_size", message);
        }
        if queue.sizer == self.sizer && self.min_size.get() > queue.queue_size.get() {
            let message = format!("must be at most queue_size, which is {}", queue.queue_size);
            at.problem("sending_queue::batch::min_size", message);
        }
    }
}

/// Exponential backoff after failures that another attempt may mend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryOnFailure {
    /// Off: one attempt, then the data is dropped and counted.
    pub enabled: bool,
    /// The first wait, before jitter.
    pub initial_interval: Period,
    /// Each wait is drawn from interval x (1 - this) to interval x (1 + this).
    pub randomization_factor: f64,
    /// The wait grows by this factor with each attempt.
    pub multiplier: f64,
    /// The wait grows no further than this.
    pub max_interval: Period,
    /// Data older than this (since its first attempt) is dropped; 0 for never.
    pub max_elapsed_time: Period,
}

impl Default for RetryOnFailure {
    fn default() -> Self {
        Self {
            enabled: true,
            initial_interval: Period::secs(5),
            randomization_factor: 0.5,
            multiplier: 1.5,
            max_interval: Period::secs(30),
            max_elapsed_time: Period::secs(300),
        }
    }
}

impl RetryOnFailure {
    fn validate(&self, at: &mut Checker<'_>) {
        if !self.enabled {
            return;
        }
        if !(0.0..=1.0).contains(&self.randomization_factor) {
            at.problem("retry_on_failure::randomization_factor", "must be between 0 and 1");
        }
        if !self.multiplier.is_finite() || self.multiplier < 0.0 {
            at.problem("retry_on_failure::multiplier", "must be a number that is not negative, such as 1.5");
        }
        if self.max_elapsed_time == Period::default() {
            return;
        }
        for (key, interval) in [("initial_interval", self.initial_interval), ("max_interval", self.max_interval)] {
            if interval > self.max_elapsed_time {
                let limit = self.max_elapsed_time;
                let message =
                    format!("must be at most max_elapsed_time, which is {limit}; or set that to 0s for no limit");
                at.problem(&format!("retry_on_failure::{key}"), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Body, Section};

    #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Embedding {
        sending_queue: SendingQueue,
        retry_on_failure: RetryOnFailure,
    }

    impl Section for Embedding {
        fn validate(&self, at: &mut Checker<'_>) {
            self.sending_queue.validate(at);
            self.retry_on_failure.validate(at);
        }
    }

    fn problems(yaml: &str) -> String {
        let body = Body::from_yaml("exporters::otlp_grpc", yaml).unwrap();
        body.decode::<Embedding>().err().map(|problems| problems.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_empty_batch_section_turns_batching_on() {
        let settings: Embedding = serde_yaml::from_str("sending_queue: {batch: {}}").unwrap();
        assert_eq!(settings.sending_queue.batch.unwrap().min_size.get(), 8192);
        let settings: Embedding = serde_yaml::from_str("sending_queue: {queue_size: 5}").unwrap();
        assert_eq!((settings.sending_queue.batch, settings.sending_queue.num_consumers), (None, 10));
    }

    #[test]
    fn every_mistake_is_told_at_its_key() {
        let told = problems(
            "{sending_queue: {num_consumers: 0, queue_size: 0, wait_for_result: true, storage: file_storage, \
             batch: {min_size: 10, max_size: 5, sizer: requests}}, \
             retry_on_failure: {randomization_factor: 2, max_elapsed_time: 1s}}",
        );
        for key in [
            "sending_queue::num_consumers",
            "sending_queue::queue_size",
            "sending_queue::wait_for_result",
            "batch::max_size",
            "batch::sizer",
            "randomization_factor",
            "retry_on_failure::initial_interval",
            "retry_on_failure::max_interval",
        ] {
            assert!(told.contains(key), "{key} is missing in:\n{told}");
        }
        assert_eq!(problems("{retry_on_failure: {max_elapsed_time: 0s}}"), "");
        assert!(problems("{sending_queue: {queue_siez: 5}}").contains("queue_siez"));
        assert_eq!(
            problems("{sending_queue: {sizer: bytes, queue_size: 64MiB, batch: {sizer: bytes, max_size: 1 MB}}}"),
            ""
        );
        let told = problems("{sending_queue: {queue_size: 64MiB, batch: {max_size: 1MB}}}");
        assert!(told.contains("queue_size: is a size in bytes, and sizer counts requests"), "{told}");
        assert!(told.contains("batch::max_size: is a size in bytes"), "{told}");
        assert!(problems("{sending_queue: {queue_size: 64M}}").contains("such as 64MiB"));
    }
}
