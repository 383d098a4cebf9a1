//! Pure: totals of cgroups become series of owners: cgroups of one container add up, a removed cgroup's part
//! stays in the sum, a series ends when its owner's last cgroup is gone. What single cycles say of an owner waits for its
//! first totals, which come up to an interval later.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::contention::{Contention, CulpritName};
use super::exemplars::Exemplars;
use super::sums::Sums;
use crate::model::{CgroupKey, CgroupTotals, CulpritKind, Cycle, Limits, Owner, OwnerKind, SchedBatch, WallNs};

/// One owner's series.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) owner: Arc<Owner>,
    /// Start of the cumulative points.
    pub(super) start: WallNs,
    /// Totals of cgroups that are gone.
    closed: CgroupTotals,
    live: HashMap<CgroupKey, CgroupTotals>,
    /// What was there before this series began (its owner's Resource changed).
    origin: CgroupTotals,
    /// The totals of the last points, for delta.
    pub(super) sent: CgroupTotals,
    pub(super) told: Told,
    /// The part of the totals that is told of processes or threads instead.
    apart: Sums,
    /// The rest, at the last points.
    pub(super) rest: Sums,
    pub(super) ended: bool,
}

/// What the cycles of one owner say beyond its totals.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) contention: Contention,
    pub(super) exemplars: Exemplars,
}

impl Series {
    fn new(owner: Arc<Owner>, start: WallNs) -> Self {
        Self {
            owner,
            start,
            closed: CgroupTotals::default(),
            live: HashMap::new(),
            origin: CgroupTotals::default(),
            sent: CgroupTotals::default(),
            told: Told::default(),
            apart: Sums::default(),
            rest: Sums::default(),
            ended: false,
        }
    }

    /// The sum of all its cgroups since the start.
    pub(super) fn totals(&self) -> CgroupTotals {
        let mut all = self.closed.clone();
        for totals in self.live.values() {
            add(&mut all, totals);
        }
        minus(&mut all, &self.origin);
        all
    }

    /// What of the totals is told of no process or thread, and what of it is new.
    pub(super) fn take_rest(&mut self, totals: &CgroupTotals) -> (Sums, Sums) {
        let mut rest = Sums::of(totals).since(&self.apart);
        rest.never_fall(&self.rest);
        let grown = rest.since(&self.rest);
        self.rest = rest;
        (rest, grown)
    }

    /// Takes the newest totals of one of its cgroups, `gone` the last ones.
    fn account(&mut self, key: CgroupKey, totals: &CgroupTotals, gone: bool) {
        let mut last = totals.clone();
        if let Some(before) = self.live.remove(&key)
            && last.limits == Limits::default()
        {
            // of a cgroup without threads the files are not read
            last.limits = before.limits;
        }
        if gone {
            last.threads = 0;
            last.starving_threads = 0;
            last.longest_wait_ns = 0;
            last.limits = last.limits.ended();
            add(&mut self.closed, &last);
        } else {
            self.live.insert(key, last);
        }
    }
}

/// Adds cumulative parts; the present ones (threads, longest) come from `more` too.
pub(super) fn add(to: &mut CgroupTotals, more: &CgroupTotals) {
    let mut sums = Sums::of(to);
    sums.add(&Sums::of(more));
    sums.put(to);
    to.wait.merge(&more.wait);
    to.throttle.merge(&more.throttle);
    for (mine, theirs) in [(&mut to.run, &more.run), (&mut to.block, &more.block)] {
        if let Some(theirs) = theirs {
            mine.get_or_insert_default().merge(theirs);
        }
    }
    to.longest_wait_ns = to.longest_wait_ns.max(more.longest_wait_ns);
    to.starving_threads += more.starving_threads;
    to.threads += more.threads;
    to.limits.merge(&more.limits);
}

