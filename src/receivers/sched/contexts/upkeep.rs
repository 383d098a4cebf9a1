//! What the reader does about thread contexts between two drains of the ring: asks about processes that are new,
//! tells the kernel side what was found, counts what could not be used.

use std::collections::HashSet;
use std::path::Path;

use super::shared::Shared;
use super::{Contexts, Place, sees_host};
use crate::model::{ProcessKey, Wants};
use crate::receivers::sched::driver::{Driver, context_place};
use crate::telemetry::Telemetry;

/// Why a record could not be used, in the order of [`Upkeep::lost`].
const REASONS: [&str; 3] = ["unread", "invalid", "stale"];

/// The reader's part; does nothing where nobody looks for contexts.
pub(in crate::receivers::sched) struct Upkeep {
    contexts: Option<Contexts>,
    shared: Option<Shared>,
    /// Processes that publish for themselves.
    publish: HashSet<u32>,
    telemetry: Telemetry,
    /// Records that could not be used, as last read.
    lost: [u64; 3],
}

impl Upkeep {
    /// Begins to look below this root where contexts are wanted; for those of other instrumentation at its pin.
    pub(in crate::receivers::sched) fn start(wanted: Wants, root: &Path, pin: &str, telemetry: Telemetry) -> Self {
        let sees_host = (wanted.contexts || wanted.shared_contexts) && sees_host(root);
        let contexts = (sees_host && wanted.contexts).then(|| Contexts::start(root)).flatten();
        let is_shared = sees_host && wanted.shared_contexts && !pin.is_empty();
        let shared = is_shared.then(|| Shared::new(Path::new(pin), root));
        Self { contexts, shared, publish: HashSet::new(), telemetry, lost: [0; 3] }
    }

    /// Asks about these processes, and tells the kernel side what was found of those before.
    pub(in crate::receivers::sched) fn step(&mut self, driver: &Driver<'_>, processes: &HashSet<ProcessKey>) {
        if let Some(shared) = &mut self.shared {
            for process in processes {
                shared.forget(process.pid);
            }
        }
        self.step_own(driver, processes);
        if let Some(shared) = &mut self.shared {
            let not_kept = shared.step(driver, |pid| self.publish.contains(&pid));
            self.count("map_full", not_kept);
        }
    }

    fn step_own(&mut self, driver: &Driver<'_>, processes: &HashSet<ProcessKey>) {
        let Some(contexts) = &self.contexts else { return };
        let not_asked = processes.iter().filter(|process| !contexts.seen(**process)).count();
        self.count("not_asked", not_asked as u64);
        for (process, found) in contexts.news() {
            let Some(place) = found else {
                self.publish.remove(&process.pid);
                driver.forget_context_place(process.pid);
                if let Some(shared) = &mut self.shared {
                    shared.forget(process.pid);
                }
                continue;
            };
            tracing::debug!("sched: process {} publishes its active spans: {place:?}", process.pid);
            self.publish.insert(process.pid);
            if !driver.set_context_place(process.pid, of_kernel(process, place)) {
                self.count("map_full", 1);
            }
        }
    }

    /// Counts the records of threads that could not be used since the last call.
    pub(in crate::receivers::sched) fn count_lost(&mut self, driver: &Driver<'_>) {
        let mut sums = [0; 3];
        for cpu in (0..driver.cpus()).map(|cpu| driver.cpu(cpu)) {
            for (sum, count) in sums.iter_mut().zip([cpu.contexts_unread, cpu.contexts_invalid, cpu.contexts_stale]) {
                *sum += count;
            }
        }
        for ((reason, now), before) in REASONS.iter().zip(sums).zip(self.lost) {
            self.count(reason, now - before);
        }
        self.lost = sums;
    }

    fn count(&self, reason: &str, count: u64) {
        if count > 0 {
            let attributes = [("receiver", "sched"), ("reason", reason)];
            self.telemetry.counter("sched.receiver.contexts.lost", "{context}", &attributes).add(count);
        }
    }
}

fn of_kernel(process: ProcessKey, place: Place) -> context_place {
    context_place {
        start: process.start.0,
        offset: place.offset,
        module: place.module,
        vector_at: place.vector_at,
        entry_bytes: place.entry_bytes,
        ..context_place::default()
    }
}
