//! Pure: what comes out of an input becomes the batches that a live receiver would have sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ledger::Ledger;
use crate::model::{
    BootNs, CgroupFacts, CgroupKey, ClockOffset, Collection, Cycle, HostFacts, LossReason, Losses, Owner, OwnerKind,
    Resource, SchedBatch,
};
use crate::record::{Chunk, Facts};
use crate::timeline::{Event, Limits, Machine, Observer, Record, ThreadTotals};

/// A batch is sent when it has this many cycles.
const BATCH_CYCLES: usize = 4096;
/// Paths that are kept; one more than any host has cgroups.
const MAX_PATHS: usize = 65_536;
/// Waits that are open for longer are told as starving.
const STARVATION_NS: u64 = 1_000_000_000;

/// How a replay is made.
#[derive(Debug, Clone, Default)]
pub(super) struct FeedSettings {
    /// What the source is called: names the owner of what is in no known cgroup.
    pub(super) name: String,
    /// Wall minus boot time, ns, over what a recording says.
    pub(super) wall_minus_boot_ns: Option<i64>,
    /// Trace time between two collections.
    pub(super) collection_interval_ns: u64,
}

/// The state between two chunks.
pub(super) struct Feed {
    settings: FeedSettings,
    machine: Machine,
    gathered: Gathered,
    facts: Arc<HostFacts>,
    offset: ClockOffset,
    owner: Arc<Owner>,
    paths: HashMap<CgroupKey, Arc<str>>,
    next_collection: Option<BootNs>,
    unreadable: u64,
    told: Losses,
}

/// What the machine found since the last batch.
#[derive(Default)]
struct Gathered {
    cycles: Vec<Cycle>,
    ledger: Ledger,
}

impl Observer for Gathered {
    fn cycle(&mut self, cycle: Cycle) {
        if let Some(ns) = cycle.wait_ns {
            self.ledger.waited(cycle.cgroup, ns, false, STARVATION_NS);
        }
        self.cycles.push(cycle);
    }

    fn life_ended(&mut self, totals: ThreadTotals) {
        self.ledger.count(ThreadTotals { ended: true, ..totals });
    }
}

impl Feed {
    pub(super) fn new(settings: FeedSettings) -> Self {
        let facts = Facts { backend: "replay".into(), ..Facts::default() };
        let mut feed = Self {
            owner: Arc::new(owner(&settings.name)),
            settings,
            machine: Machine::new(Limits::default()),
            gathered: Gathered::default(),
            facts: Arc::default(),
            offset: ClockOffset::default(),
            paths: HashMap::new(),
            next_collection: None,
            unreadable: 0,
            told: Losses::default(),
        };
        feed.learn(&facts);
        feed
    }

    /// Takes one chunk; gives a batch where one is full or a collection is due.
    pub(super) fn take(&mut self, chunk: Chunk) -> Option<SchedBatch> {
        match chunk {
            Chunk::Record(record) => self.record(&record),
            Chunk::Facts(facts) => {
                self.learn(&facts);
                None
            }
            Chunk::Cgroup { key, path } => {
                if self.paths.len() < MAX_PATHS {
                    self.paths.insert(key, path);
                }
                None
            }
            Chunk::Unreadable { records, .. } => {
                self.unreadable += records.unwrap_or(1).max(1);
                // what stood there is a hole in time, on every CPU
                let event = Event::Lost { count: 0, everywhere: true };
                self.machine.on(&Record::new(self.machine.now().0, 0, event), &mut self.gathered);
                None
            }
        }
    }

    /// The last batch, with a collection.
    pub(super) fn finish(&mut self) -> SchedBatch {
        let collection = self.collect(self.machine.now());
        self.batch(Some(collection))
    }