/// What came since `before`; present values stay.
pub(super) fn minus(from: &mut CgroupTotals, before: &CgroupTotals) {
    Sums::of(from).since(&Sums::of(before)).put(from);
    let cut = |now: &mut crate::model::Histogram, then: &crate::model::Histogram| {
        for (mine, theirs) in now.buckets.iter_mut().zip(then.buckets) {
            *mine = mine.saturating_sub(theirs);
        }
        now.sum_ns = now.sum_ns.saturating_sub(then.sum_ns);
    };
    from.limits = from.limits.since(&before.limits);
    cut(&mut from.wait, &before.wait);
    cut(&mut from.throttle, &before.throttle);
    for (now, then) in [(&mut from.run, &before.run), (&mut from.block, &before.block)] {
        if let (Some(now), Some(then)) = (now, then) {
            cut(now, then);
        }
    }
}

/// All series.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) series: BTreeMap<Arc<str>, Series>,
    /// All that found no room among them; a cgroup that is in here stays until it is gone.
    pub(super) overflow: Option<Series>,
    /// Owners with a series of their own at the same time, the host's among them.
    series_max: usize,
    /// Of owners whose first totals are still to come, by their keys; at most `series_max`.
    early: HashMap<Arc<str>, Told>,
    /// Series that ended at this collection: the Resource changed, or the owner is gone.
    pub(super) ended: Vec<Series>,
    /// Cgroups that were put to the overflow so far.
    pub(super) overflowed: u64,
    last: Option<WallNs>,
}

impl Ledger {
    /// Nothing yet.
    pub(super) fn new(series_max: usize) -> Self {
        Self {
            series: BTreeMap::new(),
            overflow: None,
            series_max,
            early: HashMap::new(),
            ended: Vec::new(),
            overflowed: 0,
            last: None,
        }
    }

    /// Adds what the batch's cycles say about culprits, and keeps what is worth an exemplar.
    pub(super) fn charge(&mut self, batch: &SchedBatch, host: &Arc<Owner>) {
        let told = |cycle: &&Cycle| !cycle.culprits.is_empty() || cycle.context.is_some();
        for cycle in batch.cycles.iter().filter(told) {
            let victim = batch.owners.get(&cycle.cgroup).unwrap_or(host);
            let Some(told) = self.told(victim, cycle.cgroup) else { continue };
            for culprit in cycle.culprits.iter() {
                told.contention.charge(name(&culprit.kind, victim, batch), culprit.ns);
            }
            told.exemplars.see(cycle, batch);
        }
    }

    /// Where a cycle of this owner and cgroup is kept; nowhere when too many owners are new at once.
    fn told(&mut self, owner: &Owner, cgroup: CgroupKey) -> Option<&mut Told> {
        if let Some(series) = series_of(&mut self.overflow, &mut self.series, owner, cgroup) {
            return Some(&mut series.told);
        }
        if self.early.len() >= self.series_max && !self.early.contains_key(&owner.key) {
            return None;
        }
        Some(self.early.entry(Arc::clone(&owner.key)).or_default())
    }

    /// Where what is told of an owner's processes is noted.
    pub(super) fn apart(&mut self, owner: &Owner, cgroup: CgroupKey) -> Option<&mut Sums> {
        series_of(&mut self.overflow, &mut self.series, owner, cgroup).map(|series| &mut series.apart)
    }

    /// Takes a collection.
    pub(super) fn collect(&mut self, batch: &SchedBatch, host: &Arc<Owner>) {
        let Some(collection) = &batch.collection else { return };
        let now = batch.offset.wall(collection.at);
        let start = self.last.unwrap_or_else(|| batch.offset.wall(batch.facts.since));
        self.ended.clear();
        for series in self.series.values_mut().chain(&mut self.overflow) {
            for totals in series.live.values_mut() {
                totals.threads = 0;
                totals.starving_threads = 0;
                totals.longest_wait_ns = 0;
            }
        }
        for (key, totals) in &collection.cgroups {
            let owner = batch.owners.get(key).unwrap_or(host);
            let gone = batch.cgroups.get(key).is_some_and(|facts| facts.gone);
            self.place(owner, host, *key, totals, gone, start);
        }
        let finished: Vec<Arc<str>> = self
            .series
            .iter()
            .filter(|(_, series)| series.live.is_empty() && series.owner.kind != OwnerKind::Host)
            .map(|(key, _)| Arc::clone(key))
            .collect();
        for key in finished {
            if let Some(series) = self.series.get_mut(&key) {
                series.ended = true;
            }
        }
        // an owner without totals at this collection has none to come: late cycles of what is gone
        self.early.clear();
        self.last = Some(now);
    }

