//! Pure: cycles gathered by owner and window until all of the window has been delivered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::model::{
    BootNs, CgroupKey, CgroupTotals, ClockOffset, Cycle, Losses, Owner, OwnerKind, Process, SchedBatch, SchedState,
};

/// How far a collection may lie from a window's end and still be its totals.
const NEAR_NS: u64 = 250_000_000;

/// A thread in a window.
#[derive(Debug, Clone)]
pub(super) struct ThreadWindow {
    pub(super) process: Option<Arc<Process>>,
    pub(super) cycles: Vec<Cycle>,
}

/// Identity of a thread that does not repeat.
pub(super) type ThreadKey = (u32, BootNs);

/// What an owner's threads did in a window, measured by totals.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) times: Vec<(SchedState, u64)>,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) longest_wait_ns: u64,
}

/// One owner's part of a window.
#[derive(Debug, Clone)]
pub(super) struct OwnerWindow {
    pub(super) owner: Arc<Owner>,
    pub(super) threads: BTreeMap<ThreadKey, ThreadWindow>,
    pub(super) measured: Option<Measured>,
    /// It was not chosen to give spans.
    pub(super) silent: bool,
}

/// One window of all owners.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Begin, wall ns, a multiple of the length.
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
    /// One offset for all of the window, so that no interval inverts.
    pub(super) offset: ClockOffset,
    pub(super) owners: BTreeMap<Arc<str>, OwnerWindow>,
    pub(super) losses: Losses,
    /// Who the culprits and wakers are.
    pub(super) named: HashMap<CgroupKey, Arc<Owner>>,
}

/// Windows that are open, and the totals at the last collection.
#[derive(Debug, Default)]
pub(super) struct Windows {
    open: BTreeMap<u64, Window>,
    last: HashMap<CgroupKey, CgroupTotals>,
    last_at: Option<BootNs>,
    /// Cycles in open windows; bounded by what the receiver selects in a window.
    held: usize,
    /// Cycles that were not kept because of [`HELD_MAX`], since they were last counted.
    pub(super) dropped: u64,
    /// There were cycles of threads in no container and no unit, which have no trace.
    pub(super) saw_host: bool,
}

/// Cycles held in open windows, all owners together.
const HELD_MAX: usize = 500_000;

impl Windows {
    /// Takes a batch; gives the windows that are complete.
    pub(super) fn take(&mut self, batch: &SchedBatch, length_ns: u64) -> Vec<Window> {
        for cycle in &batch.cycles {
            self.cycle(cycle, batch, length_ns);
        }
        if batch.losses.total() > 0 {
            let now = batch.offset.wall(batch.delivered_until).0;
            self.window(now, batch.offset, length_ns).losses.merge(&batch.losses);
        }
        let measured_until = self.measure(batch, length_ns);
        self.rename(batch);
        let until = batch.offset.wall(batch.delivered_until).0;
        let mut complete = Vec::new();
        while let Some(entry) = self.open.first_entry() {
            let end = entry.get().start_ns + length_ns;
            // totals come a moment after the window's end; where none come, the window waits no longer than that
            let ready = until >= end && (measured_until + NEAR_NS >= end || until >= end + 2 * NEAR_NS);
            if !ready {
                break;
            }
            let window = entry.remove();
            self.held -= window.cycles();
            complete.push(window);
        }
        complete
    }

    /// A window is told by what is known when it closes: names that came since its cycles count.
    fn rename(&mut self, batch: &SchedBatch) {
        if batch.collection.is_none() && batch.targets.is_none() {
            return;
        }
        for window in self.open.values_mut() {
            for owner in batch.owners.values() {
                if let Some(part) = window.owners.get_mut(&owner.key) {
                    part.owner = Arc::clone(owner);
                    part.silent = batch.silent.contains(&owner.key);
                }
            }
        }
    }

    /// Gives what is open: the input has ended.
    pub(super) fn end(&mut self) -> Vec<Window> {
        self.held = 0;
        std::mem::take(&mut self.open).into_values().collect()
    }

    fn window(&mut self, at_ns: u64, offset: ClockOffset, length_ns: u64) -> &mut Window {
        let start_ns = at_ns - at_ns % length_ns;
        self.open.entry(start_ns).or_insert_with(|| Window {
            start_ns,
            length_ns,
            offset,
            owners: BTreeMap::new(),
            losses: Losses::default(),
            named: HashMap::new(),
        })
    }