    fn record(&mut self, record: &Record) -> Option<SchedBatch> {
        let due = *self.next_collection.get_or_insert_with(|| {
            let facts = HostFacts { since: record.at, ..(*self.facts).clone() };
            self.facts = Arc::new(facts);
            BootNs(record.at.0.saturating_add(self.settings.collection_interval_ns))
        });
        let mut full = None;
        if record.at >= due {
            // every event before the boundary has been taken
            let interval = self.settings.collection_interval_ns.max(1);
            let at = BootNs(due.0.saturating_add(record.at.since(due) / interval * interval));
            let collection = self.collect(at);
            full = Some(self.batch(Some(collection)));
            self.next_collection = Some(BootNs(at.0.saturating_add(interval)));
        }
        if let Event::Identity { tid, cgroup, .. } = record.event
            && let Some(totals) = self.machine.totals_of(tid, record.at)
            && totals.task.cgroup != cgroup
        {
            // what it did until now stays with the cgroup it leaves
            self.gathered.ledger.count(totals);
        }
        self.machine.on(record, &mut self.gathered);
        full.or_else(|| (self.gathered.cycles.len() >= BATCH_CYCLES).then(|| self.batch(None)))
    }

    fn learn(&mut self, facts: &Facts) {
        let told = self.settings.wall_minus_boot_ns.or(facts.wall_minus_boot_ns);
        self.offset = ClockOffset { wall_minus_boot_ns: told.unwrap_or(0) };
        // trace ids hold the boot id: two files of unknown boots must not share theirs
        let boot_id = if facts.boot_id.is_empty() { &self.settings.name } else { &facts.boot_id };
        self.facts = Arc::new(HostFacts {
            backend: "replay",
            throttle_source: "none",
            boot_id: boot_id.as_str().into(),
            kernel_release: facts.kernel_release.as_str().into(),
            cpus: facts.cpus,
            since: self.facts.since,
            starvation_ns: STARVATION_NS,
        });
    }

    fn collect(&mut self, at: BootNs) -> Collection {
        let ledger = &mut self.gathered.ledger;
        for totals in self.machine.totals_at(at) {
            ledger.lives(totals.task.cgroup);
            ledger.count(totals);
        }
        for (task, ns) in self.machine.open_waits(at) {
            ledger.waited(task.cgroup, ns, true, STARVATION_NS);
        }
        let cgroups = ledger.cgroups();
        ledger.begin_collection();
        Collection { at, cgroups, losses: self.losses(), switches: Some(self.machine.switches()) }
    }

    fn losses(&self) -> Losses {
        let mut losses = self.machine.discards().losses();
        losses.add(LossReason::Decode, self.unreadable);
        losses
    }

    fn batch(&mut self, collection: Option<Collection>) -> SchedBatch {
        let cycles = std::mem::take(&mut self.gathered.cycles);
        let mut named: HashSet<CgroupKey> = cycles.iter().map(|cycle| cycle.cgroup).collect();
        named.extend(cycles.iter().filter_map(|cycle| cycle.waker.as_ref()).map(|waker| waker.cgroup));
        named.extend(collection.iter().flat_map(|collection| &collection.cgroups).map(|(key, _)| *key));
        let all = self.losses();
        let mut losses = Losses::default();
        for (reason, count) in all.iter() {
            losses.add(reason, count.saturating_sub(self.told.get(reason)));
        }
        self.told = all;
        let mut batch = SchedBatch {
            facts: Arc::clone(&self.facts),
            offset: self.offset,
            delivered_until: self.machine.now(),
            cycles,
            collection,
            losses,
            ..SchedBatch::default()
        };
        for key in named {
            match self.paths.get(&key) {
                Some(path) => {
                    let facts = CgroupFacts { path: Some(Arc::clone(path)), gone: false };
                    batch.cgroups.insert(key, facts);
                }
                None => {
                    batch.owners.insert(key, Arc::clone(&self.owner));
                }
            }
        }
        batch
    }
}

/// Whose everything is that no cgroup is known of: the input's itself.
fn owner(name: &str) -> Owner {
    let mut resource = Resource::new();
    resource.set("service.name", name.to_owned());
    Owner {
        key: name.into(),
        kind: OwnerKind::Unit,
        display_name: name.into(),
        resource: Arc::new(resource),
        provisional: false,
    }
}