    fn place(
        &mut self,
        owner: &Arc<Owner>,
        host: &Arc<Owner>,
        key: CgroupKey,
        totals: &CgroupTotals,
        gone: bool,
        start: WallNs,
    ) {
        if self.is_summed(owner, key) {
            let series = self.overflow.get_or_insert_with(|| Series::new(Arc::clone(host), start));
            self.overflowed += u64::from(!series.live.contains_key(&key));
            series.owner = Arc::clone(host);
            series.account(key, totals, gone);
            return;
        }
        let early = &mut self.early;
        let series = self.series.entry(Arc::clone(&owner.key)).or_insert_with(|| {
            let told = early.remove(&owner.key).unwrap_or_default();
            Series { told, ..Series::new(Arc::clone(owner), start) }
        });
        if series.owner.resource != owner.resource {
            // names came late: the series under the old Resource ends, one under the new begins
            let mut old = series.clone();
            old.ended = true;
            series.origin = old.closed.clone();
            for totals in old.live.values() {
                add(&mut series.origin, totals);
            }
            series.owner = Arc::clone(owner);
            series.start = start;
            series.sent = CgroupTotals::default();
            series.told.contention = series.told.contention.renewed();
            (series.apart, series.rest) = Default::default();
            self.ended.push(old);
        }
        series.account(key, totals, gone);
    }

    /// Whether a cgroup's totals go to the overflow. There is always room for the host.
    fn is_summed(&self, owner: &Owner, key: CgroupKey) -> bool {
        let of_host = usize::from(self.series.contains_key("host"));
        let is_full = self.series.len() - of_host + 1 >= self.series_max && !self.series.contains_key(&owner.key);
        let is_in = self.overflow.as_ref().is_some_and(|series| series.live.contains_key(&key));
        owner.kind != OwnerKind::Host && (is_in || is_full)
    }

    /// Forgets the series that ended; their last points have been made.
    pub(super) fn sweep(&mut self) {
        self.series.retain(|_, series| !series.ended);
        self.ended.clear();
    }

    /// Whether nothing is kept of anyone.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.series.is_empty() && self.early.is_empty()
    }

    /// The wall time of the last collection, or of the start.
    pub(super) fn last(&self) -> Option<WallNs> {
        self.last
    }
}

/// The series that a cgroup's totals go to: the overflow's, once it is in there.
fn series_of<'a>(
    overflow: &'a mut Option<Series>,
    series: &'a mut BTreeMap<Arc<str>, Series>,
    owner: &Owner,
    cgroup: CgroupKey,
) -> Option<&'a mut Series> {
    let summed = overflow.as_mut().filter(|series| series.live.contains_key(&cgroup));
    summed.or_else(|| series.get_mut(&owner.key))
}

/// What a culprit is called towards a victim.
fn name(kind: &CulpritKind, victim: &Owner, batch: &SchedBatch) -> CulpritName {
    match kind {
        CulpritKind::Kernel { .. } => CulpritName::pseudo("kernel"),
        CulpritKind::Idle => CulpritName::pseudo("idle"),
        CulpritKind::Irq => CulpritName::pseudo("irq"),
        CulpritKind::Unattributed => CulpritName::pseudo("unattributed"),
        CulpritKind::Other => CulpritName::pseudo("other"),
        CulpritKind::Task { cgroup, .. } => match batch.owners.get(cgroup) {
            Some(owner) if owner.key == victim.key => CulpritName::pseudo("self"),
            Some(owner) => {
                let id = owner.resource.text("container.id").unwrap_or(&owner.key);
                CulpritName { id: id.into(), name: Arc::clone(&owner.display_name) }
            }
            None if victim.kind == OwnerKind::Host => CulpritName::pseudo("self"),
            None => CulpritName::pseudo("host"),
        },
    }
}
