//! The task before one exporter: it takes the batches of all pipelines that end there, one at a time.
//!
//! An exporter that hangs holds up this task only; what waits before it is bounded.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use super::end::Rest;
use super::segment::Stop;
use crate::pipeline::component::Exporter;
use crate::pipeline::data::Signal;
use crate::pipeline::delivery::{Delivery, Left, Offered};
use crate::pipeline::receipt::Parcel;
use crate::telemetry::{Meter, Telemetry};

/// One exporter of one signal.
pub(super) struct SinkTask {
    id: Arc<str>,
    input: mpsc::Receiver<Parcel>,
    post: Post,
    sending_items: usize,
}

/// How batches reach the exporter.
pub(super) enum Post {
    /// One attempt each, counted here.
    Direct { exporter: Arc<dyn Exporter>, sent: Meter, failed: Meter },
    /// Through queue, retry and the like, which count by themselves.
    Delivered(Delivery),
}

impl Post {
    /// Without delivery layers.
    pub(super) fn direct(exporter: Arc<dyn Exporter>, id: &str, signal: Signal, telemetry: &Telemetry) -> Self {
        let (sent, failed, unit) = match signal {
            Signal::Traces => ("otelcol_exporter_sent_spans", "otelcol_exporter_send_failed_spans", "{span}"),
            Signal::Metrics => {
                ("otelcol_exporter_sent_metric_points", "otelcol_exporter_send_failed_metric_points", "{datapoint}")
            }
            Signal::Logs => {
                ("otelcol_exporter_sent_log_records", "otelcol_exporter_send_failed_log_records", "{record}")
            }
            Signal::Sched => ("otelcol_exporter_sent_cycles", "otelcol_exporter_send_failed_cycles", "{cycle}"),
        };
        Self::Direct {
            exporter,
            sent: telemetry.counter(sent, unit, &[("exporter", id)]),
            failed: telemetry.counter(failed, unit, &[("exporter", id)]),
        }
    }

    async fn take(&self, id: &str, Parcel { data, receipt }: Parcel) {
        match self {
            Self::Direct { exporter, sent, failed } => {
                let items = data.items() as u64;
                match exporter.export(&data).await {
                    Ok(exported) => {
                        let rejected = exported.rejected_items.min(items);
                        sent.add(items - rejected);
                        failed.add(rejected);
                    }
                    Err(error) => {
                        failed.add(items);
                        tracing::error!(otelcol.component.id = id, dropped_items = items, %error,
                            "Exporting failed. Dropping data.");
                    }
                }
                receipt.taken();
            }
            Self::Delivered(delivery) => match delivery.offer(data).await {
                Offered::Taken => receipt.taken(),
                Offered::Refused(why) => receipt.refuse(&why),
            },
        }
    }

    /// Delivers what is queued until the deadline. `sending_items` were given to `take`, which was broken off.
    async fn shutdown(self, deadline: Instant, sending_items: usize) -> Rest {
        match self {
            Self::Direct { .. } => Rest { left_items: sending_items, stored_items: 0 },
            Self::Delivered(delivery) => {
                // What was waiting for room is in no account yet; what was in an attempt is.
                let account = delivery.account();
                let fates = account.sent + account.queued + account.in_flight + account.failed + account.refused;
                let waiting = account.offered.saturating_sub(fates);
                let Left { lost_items, stored_items } = delivery.shutdown(deadline).await;
                let count = |items| usize::try_from(items).unwrap_or(usize::MAX);
                Rest { left_items: count(waiting + lost_items), stored_items: count(stored_items) }
            }
        }
    }
}

impl SinkTask {
    pub(super) fn new(id: Arc<str>, input: mpsc::Receiver<Parcel>, post: Post) -> Self {
        Self { id, input, post, sending_items: 0 }
    }

    /// Runs until all that feed it have ended, then lets the delivery layers end; gives what was left by the
    /// deadline.
    pub(super) async fn run(mut self, stop: Stop, deadline: watch::Receiver<Instant>) -> Rest {
        let waiting_items = tokio::select! {
            biased;
            () = stop.now.cancelled() => self.waiting_items(),
            () = work(&mut self, &stop) => 0,
        };
        let deadline = *deadline.borrow();
        let mut rest = self.post.shutdown(deadline, self.sending_items).await;
        rest.left_items += waiting_items;
        rest
    }

    /// Items in the input, which takes no more.
    fn waiting_items(&mut self) -> usize {
        self.input.close();
        let mut waiting_items = 0;
        while let Ok(parcel) = self.input.try_recv() {
            waiting_items += parcel.data.items();
        }
        waiting_items
    }
}

async fn work(task: &mut SinkTask, stop: &Stop) {
    let mut draining = false;
    loop {
        let parcel = tokio::select! {
            biased;
            () = stop.drain.cancelled(), if !draining => {
                draining = true;
                task.input.close();
                continue;
            }
            parcel = task.input.recv() => parcel,
        };
        let Some(parcel) = parcel else { return };
        task.sending_items = parcel.data.items();
        task.post.take(&task.id, parcel).await;
        task.sending_items = 0;
        tokio::task::yield_now().await;
    }
}