    fn cycle(&mut self, cycle: &Cycle, batch: &SchedBatch, length_ns: u64) {
        let Some(owner) = batch.owners.get(&cycle.cgroup).filter(|owner| owner.kind != OwnerKind::Host) else {
            self.saw_host = true;
            return;
        };
        if self.held >= HELD_MAX {
            self.dropped += 1;
            return;
        }
        self.held += 1;
        let end = batch.offset.wall(cycle.end).0;
        let window = self.window(end, batch.offset, length_ns);
        let others = cycle.culprits.iter().filter_map(|culprit| match &culprit.kind {
            crate::model::CulpritKind::Task { cgroup, .. } => Some(*cgroup),
            _ => None,
        });
        for key in others.chain(cycle.waker.iter().map(|waker| waker.cgroup)) {
            if let Some(other) = batch.owners.get(&key) {
                window.named.entry(key).or_insert_with(|| Arc::clone(other));
            }
        }
        let part = window.part(owner);
        part.owner = Arc::clone(owner);
        part.silent = batch.silent.contains(&owner.key);
        let process = batch.processes.get(&cycle.task.process);
        let thread = part
            .threads
            .entry((cycle.task.tid, cycle.task.start))
            .or_insert_with(|| ThreadWindow { process: process.cloned(), cycles: Vec::new() });
        if let Some(process) = process {
            thread.process = Some(Arc::clone(process));
        }
        thread.cycles.push(cycle.clone());
    }

    /// Lays a collection that ends near a window's end over that window; gives the wall time it reaches.
    fn measure(&mut self, batch: &SchedBatch, length_ns: u64) -> u64 {
        let Some(collection) = &batch.collection else {
            return self.last_at.map_or(0, |at| batch.offset.wall(at).0);
        };
        let at = batch.offset.wall(collection.at).0;
        let end = (at + NEAR_NS) / length_ns * length_ns;
        let begun = self.last_at.map(|at| batch.offset.wall(at).0);
        let fits = at.abs_diff(end) <= NEAR_NS && begun.is_some_and(|begun| begun.abs_diff(end - length_ns) <= NEAR_NS);
        if let (true, Some(window)) = (fits, self.open.get_mut(&(end - length_ns))) {
            for (key, totals) in &collection.cgroups {
                let Some(part) = batch.owners.get(key).and_then(|owner| window.owners.get_mut(&owner.key)) else {
                    continue;
                };
                let before = self.last.get(key);
                part.measured.get_or_insert_default().add(totals, before);
            }
        }
        self.last = collection.cgroups.iter().cloned().collect();
        self.last_at = Some(collection.at);
        at
    }
}

impl Window {
    fn part(&mut self, owner: &Arc<Owner>) -> &mut OwnerWindow {
        self.owners.entry(Arc::clone(&owner.key)).or_insert_with(|| OwnerWindow {
            owner: Arc::clone(owner),
            threads: BTreeMap::new(),
            measured: None,
            silent: false,
        })
    }

    fn cycles(&self) -> usize {
        self.owners.values().flat_map(|part| part.threads.values()).map(|thread| thread.cycles.len()).sum()
    }
}

impl Measured {
    fn add(&mut self, now: &CgroupTotals, before: Option<&CgroupTotals>) {
        for state in SchedState::ALL {
            let Some(ns) = now.times.get(state) else { continue };
            let since = before.and_then(|totals| totals.times.get(state)).unwrap_or(0);
            let grown = ns.saturating_sub(since);
            match self.times.iter_mut().find(|(known, _)| *known == state) {
                Some((_, sum)) => *sum += grown,
                None => self.times.push((state, grown)),
            }
        }
        self.voluntary += now.voluntary.saturating_sub(before.map_or(0, |totals| totals.voluntary));
        self.involuntary += now.involuntary.saturating_sub(before.map_or(0, |totals| totals.involuntary));
        self.longest_wait_ns = self.longest_wait_ns.max(now.longest_wait_ns);
    }

    /// Time in one state, `None` where it is not measured.
    pub(super) fn time(&self, state: SchedState) -> Option<u64> {
        self.times.iter().find(|(known, _)| *known == state).map(|(_, ns)| *ns)
    }
}
