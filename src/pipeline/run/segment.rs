//! The task of one segment: takes, processes, ticks, gives; flushes when its input has ended.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::chain::Chain;
use super::end::Rest;
use super::fanout::Fanout;
use crate::pipeline::data::Data;
use crate::pipeline::receipt::{Parcel, Receipt};

/// How tasks are told to end.
#[derive(Clone, Default)]
pub(super) struct Stop {
    /// Take what is there, then end.
    pub(super) drain: CancellationToken,
    /// The deadline has passed: end now, and tell what is left.
    pub(super) now: CancellationToken,
}

/// One segment.
pub(super) struct SegmentTask {
    chain: Chain,
    input: mpsc::Receiver<Parcel>,
    fanout: Fanout,
    /// Fed by receivers, whose clones of the input may outlive their shutdown.
    is_entry: bool,
    pending: VecDeque<Data>,
    sending_items: usize,
}

enum Event {
    Parcel(Parcel),
    Tick(Instant),
    Drain,
    End,
}

impl SegmentTask {
    pub(super) fn new(chain: Chain, input: mpsc::Receiver<Parcel>, fanout: Fanout, is_entry: bool) -> Self {
        Self { chain, input, fanout, is_entry, pending: VecDeque::new(), sending_items: 0 }
    }

    /// Runs until the input has ended and everything is given on; what was left if `stop.now` came first.
    pub(super) async fn run(mut self, stop: Stop) -> Rest {
        tokio::select! {
            biased;
            () = stop.now.cancelled() => Rest { left_items: self.left_items(), ..Rest::default() },
            () = work(&mut self, &stop) => Rest::default(),
        }
    }

    async fn next_event(&mut self, draining: bool, stop: &Stop) -> Event {
        let due = self.chain.next_tick();
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) {
            return Event::Tick(now);
        }
        tokio::select! {
            biased;
            () = stop.drain.cancelled(), if self.is_entry && !draining => Event::Drain,
            parcel = self.input.recv() => parcel.map_or(Event::End, Event::Parcel),
            () = at(due) => Event::Tick(Instant::now()),
        }
    }

    /// Gives on what the processors gave, under the receipt of the batch that brought it forth.
    async fn forward(&mut self, receipt: &Receipt) {
        while let Some(data) = self.pending.pop_front() {
            self.sending_items = data.items();
            self.fanout.send(data, receipt).await;
            self.sending_items = 0;
        }
    }

    /// Items in hand, in the processors and in the input.
    fn left_items(&mut self) -> usize {
        self.input.close();
        while let Ok(parcel) = self.input.try_recv() {
            self.chain.process(parcel.data, &mut self.pending);
        }
        self.chain.flush(&mut self.pending);
        self.sending_items + self.pending.iter().map(Data::items).sum::<usize>()
    }
}

async fn work(task: &mut SegmentTask, stop: &Stop) {
    let mut draining = false;
    loop {
        match task.next_event(draining, stop).await {
            Event::Parcel(Parcel { data, receipt }) => {
                task.chain.process(data, &mut task.pending);
                if task.pending.is_empty() {
                    // held back, or left out on purpose
                    receipt.taken();
                }
                task.forward(&receipt).await;
            }
            Event::Tick(now) => task.chain.tick(now, &mut task.pending),
            Event::Drain => {
                draining = true;
                task.input.close();
            }
            Event::End => break,
        }
        task.forward(&Receipt::default()).await;
        // where the input never runs empty, tokio would let it take 128 batches at a stretch, while clocks and
        // sockets wait
        tokio::task::yield_now().await;
    }
    task.chain.flush(&mut task.pending);
    task.forward(&Receipt::default()).await;
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::super::chain::Built;
    use super::*;
    use crate::pipeline::component::{Outbox, Processor};
    use crate::telemetry::Telemetry;

    struct Slow(Arc<AtomicUsize>);

    impl Processor for Slow {
        fn process(&mut self, _data: Data, _out: &mut Outbox) {
            std::thread::sleep(Duration::from_micros(50));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// 128 batches would come first: an agent with more than it can do kept its own page silent for 20 s.
    #[tokio::test]
    async fn a_full_input_does_not_hold_up_clocks_and_sockets() {
        let (telemetry, count) = (Telemetry::default(), Arc::default());
        let (sender, input) = mpsc::channel(900);
        for _ in 0..900 {
            sender.try_send(Parcel { data: Data::Logs(Vec::new()), receipt: Receipt::default() }).unwrap();
        }
        let slow: Box<dyn Processor> = Box::new(Slow(Arc::clone(&count)));
        let built = Built { id: "slow".into(), takes: Vec::new(), gives: Vec::new(), processor: slow };
        let chain = Chain::new(vec![built], &telemetry);
        let task = SegmentTask::new(chain, input, Fanout::new(Vec::new(), &telemetry), true);
        let running = tokio::spawn(task.run(Stop::default()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let taken = count.load(Ordering::Relaxed);
        running.abort();
        assert!((1..100).contains(&taken), "{taken} batches came before a clock of 1 ms");
    }
}
