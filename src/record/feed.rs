//! Pure: what comes out of an input becomes the batches that a live receiver would have sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::facts::Facts;
use super::input::Chunk;
use super::ledger::Ledger;
use crate::model::{
    BootNs, CgroupFacts, CgroupKey, ClockOffset, Collection, Cycle, HostFacts, LossReason, Losses, Owner, OwnerKind,
    Resource, SchedBatch,
};
use crate::timeline::{Event, Limits, Machine, Observer, Record, ThreadTotals};

/// A batch is sent when it has this many cycles.
const BATCH_CYCLES: usize = 4096;
/// Paths that are kept; one more than any host has cgroups.
const MAX_PATHS: usize = 65_536;

/// Whose everything is that no cgroup is known of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unowned {
    /// The input's own, by its name: what is replayed here did not happen here.
    #[default]
    Input,
    /// The host's, as with a live receiver.
    Host,
}

/// How batches are made.
#[derive(Debug, Clone, Default)]
pub struct FeedSettings {
    /// What the source is called: names the owner of what is in no known cgroup.
    pub name: String,
    /// As it is told: `replay`, `tracefs`.
    pub backend: &'static str,
    /// Whose that is which is in no known cgroup.
    pub unowned: Unowned,
    /// Wall minus boot time, ns, over what a recording says.
    pub wall_minus_boot_ns: Option<i64>,
    /// Trace time between two collections.
    pub collection_interval_ns: u64,
    /// Waits that are open for longer are told as starving.
    pub starvation_ns: u64,
}

/// The state between two chunks.
pub struct Feed {
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
    starvation_ns: u64,
}

impl Observer for Gathered {
    fn cycle(&mut self, cycle: Cycle) {
        if let Some(ns) = cycle.wait_ns {
            self.ledger.waited(cycle.cgroup, ns, false, self.starvation_ns);
        }
        self.cycles.push(cycle);
    }

    fn life_ended(&mut self, totals: ThreadTotals) {
        self.ledger.count(ThreadTotals { ended: true, ..totals });
    }
}

impl Feed {
    /// Nothing was taken yet.
    pub fn new(settings: FeedSettings) -> Self {
        let mut feed = Self {
            owner: Arc::new(owner(&settings.name)),
            machine: Machine::new(Limits::default()),
            gathered: Gathered { starvation_ns: settings.starvation_ns, ..Gathered::default() },
            settings,
            facts: Arc::default(),
            offset: ClockOffset::default(),
            paths: HashMap::new(),
            next_collection: None,
            unreadable: 0,
            told: Losses::default(),
        };
        feed.learn(&Facts::default());
        feed
    }

    /// Takes one chunk; gives a batch where one is full or a collection is due.
    pub fn take(&mut self, chunk: Chunk) -> Option<SchedBatch> {
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

    /// The time of the newest event.
    pub fn now(&self) -> BootNs {
        self.machine.now()
    }

    /// The last batch, with a collection; also where more is to come.
    pub fn finish(&mut self) -> SchedBatch {
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
            backend: self.settings.backend,
            throttle_source: "none",
            boot_id: boot_id.as_str().into(),
            kernel_release: facts.kernel_release.as_str().into(),
            cpus: facts.cpus,
            since: self.facts.since,
            starvation_ns: self.settings.starvation_ns,
            ..HostFacts::default()
        });
    }

    fn collect(&mut self, at: BootNs) -> Collection {
        let ledger = &mut self.gathered.ledger;
        for totals in self.machine.totals_at(at) {
            ledger.lives(totals.task.cgroup);
            ledger.count(totals);
        }
        for (task, ns) in self.machine.open_waits(at) {
            ledger.waited(task.cgroup, ns, true, self.settings.starvation_ns);
        }
        let cgroups = ledger.cgroups();
        ledger.begin_collection();
        Collection {
            at,
            cgroups,
            losses: self.losses(),
            switches: Some(self.machine.switches()),
            ..Collection::default()
        }
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
                None if self.settings.unowned == Unowned::Host => {
                    batch.cgroups.insert(key, CgroupFacts::default());
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
