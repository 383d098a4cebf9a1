//! A configuration that is made again from its files when it is old, so that a renewed certificate needs no restart.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Load<T> = Box<dyn Fn() -> Result<Arc<T>, String> + Send + Sync>;

/// What `load` gives, read again after `interval` (never where that is zero). Clones share it.
pub struct Reloaded<T>(Arc<Shared<T>>);

struct Shared<T> {
    load: Load<T>,
    interval: Duration,
    loaded: Mutex<(Arc<T>, Instant)>,
}

impl<T> Clone for Reloaded<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Reloaded<T> {
    /// Loads at once: what is wrong with the files is told at the start, not at the first connection.
    ///
    /// # Errors
    /// As `load` has it.
    pub fn new(
        interval: Duration,
        load: impl Fn() -> Result<Arc<T>, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let loaded = Mutex::new((load()?, Instant::now()));
        Ok(Self(Arc::new(Shared { load: Box::new(load), interval, loaded })))
    }

    /// The configuration for the next connection. Files that cannot be read leave the old one in use.
    pub fn current(&self) -> Arc<T> {
        let Shared { load, interval, loaded } = self.0.as_ref();
        let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !interval.is_zero() && loaded.1.elapsed() >= *interval {
            loaded.1 = Instant::now();
            match load() {
                Ok(config) => loaded.0 = config,
                Err(error) => tracing::warn!("TLS files not reloaded, the old ones stay in use: {error}"),
            }
        }
        loaded.0.clone()
    }
}
