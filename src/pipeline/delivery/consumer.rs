//! One consumer of the queue: takes what waits, gathers it into a batch where asked to, brings it, settles it.

use std::sync::Arc;

use tokio::time::Instant;

use super::courier::{Brought, Courier};
use super::queue::{Entry, Payload, Ticket};
use super::settings::Batch;
use super::size::weight;
use super::split::split;
use crate::pipeline::{Data, Signal};

/// What goes to the endpoint together.
struct Load {
    data: Data,
    tickets: Vec<Ticket>,
}

/// Runs until the queue is closed and empty, or the endpoint stays away in a shutdown.
pub(super) async fn run(courier: Arc<Courier>) {
    while let Some(load) = next(&courier).await {
        if courier.gave_up() {
            return;
        }
        bring(&courier, load).await;
    }
}

async fn next(courier: &Courier) -> Option<Load> {
    let batch = courier.settings.sending_queue.batch.as_ref().filter(|_| courier.signal != Signal::Sched);
    let Some(batch) = batch else { return courier.queue.take().await.map(open) };
    // One gathers at a time, or each consumer would wait for a batch of its own.
    let _gathering = courier.gathering.lock().await;
    let load = open(courier.queue.take().await?);
    Some(gather(courier, batch, load).await)
}

fn open(entry: Entry) -> Load {
    let Payload::Memory(data) = entry.payload;
    Load { data, tickets: vec![entry.ticket] }
}

/// Adds what comes until the batch is full, `flush_timeout` is over, or a shutdown empties the queue.
async fn gather(courier: &Courier, batch: &Batch, mut load: Load) -> Load {
    let flush_at = Instant::now() + batch.flush_timeout.0;
    let mut size = weight(&load.data, batch.sizer);
    while size < batch.min_size {
        let entry = tokio::select! {
            biased;
            entry = courier.queue.take() => entry,
            () = tokio::time::sleep_until(flush_at) => None,
            () = courier.draining.cancelled() => None,
        };
        let Some(entry) = entry else { break };
        let more = open(entry);
        size += weight(&more.data, batch.sizer);
        append(&mut load.data, more.data);
        load.tickets.extend(more.tickets);
    }
    load
}

/// Joins two batches of one signal.
fn append(to: &mut Data, from: Data) {
    match (to, from) {
        (Data::Traces(to), Data::Traces(from)) => to.extend(from),
        (Data::Metrics(to), Data::Metrics(from)) => to.extend(from),
        (Data::Logs(to), Data::Logs(from)) => to.extend(from),
        // A queue has one signal, and `next` gathers none of these.
        (Data::Sched(_) | Data::Traces(_) | Data::Metrics(_) | Data::Logs(_), _) => {}
    }
}

async fn bring(courier: &Courier, load: Load) {
    courier.queue.count_requests(true);
    courier.show_load();
    let mut brought = Brought::Settled;
    for part in bounded(courier, load.data) {
        if courier.bring(part).await == Brought::Left {
            brought = Brought::Left;
        }
    }
    courier.queue.count_requests(false);
    if brought == Brought::Settled {
        load.tickets.into_iter().for_each(|ticket| settle(courier, ticket));
    }
    courier.show_load();
}

/// The parts that `batch::max_size` asks for.
fn bounded(courier: &Courier, data: Data) -> Vec<Data> {
    match &courier.settings.sending_queue.batch {
        Some(batch) if batch.max_size > 0 => {
            let split = split(data, batch.max_size, batch.sizer);
            courier.lose_oversize(split.oversize_items, "sending_queue::batch::max_size", batch.max_size);
            split.parts
        }
        _ => vec![data],
    }
}

fn settle(courier: &Courier, ticket: Ticket) {
    courier.queue.release(ticket.weight);
    if let Some(waiter) = ticket.waiter {
        // Nobody may wait any more; the fate is counted either way.
        let _gone = waiter.send(());
    }
}
