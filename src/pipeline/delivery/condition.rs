//! Whether the endpoint takes what it gets, and one log line for each change of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::pipeline::Signal;

/// While drops for final answers go on, they are told this often.
const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// Who the lines are about.
pub(super) struct Condition {
    id: Arc<str>,
    signal: Signal,
    target: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    down: Option<Down>,
    overflowing: bool,
    drops: Repeated,
    rejections: Repeated,
    leftovers: Repeated,
}

struct Down {
    since: Instant,
    last_failure: Instant,
    lost_items: u64,
}

/// A message that comes again and again.
#[derive(Default)]
struct Repeated {
    told: Option<Instant>,
    items_since: u64,
}

impl Repeated {
    /// Adds `items`; how many to tell of now, if it is time to.
    fn add(&mut self, items: u64, now: Instant) -> Option<u64> {
        self.items_since += items;
        if self.told.is_some_and(|told| now.duration_since(told) < REPEAT_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.items_since))
    }
}

/// A log line about this exporter.
macro_rules! tell {
    ($level:ident, $self:ident, $($text:tt)*) => {
        tracing::$level!(
            otelcol.component.id = %$self.id,
            otelcol.component.kind = "exporter",
            otelcol.signal = %$self.signal,
            $($text)*
        )
    };
}

impl Condition {
    pub(super) fn new(id: Arc<str>, signal: Signal, target: &str) -> Self {
        let target = if target.is_empty() { id.to_string() } else { target.to_owned() };
        Self { id, signal, target, state: Mutex::default() }
    }

    /// What people call the place it sends to.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt failed and another will follow. `holds` says how full the queue is.
    pub(super) fn failed(&self, message: &str, holds: &str) {
        let now = Instant::now();
        let mut state = self.lock();
        match &mut state.down {
            Some(down) => down.last_failure = now,
            None => {
                state.down = Some(Down { since: now, last_failure: now, lost_items: 0 });
                tell!(warn, self, "{message}; retrying, {holds}");
            }
        }
    }

    /// The endpoint took a request, or gave an answer that was final for that request alone.
    pub(super) fn answered(&self) {
        let mut state = self.lock();
        if let Some(down) = state.down.take() {
            let lost = match down.lost_items {
                0 => "nothing was lost".to_owned(),
                1 => "1 item was lost".to_owned(),
                items => format!("{items} items were lost"),
            };
            tell!(info, self, "{} is back after {}; {lost}", self.target, for_people(down.since.elapsed()));
        }
    }

    /// Items were dropped for a reason that `message` tells; said at once, then once a minute.
    pub(super) fn dropped(&self, message: &str, items: u64) {
        let mut state = self.lock();
        if let Some(down) = &mut state.down {
            down.lost_items += items;
        }
        if let Some(items) = state.drops.add(items, Instant::now()) {
            tell!(error, self, dropped_items = items, "{message}; data dropped");
        }
    }

    /// The endpoint refused some items of a request it accepted, or had something to say about it.
    pub(super) fn partial(&self, message: &str, items: u64) {
        if let Some(items) = self.lock().rejections.add(items, Instant::now()) {
            tell!(warn, self, dropped_items = items, "{}: partial success: {message}", self.target);
        }
    }

    /// Items found no room.
    pub(super) fn overflowed(&self, message: &str, items: u64) {
        let mut state = self.lock();
        if let Some(down) = &mut state.down {
            down.lost_items += items;
        }
        if !state.overflowing {
            state.overflowing = true;
            tell!(error, self, dropped_items = items, "{message}; new data is dropped and counted until there is room");
        }
    }

    /// A record that was sent stays on disk, and will be sent again by the next process.
    pub(super) fn unremoved(&self, message: &str) {
        if self.lock().leftovers.add(1, Instant::now()).is_some() {
            tell!(
                warn,
                self,
                "a request that was sent cannot be removed from storage and may be sent twice: {message}"
            );
        }
    }

    /// Records of an earlier process: how many items wait, how many records could not be read.
    pub(super) fn restored(&self, items: u64, damaged: &[String]) {
        if items > 0 {
            tell!(info, self, "{items} items of an earlier run wait in storage and are sent first");
        }
        if let Some(first) = damaged.first() {
            tell!(error, self, "{} stored requests were damaged and removed: {first}", damaged.len());
        }
    }

    /// An item found room.
    pub(super) fn has_room(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.overflowing) {
            tell!(info, self, "the queue takes new data again");
        }
    }

    /// Whether an attempt has failed, and none was answered, since `since`.
    pub(super) fn down_since(&self, since: Instant) -> bool {
        self.lock().down.as_ref().is_some_and(|down| down.last_failure >= since)
    }
}

/// A duration in the unit a person would use.
fn for_people(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
