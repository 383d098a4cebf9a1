//! The ordered end under one deadline, and what was left when it came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::segment::Stop;
use super::{Running, Task};

/// What closing may take after the deadline, where nothing is to be sent any more.
const CLOSING: Duration = Duration::from_millis(500);

/// Items that did not get out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where they were: the id of a processor or exporter.
    pub component: Arc<str>,
    /// Spans, points, records, cycles.
    pub items: usize,
}

/// How an end went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drained {
    /// What was left, by component, front to back.
    pub left: Vec<Leftover>,
    /// Items that exporters keep on disk for the next start.
    pub stored_items: usize,
    /// Receivers that did not stop in time.
    pub late: Vec<Arc<str>>,
}

/// What one task could not pass on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) left_items: usize,
    pub(super) stored_items: usize,
}

impl Drained {
    /// Items left in all components.
    pub fn left_items(&self) -> usize {
        self.left.iter().map(|leftover| leftover.items).sum()
    }
}

impl Running {
    /// Ends everything, front to back, by the deadline; a second call does nothing.
    pub async fn shutdown(&mut self, deadline: Instant) -> Drained {
        let mut drained = Drained::default();
        // before anything ends: what a receiver feeds may have drained, sink included, before the receiver itself is done
        self.deadline.send_replace(deadline);
        let receivers = self.receivers.iter_mut().map(|(id, receiver)| async move {
            let in_time = timeout_at(deadline.into(), receiver.shutdown()).await.is_ok();
            (!in_time).then(|| Arc::clone(id))
        });
        drained.late = join_all(receivers).await.into_iter().flatten().collect();
        for id in &drained.late {
            tracing::warn!(otelcol.component.id = %id, "did not stop before the shutdown deadline");
        }
        self.receivers.clear();
        finish(&mut self.segments, &self.segment_stop, deadline, &mut drained).await;
        // What the exporters' own queues hold is theirs to end by the deadline; they tell what is left.
        finish(&mut self.sinks, &self.sink_stop, deadline, &mut drained).await;
        let closing = deadline.max(Instant::now() + CLOSING);
        let exporters = self.exporters.iter().map(|(_, exporter)| exporter.shutdown());
        close(join_all(exporters), closing, "exporters").await;
        for (_, extension) in self.extensions.iter().rev() {
            close(extension.shutdown(), closing, "extensions").await;
        }
        self.exporters.clear();
        self.extensions.clear();
        drained
    }
}

async fn close(closing: impl Future, deadline: Instant, what: &str) {
    if timeout_at(deadline.into(), closing).await.is_err() {
        tracing::warn!("some {what} did not close before the shutdown deadline");
    }
}

/// Lets tasks drain until the deadline, then ends them, and collects what was left in them.
async fn finish(tasks: &mut Vec<Task>, stop: &Stop, deadline: Instant, drained: &mut Drained) {
    stop.drain.cancel();
    let (names, handles): (Vec<_>, Vec<_>) = tasks.drain(..).unzip();
    let mut all = join_all(handles);
    let ended = match timeout_at(deadline.into(), &mut all).await {
        Ok(ended) => ended,
        Err(_) => {
            stop.now.cancel();
            all.await
        }
    };
    for (component, ended) in names.into_iter().zip(ended) {
        match ended {
            Ok(Rest { left_items, stored_items }) => {
                drained.stored_items += stored_items;
                if left_items > 0 {
                    drained.left.push(Leftover { component, items: left_items });
                }
            }
            Err(error) => tracing::error!(otelcol.component.id = %component, %error, "a component ended by itself"),
        }
    }
}
