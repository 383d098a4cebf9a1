//! Every cgroup's owner: parsed once, named when names come, kept while it is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::grammar::{parse_path, parse_text};
use super::identity::Known;
use super::kubernetes::{PodFacts, PodStore};
use super::names::{Book, Names};
use super::owner::{Facts, build};
use super::proc_files::{ProcFiles, ProcessFacts};
use crate::model::{CgroupFacts, CgroupKey, Owner, OwnerKind, ProcessKey, Resource};
use crate::telemetry::Meter;

/// Executables that run in a new container before its own program does.
const CONTAINER_STARTERS: [&str; 6] = ["runc", "crun", "youki", "conmon", "lxc-start", "exe"];

/// An owner with what it was built from.
#[derive(Debug)]
pub(super) struct OwnerEntry {
    /// From the path.
    pub(super) known: Known,
    /// From the runtime.
    pub(super) names: Option<Arc<Names>>,
    /// From Kubernetes.
    pub(super) pod: Option<Arc<PodFacts>>,
    /// The owner as it is handed out.
    pub(super) owner: Arc<Owner>,
    main: Main,
    first_seen: Instant,
    /// A cgroup of it, to find the main process in.
    path: Option<Arc<str>>,
}

impl OwnerEntry {
    /// A cgroup of it.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }
}

/// The main process of a container.
#[derive(Debug, Clone, PartialEq)]
enum Main {
    /// Not read yet, or still the runtime's own program.
    Pending,
    /// Its facts, where they could be had.
    Settled(Option<ProcessFacts>),
}

/// Where each cgroup belongs: its owner's key, and the path that guards against an id that is reused.
pub(super) type CgroupCache = Cache<CgroupKey, (Option<Arc<str>>, Arc<str>)>;

/// What the owners are made with.
pub(super) struct OwnerSettings {
    /// See `ContainerSettings::name_wait`.
    pub(super) name_wait: Duration,
    /// See `ContainerSettings::environment`.
    pub(super) environment: Vec<String>,
    /// The host's attributes.
    pub(super) host: Resource,
}

/// Owners by cgroup.
pub(super) struct Owners {
    cgroups: CgroupCache,
    owners: Cache<Arc<str>, OwnerEntry>,
    settings: OwnerSettings,
    book: Book,
    pods: PodStore,
    seen: (u64, u64),
    /// Cgroups that nobody could name: gone before anybody looked.
    unknown: Meter,
    /// Owners whose names came after they were handed out as final.
    late: Meter,
}

/// Reads of `/proc` that are left in this batch.
#[derive(Debug)]
pub(super) struct Budget(pub(super) usize);

