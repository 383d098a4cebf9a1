//! One consumer of the queue: takes what waits, brings it, settles it.

use std::sync::Arc;

use super::courier::{Brought, Courier};
use super::queue::{Entry, Payload, Ticket};
use crate::pipeline::Data;

/// Runs until the queue is closed and empty, or the endpoint stays away in a shutdown.
pub(super) async fn run(courier: Arc<Courier>) {
    while let Some(entry) = courier.queue.take().await {
        if courier.gave_up() {
            return;
        }
        serve(&courier, entry).await;
    }
}

async fn serve(courier: &Courier, entry: Entry) {
    let Payload::Memory(data) = entry.payload;
    bring(courier, data, vec![entry.ticket]).await;
}

async fn bring(courier: &Courier, data: Data, tickets: Vec<Ticket>) {
    courier.queue.count_requests(true);
    courier.show_load();
    let brought = courier.bring(data).await;
    courier.queue.count_requests(false);
    if brought == Brought::Settled {
        for ticket in tickets {
            courier.queue.release(ticket.weight);
            if let Some(waiter) = ticket.waiter {
                // Nobody may wait any more; the fate is counted either way.
                let _gone = waiter.send(());
            }
        }
    }
    courier.show_load();
}
