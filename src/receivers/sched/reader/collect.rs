//! One collection: totals, what the host's files say, who is gone.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::super::assemble::FoundThread;
use super::super::driver::{Driver, DriverError};
use super::super::ext;
use super::super::totals::of_thread;
use super::{Reader, slot_key};
use crate::model::{BootNs, CgroupKey, CgroupTotals, Collection, HostCounters, LossReason, ThreadTotals};

impl Reader {
    pub(super) fn collect(&mut self, driver: &Driver<'_>) -> Result<(Collection, HashSet<CgroupKey>), DriverError> {
        let begin = Instant::now();
        let args = driver.collect()?;
        self.generation = args.generation;
        self.contexts.count_lost(driver);
        let mut read = self.totals.read(driver, &args, self.pace.measured);
        let switches = driver.switches();
        let booked = read.iter().map(|(_, _, totals)| totals.switches()).sum();
        let not_shown = self.unseen.more(booked, switches, driver.skipped());
        self.lose(LossReason::NotShown, not_shown);
        if let Some(overhead) = &mut self.overhead {
            overhead.step(driver);
        }
        let at = BootNs(args.boot);
        let host = self.look_at_files(&mut read, at);
        let gone = self.forget_ended(driver, begin, &read);
        let collection = Collection {
            at,
            cgroups: read
                .into_iter()
                .map(|(_, key, totals)| (key, totals))
                .filter(|(key, _)| self.chosen.sees(*key, &self.paths))
                .collect(),
            losses: self.all,
            switches: Some(switches),
            host,
            threads: Vec::new(),
            threads_untold: args.untold,
        };
        Ok((collection, gone))
    }

    pub(super) fn add_threads(&mut self, collection: &mut Collection, found: Vec<FoundThread>) {
        let measured = self.pace.measured;
        let seen = found.into_iter().filter(|found| self.chosen.sees(found.cgroup, &self.paths));
        collection.threads = seen.map(|found| of_thread(found, measured)).collect();
        let untold = collection.threads_untold;
        if untold > 0 {
            let told = self.telemetry.counter("sched.receiver.threads.untold", "{thread}", &[("receiver", "sched")]);
            if told.get() == 0 {
                tracing::warn!(
                    "sched: {untold} threads found no room in the ring, their time is told under their containers; \
                     raise receivers::sched::ring_bytes"
                );
            }
            told.add(u64::from(untold));
        }
    }

    /// Quotas and pressure of the cgroups, and what the host tells of itself.
    fn look_at_files(&mut self, read: &mut [(u32, CgroupKey, CgroupTotals)], at: BootNs) -> HostCounters {
        let ext = self.ext.step(ext::look());
        let Some(files) = &mut self.limits else { return HostCounters { ext, ..HostCounters::default() } };
        let host = HostCounters { ext, ..files.begin() };
        for (_, key, totals) in read.iter_mut().filter(|(_, _, totals)| totals.threads > 0) {
            if let Some(path) = self.paths.get(key.id) {
                totals.limits = files.of(*key, &path);
                self.ext.judge(*key, &path, at, totals);
            }
        }
        host
    }

    /// Gives back what removed cgroups had, once their totals are final.
    fn forget_ended(
        &mut self,
        driver: &Driver<'_>,
        begin: Instant,
        read: &[(u32, CgroupKey, CgroupTotals)],
    ) -> HashSet<CgroupKey> {
        let ended: Vec<(CgroupKey, u32)> =
            self.leaving.iter().filter(|(_, (_, last))| *last <= begin).map(|(key, (slot, _))| (*key, *slot)).collect();
        if ended.is_empty() {
            return HashSet::new();
        }
        let last: HashMap<CgroupKey, u64> = read.iter().map(|(_, key, totals)| (*key, totals.switches())).collect();
        for (key, slot) in &ended {
            self.leaving.remove(key);
            self.totals.forget(*key);
            self.ext.forget(*key);
            if let Some(files) = &mut self.limits {
                files.forget(*key);
            }
            if *slot != 0 && slot_key(driver, *slot) == *key {
                self.unseen.forget(last.get(key).copied().unwrap_or(0));
                driver.free_slot(*slot, key.id);
            }
        }
        ended.into_iter().map(|(key, _)| key).collect()
    }
}

/// Puts what is not said again before the newer totals: the last of threads that ended, and what a thread did before it
/// moved. More than a bound of them stays part of their containers' time.
pub(super) fn keep_threads(mut old: Vec<ThreadTotals>, new: &mut Vec<ThreadTotals>) {
    const KEPT_MAX: usize = 65_536;
    let now: HashMap<u32, CgroupKey> = new.iter().map(|thread| (thread.task.tid, thread.cgroup)).collect();
    old.retain(|thread| thread.ended || now.get(&thread.task.tid).is_some_and(|cgroup| *cgroup != thread.cgroup));
    old.truncate(KEPT_MAX);
    old.append(new);
    *new = old;
}
