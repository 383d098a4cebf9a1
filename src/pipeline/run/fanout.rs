//! Giving data to what follows: alone, it may hold us up; beside others, it may not.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::pipeline::data::{Data, Signal};
use crate::pipeline::receipt::{Parcel, Receipt};
use crate::telemetry::Telemetry;

/// How long one target beside others may keep us, once, before it is passed over until it takes again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The targets of one segment.
pub(super) struct Fanout {
    exits: Vec<Exit>,
    telemetry: Telemetry,
}

/// One target with its bounded input.
pub(super) struct Exit {
    pub(super) signals: Vec<Signal>,
    pub(super) name: String,
    pub(super) input: mpsc::Sender<Parcel>,
    stuck: bool,
}

impl Exit {
    pub(super) fn new(name: String, signals: Vec<Signal>, input: mpsc::Sender<Parcel>) -> Self {
        Self { signals, name, input, stuck: false }
    }

    /// Offers without waiting, then waits if patience is left; data back where it was not taken.
    async fn offer(&mut self, parcel: Parcel) -> Result<(), Parcel> {
        match self.input.try_send(parcel) {
            Ok(()) => {
                if self.stuck {
                    tracing::info!(to = %self.name, "takes data again");
                }
                self.stuck = false;
                Ok(())
            }
            Err(TrySendError::Closed(parcel)) => Err(parcel),
            Err(TrySendError::Full(parcel)) if self.stuck => Err(parcel),
            Err(TrySendError::Full(parcel)) => match tokio::time::timeout(PATIENCE, self.input.reserve()).await {
                Ok(Ok(permit)) => {
                    permit.send(parcel);
                    Ok(())
                }
                Ok(Err(_)) => Err(parcel),
                Err(_) => {
                    self.stuck = true;
                    tracing::warn!(to = %self.name, "takes no data; what is meant for it is dropped until it does");
                    Err(parcel)
                }
            },
        }
    }
}

impl Fanout {
    pub(super) fn new(exits: Vec<Exit>, telemetry: &Telemetry) -> Self {
        Self { exits, telemetry: telemetry.clone() }
    }

    /// To every target that takes the signal. A single target is waited for: what comes in is then held up,
    /// which its senders notice. One of several is not: the others go on, and its share is dropped, counted.
    pub(super) async fn send(&mut self, data: Data, receipt: &Receipt) {
        let signal = data.signal();
        if let [only] = &mut self.exits[..] {
            let items = data.items();
            let parcel = Parcel { data, receipt: receipt.clone() };
            if only.signals.contains(&signal) && only.input.send(parcel).await.is_err() {
                count_dropped(&self.telemetry, &only.name, signal, items);
            }
            return;
        }
        let mut left = self.exits.iter().filter(|exit| exit.signals.contains(&signal)).count();
        let mut data = Some(data);
        for exit in self.exits.iter_mut().filter(|exit| exit.signals.contains(&signal)) {
            left -= 1;
            let share = if left == 0 { data.take() } else { data.clone() };
            let Some(share) = share else { return };
            if let Err(dropped) = exit.offer(Parcel { data: share, receipt: receipt.clone() }).await {
                count_dropped(&self.telemetry, &exit.name, signal, dropped.data.items());
                dropped.receipt.refuse("an exporter takes no data");
            }
        }
    }
}

fn count_dropped(telemetry: &Telemetry, to: &str, signal: Signal, items: usize) {
    let signal = signal.to_string().to_lowercase();
    let attributes = [("otel.signal", signal.as_str()), ("to", to)];
    telemetry.counter("schedscope_pipeline_dropped_items", "{item}", &attributes).add(items as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

    fn one_span() -> Data {
        let scope = ScopeSpans { spans: vec![Span::default()], ..ScopeSpans::default() };
        Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }])
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_target_costs_patience_once_and_the_other_gets_all() {
        let telemetry = Telemetry::default();
        let (stuck, mut stuck_input) = mpsc::channel(1);
        let (free, mut free_input) = mpsc::channel(100);
        let exits = vec![
            Exit::new("stuck".into(), vec![Signal::Traces], stuck),
            Exit::new("free".into(), vec![Signal::Traces], free),
        ];
        let mut fanout = Fanout::new(exits, &telemetry);
        let begin = tokio::time::Instant::now();
        for _ in 0..10 {
            fanout.send(one_span(), &Receipt::default()).await;
        }
        assert_eq!(begin.elapsed(), PATIENCE);
        assert_eq!(telemetry.sum("schedscope_pipeline_dropped_items"), 9);
        assert!(stuck_input.try_recv().is_ok());
        fanout.send(one_span(), &Receipt::default()).await;
        assert_eq!(telemetry.sum("schedscope_pipeline_dropped_items"), 9, "it takes again");
        let mut got = 0;
        while free_input.try_recv().is_ok() {
            got += 1;
        }
        assert_eq!(got, 11);
    }

    #[tokio::test]
    async fn each_signal_goes_only_where_it_is_taken() {
        let (traces, mut traces_input) = mpsc::channel(2);
        let (metrics, mut metrics_input) = mpsc::channel(2);
        let exits = vec![
            Exit::new("t".into(), vec![Signal::Traces], traces),
            Exit::new("m".into(), vec![Signal::Metrics], metrics),
        ];
        Fanout::new(exits, &Telemetry::default()).send(one_span(), &Receipt::default()).await;
        assert!(traces_input.try_recv().is_ok());
        assert!(metrics_input.try_recv().is_err());
    }
}
