//! One consumer of the queue: takes what waits, gathers it into a batch where asked to, brings it, settles it.

use std::sync::Arc;

use tokio::time::Instant;

use super::counters::Lost;
use super::courier::{Brought, Courier};
use super::queue::{Entry, Payload, Ticket};
use super::settings::Batch;
use super::size::weight;
use super::split::split;
use crate::pipeline::{Data, Signal, StorageError};

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
    let Some(batch) = batch else { return take(courier).await };
    // One gathers at a time, or each consumer would wait for a batch of its own.
    let _gathering = courier.gathering.lock().await;
    let load = take(courier).await?;
    Some(gather(courier, batch, load).await)
}

/// The next request that can be had.
async fn take(courier: &Courier) -> Option<Load> {
    loop {
        if let Some(load) = open(courier, courier.queue.take().await?).await {
            return Some(load);
        }
    }
}

/// The request of an entry, from the store where it is there. A damaged record is lost, counted and removed.
async fn open(courier: &Courier, entry: Entry) -> Option<Load> {
    let read = match (entry.payload, &courier.stored) {
        (Payload::Memory(data), _) => Ok(data),
        (Payload::Stored(id), Some(stored)) => stored.read(id, courier.signal).await,
        (Payload::Stored(_), None) => Err(StorageError::Failed("there is no storage".to_owned())),
    };
    match read {
        Ok(data) => Some(Load { data, tickets: vec![entry.ticket] }),
        Err(error) => {
            courier.lose(Lost::Damaged, entry.ticket.items, &format!("a queued request cannot be read: {error}"));
            settle(courier, entry.ticket).await;
            None
        }
    }
}

/// Adds what comes until the batch is full, `flush_timeout` is over, or a shutdown empties the queue.
async fn gather(courier: &Courier, batch: &Batch, mut load: Load) -> Load {
    let flush_at = Instant::now() + batch.flush_timeout.0;
    let mut size = weight(&load.data, batch.sizer);
    while size < batch.min_size.get() {
        let entry = tokio::select! {
            biased;
            entry = courier.queue.take() => entry,
            () = tokio::time::sleep_until(flush_at) => None,
            () = courier.draining.cancelled() => None,
        };
        let Some(entry) = entry else { break };
        let Some(more) = open(courier, entry).await else { continue };
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
        for ticket in load.tickets {
            settle(courier, ticket).await;
        }
    }
    courier.show_load();
}

/// The parts that `batch::max_size` asks for.
fn bounded(courier: &Courier, data: Data) -> Vec<Data> {
    match &courier.settings.sending_queue.batch {
        Some(batch) if batch.max_size.get() > 0 => {
            let split = split(data, batch.max_size.get(), batch.sizer);
            courier.lose_oversize(split.oversize_items, "sending_queue::batch::max_size", batch.max_size.get());
            split.parts
        }
        _ => vec![data],
    }
}

async fn settle(courier: &Courier, ticket: Ticket) {
    if let (Some(id), Some(stored)) = (ticket.stored, &courier.stored)
        && let Err(error) = stored.remove(id).await
    {
        courier.condition.unremoved(&error.to_string());
    }
    courier.queue.release(ticket.weight);
    if let Some(waiter) = ticket.waiter {
        // Nobody may wait any more; the fate is counted either way.
        let _gone = waiter.send(());
    }
}
