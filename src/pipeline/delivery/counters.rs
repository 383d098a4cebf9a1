//! What became of every item that was offered: the Collector's `otelcol_exporter_*` names, and an account
//! in which offered = sent + queued + in flight + failed + refused whenever nothing moves.

use crate::pipeline::Signal;
use crate::telemetry::{Meter, Telemetry};

/// Why an item that was in the queue is gone; the values of `error.type` on `send_failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The endpoint's answer was final.
    Permanent,
    /// `max_elapsed_time` is over, or retries are off.
    RetriesExhausted,
    /// One item alone is larger than a request may be, or than the endpoint takes.
    TooLarge,
    /// Refused inside an accepted request (partial success).
    Rejected,
    /// The process ended before it could be sent, and the queue is in memory.
    Shutdown,
    /// Its record on disk was damaged.
    Damaged,
}

impl Lost {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Permanent, "permanent"),
        (Self::RetriesExhausted, "retries_exhausted"),
        (Self::TooLarge, "too_large"),
        (Self::Rejected, "rejected"),
        (Self::Shutdown, "shutdown"),
        (Self::Damaged, "damaged"),
    ];
}

/// Why an item never got into the queue; the values of `error.type` on `enqueue_failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The queue is full.
    QueueFull,
    /// The disk is full or fails.
    Storage,
    /// The exporter has been shut down.
    Shutdown,
}

impl Kept {
    const ALL: [(Self, &'static str); 3] =
        [(Self::QueueFull, "queue_full"), (Self::Storage, "storage"), (Self::Shutdown, "shutdown")];
}

/// Items by fate. While requests move, the parts are read one after another and may not add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Given by the pipeline, and found on disk at the start.
    pub offered: u64,
    /// Taken by the endpoint.
    pub sent: u64,
    /// Waiting.
    pub queued: u64,
    /// In an attempt, or between two.
    pub in_flight: u64,
    /// Lost after they were in the queue, all reasons.
    pub failed: u64,
    /// Never in the queue, all reasons.
    pub refused: u64,
}

impl Account {
    /// Whether every item is accounted for.
    pub fn adds_up(&self) -> bool {
        self.offered == self.sent + self.queued + self.in_flight + self.failed + self.refused
    }
}

/// The counters of one exporter and signal.
pub(super) struct Counters {
    pub(super) offered: Meter,
    pub(super) sent: Meter,
    lost: [Meter; Lost::ALL.len()],
    kept: [Meter; Kept::ALL.len()],
    /// Queue size in units of its sizer.
    pub(super) queue_size: Meter,
    /// Requests under way.
    pub(super) in_flight_requests: Meter,
}

/// Metric names and unit of a signal's items: sent, send_failed, enqueue_failed.
fn names(signal: Signal) -> ([&'static str; 3], &'static str) {
    match signal {
        Signal::Traces => (
            [
                "otelcol_exporter_sent_spans",
                "otelcol_exporter_send_failed_spans",
                "otelcol_exporter_enqueue_failed_spans",
            ],
            "{span}",
        ),
        Signal::Metrics => (
            [
                "otelcol_exporter_sent_metric_points",
                "otelcol_exporter_send_failed_metric_points",
                "otelcol_exporter_enqueue_failed_metric_points",
            ],
            "{datapoint}",
        ),
        Signal::Logs => (
            [
                "otelcol_exporter_sent_log_records",
                "otelcol_exporter_send_failed_log_records",
                "otelcol_exporter_enqueue_failed_log_records",
            ],
            "{record}",
        ),
        Signal::Sched => (
            [
                "otelcol_exporter_sent_cycles",
                "otelcol_exporter_send_failed_cycles",
                "otelcol_exporter_enqueue_failed_cycles",
            ],
            "{cycle}",
        ),
    }
}

/// The Collector's word for a signal in `data_type`.
pub(super) fn data_type(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "traces",
        Signal::Metrics => "metrics",
        Signal::Logs => "logs",
        Signal::Sched => "sched",
    }
}

impl Counters {
    pub(super) fn new(telemetry: &Telemetry, id: &str, signal: Signal, capacity: u64) -> Self {
        let ([sent, send_failed, enqueue_failed], unit) = names(signal);
        let by_cause = |name, cause| telemetry.counter(name, unit, &[("exporter", id), ("error.type", cause)]);
        let of_queue = [("exporter", id), ("data_type", data_type(signal))];
        telemetry.gauge("otelcol_exporter_queue_capacity", "{batch}", &of_queue).set(capacity);
        Self {
            offered: Meter::default(),
            sent: telemetry.counter(sent, unit, &[("exporter", id)]),
            lost: Lost::ALL.map(|(_, cause)| by_cause(send_failed, cause)),
            kept: Kept::ALL.map(|(_, cause)| by_cause(enqueue_failed, cause)),
            queue_size: telemetry.gauge("otelcol_exporter_queue_size", "{batch}", &of_queue),
            in_flight_requests: telemetry.gauge("otelcol_exporter_in_flight_requests", "{request}", &of_queue),
        }
    }

    pub(super) fn lose(&self, why: Lost, items: u64) {
        if let Some(meter) = self.lost.get(why as usize) {
            meter.add(items);
        }
    }

    pub(super) fn keep_out(&self, why: Kept, items: u64) {
        if let Some(meter) = self.kept.get(why as usize) {
            meter.add(items);
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.lost.iter().map(Meter::get).sum()
    }

    pub(super) fn refused(&self) -> u64 {
        self.kept.iter().map(Meter::get).sum()
    }
}