impl Budget {
    /// Takes one, if any is left.
    pub(super) fn take(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

impl Owners {
    /// No owners yet.
    pub(super) fn new(
        settings: OwnerSettings,
        caches: (CgroupCache, Cache<Arc<str>, OwnerEntry>),
        book: Book,
        pods: PodStore,
        meters: (Meter, Meter),
    ) -> Self {
        let (cgroups, owners) = caches;
        let (unknown, late) = meters;
        Self { cgroups, owners, settings, book, pods, seen: (0, 0), unknown, late }
    }

    /// Takes over what sources have told since the batch before.
    pub(super) fn take_news(&mut self, now: Instant) {
        let version = (self.book.version(), self.pods.version());
        if version == self.seen {
            return;
        }
        let mut news: Vec<Arc<str>> = if version.0 == self.seen.0 { Vec::new() } else { self.book.take_changed() };
        if version.1 != self.seen.1 {
            let changed = self.pods.take_changed();
            let of_pods = self.owners.iter_mut().filter(|(_, entry)| {
                pod_uid(&entry.known, entry.names.as_deref()).is_some_and(|uid| changed.contains(uid.as_ref()))
            });
            news.extend(of_pods.map(|(key, _)| Arc::clone(key)));
        }
        self.seen = version;
        for key in news {
            self.refresh(&key, now, false);
        }
    }

    /// The owner of a cgroup; `None`: the host, or nobody knows. `task` is one that lives in it.
    pub(super) fn resolve(
        &mut self,
        key: CgroupKey,
        facts: &CgroupFacts,
        task: Option<ProcessKey>,
        files: &ProcFiles,
        budget: &mut Budget,
        now: Instant,
    ) -> Option<Arc<Owner>> {
        let owner_key = match self.cgroups.get_mut(&key, now) {
            Some((path, owner)) if facts.path.is_none() || *path == facts.path => Arc::clone(owner),
            _ => self.identify(key, facts, task, files, now)?,
        };
        let entry = self.owners.get_mut(&owner_key, now)?;
        if entry.owner.provisional || entry.main == Main::Pending {
            let expired = now.saturating_duration_since(entry.first_seen) >= self.settings.name_wait;
            let read = settle_main(entry, &self.settings.environment, files, budget, expired);
            self.refresh(&owner_key, now, read);
        }
        self.owners.peek(&owner_key).map(|entry| Arc::clone(&entry.owner))
    }

    /// What an owner was built from.
    pub(super) fn entry(&self, owner: &Owner) -> Option<&OwnerEntry> {
        self.owners.peek(&owner.key)
    }

    /// Drops what was not used for `ttl`.
    pub(super) fn sweep(&mut self, now: Instant, ttl: Duration) {
        self.cgroups.sweep(now, ttl);
        self.owners.sweep(now, ttl);
    }

    /// Reads the path, once; asks for names.
    fn identify(
        &mut self,
        key: CgroupKey,
        facts: &CgroupFacts,
        task: Option<ProcessKey>,
        files: &ProcFiles,
        now: Instant,
    ) -> Option<Arc<str>> {
        let known = match (&facts.path, task) {
            (Some(path), _) => Known::of(&parse_path(path)),
            // the path was never seen: a task that still lives in it knows
            (None, Some(task)) => match files.cgroup_text(task) {
                Some(text) => Known::of(&parse_text(&text, None)),
                None => return self.nobody_knows(),
            },
            (None, None) => return self.nobody_knows(),
        };
        let owner_key = Arc::clone(&known.key);
        self.cgroups.insert(key, (facts.path.clone(), Arc::clone(&owner_key)), now);
        if known.kind == OwnerKind::Host {
            return None;
        }
        if self.owners.get_mut(&owner_key, now).is_none() {
            if let Some(id) = &known.container_id {
                self.book.ask(id, known.runtime);
            }
            let main = if known.kind == OwnerKind::Container { Main::Pending } else { Main::Settled(None) };
            let owner = Arc::new(build(&facts_of(&known, None, None, &main, &self.settings.host), true));
            let entry =
                OwnerEntry { known, names: None, pod: None, owner, main, first_seen: now, path: facts.path.clone() };
            self.owners.insert(Arc::clone(&owner_key), entry, now);
        }
        Some(owner_key)
    }

    fn nobody_knows(&self) -> Option<Arc<str>> {
        self.unknown.add(1);
        None
    }

    /// Builds an owner anew where something is to be added to it; `read`: its main process is now known.
    fn refresh(&mut self, key: &Arc<str>, now: Instant, read: bool) {
        let name_wait = self.settings.name_wait;
        let Some(entry) = self.owners.peek_mut(key) else { return };
        let in_book = entry.known.container_id.as_ref().map(|id| self.book.get(id)).unwrap_or_default();
        let pod = pod_uid(&entry.known, in_book.names.as_deref()).map(|uid| self.pods.ask(&uid));
        let waiting =
            in_book.waiting || entry.main == Main::Pending || (self.pods.is_on() && matches!(pod, Some(None)));
        let provisional = waiting && now.saturating_duration_since(entry.first_seen) < name_wait;
        // What a settled owner has already been told does not change under its series.
        let settled = !entry.owner.provisional;
        let names = if settled && entry.names.is_some() { entry.names.clone() } else { in_book.names };
        let pod = if settled && entry.pod.is_some() { entry.pod.clone() } else { pod.flatten() };
        if names == entry.names && pod == entry.pod && settled && !read {
            return;
        }
        let owner = build(
            &facts_of(&entry.known, names.as_deref(), pod.as_deref(), &entry.main, &self.settings.host),
            provisional,
        );
        entry.names = names;
        entry.pod = pod;
        if owner != *entry.owner {
            entry.owner = Arc::new(owner);
            self.late.add(u64::from(settled));
        }
    }
}

/// The pod of an owner, as its node names it.
fn pod_uid(known: &Known, names: Option<&Names>) -> Option<Arc<str>> {
    known.pod_uid.clone().or_else(|| names?.pod.as_ref()?.uid.clone())
}

fn facts_of<'a>(
    known: &'a Known,
    names: Option<&'a Names>,
    pod: Option<&'a PodFacts>,
    main: &'a Main,
    host: &'a Resource,
) -> Facts<'a> {
    let main = match main {
        Main::Settled(Some(facts)) => Some(facts),
        _ => None,
    };
    Facts {
        known,
        names,
        pod,
        published: main.map(|main| &main.published),
        executable: main.and_then(|main| main.executable_name.as_deref()),
        host,
    }
}

/// Reads a container's main process; while that is still the runtime's own program, later again. True where
/// it is settled now.
fn settle_main(
    entry: &mut OwnerEntry,
    environment: &[String],
    files: &ProcFiles,
    budget: &mut Budget,
    expired: bool,
) -> bool {
    if entry.main != Main::Pending || !budget.take() {
        return false;
    }
    let facts = entry.path.as_deref().and_then(|path| files.first_process(path));
    let facts = facts.and_then(|process| files.process(process, environment));
    let starting = facts
        .as_ref()
        .is_some_and(|facts| facts.executable_name.as_deref().is_none_or(|name| CONTAINER_STARTERS.contains(&name)));
    let settled = !starting || expired;
    if settled {
        entry.main = Main::Settled(facts.filter(|_| !starting));
    }
    settled
}
