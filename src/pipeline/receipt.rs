//! What became of data that came in, so that its sender is told the truth.
//!
//! A batch travels with a [`Receipt`]; whoever takes it over for good (an exporter's queue, on disk where it is
//! stored; a processor that holds it back, such as `batch`) says so, whoever must drop it says that. The sender
//! is told once no copy is on its way any more. Taken by one of several exporters is taken: refused, it would
//! come again to those that have it, and what the others dropped is counted where they dropped it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::component::Refused;
use super::data::Data;

/// What travels between tasks.
pub struct Parcel {
    /// The batch.
    pub data: Data,
    /// Whom to tell.
    pub receipt: Receipt,
}

/// A share in the fate of one batch; the default one tells nobody.
#[derive(Clone, Default)]
pub struct Receipt(Option<Arc<Slip>>);

struct Slip {
    taken: AtomicBool,
    refused: Mutex<Option<String>>,
    told: Option<oneshot::Sender<Result<(), Refused>>>,
}

/// Said of what nobody took and nobody refused: its task has ended.
const ENDED: &str = "the pipeline has been shut down";

impl Receipt {
    /// A receipt, and where its outcome comes.
    pub fn new() -> (Self, oneshot::Receiver<Result<(), Refused>>) {
        let (sender, outcome) = oneshot::channel();
        let slip = Slip { taken: AtomicBool::new(false), refused: Mutex::default(), told: Some(sender) };
        (Self(Some(Arc::new(slip))), outcome)
    }

    /// Somebody answers for it from here on.
    pub fn taken(&self) {
        if let Some(slip) = &self.0 {
            slip.taken.store(true, Ordering::Release);
        }
    }

    /// It was dropped for this reason, or a part of it.
    pub fn refuse(&self, reason: &str) {
        if let Some(slip) = &self.0 {
            slip.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        }
    }
}

impl Drop for Slip {
    fn drop(&mut self) {
        let refused = self.refused.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = match (self.taken.load(Ordering::Acquire), refused) {
            (true, _) => Ok(()),
            (false, Some(reason)) => Err(Refused { reason }),
            (false, None) => Err(Refused { reason: ENDED.to_owned() }),
        };
        if let Some(told) = self.told.take() {
            // A sender that has gone away does not want to know.
            let _gone = told.send(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_comes_with_the_last_copy() {
        let outcome = |say: fn(&Receipt, &Receipt)| {
            let (first, mut outcome) = Receipt::new();
            let second = first.clone();
            say(&first, &second);
            drop(first);
            assert!(outcome.try_recv().is_err(), "a copy is still on its way");
            drop(second);
            outcome.try_recv().unwrap().map_err(|refused| refused.reason)
        };
        assert_eq!(outcome(|first, _| first.taken()), Ok(()));
        let mixed = |first: &Receipt, second: &Receipt| {
            first.refuse("full");
            second.taken();
        };
        assert_eq!(outcome(mixed), Ok(()));
        let twice = |first: &Receipt, second: &Receipt| {
            first.refuse("full");
            second.refuse("late");
        };
        assert_eq!(outcome(twice), Err("full".to_owned()));
        assert_eq!(outcome(|_, _| {}), Err(ENDED.to_owned()));
        let nobody = Receipt::default();
        nobody.taken();
        nobody.refuse("x");
    }
}
