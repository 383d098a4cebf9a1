//! The `container` processor: every cgroup of a batch gets its owner, every process its Resource.
//!
//! [`grammar`] reads paths, [`owners`] and [`processes`] keep what was found, [`names`] and [`kubernetes`]
//! learn names in the background; a batch never waits for them. Refuses to know: OTLP, other components.

pub mod attributes;
mod cache;
mod environ;
pub mod grammar;
mod host;
mod identity;
pub mod kubernetes;
pub mod look;
pub mod names;
mod owner;
mod owners;
mod proc_files;
mod processes;
mod service;
pub mod settings;
mod sources;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::cache::Cache;
use self::identity::Known;
use self::owners::{Budget, OwnerEntry, OwnerSettings, Owners};
use self::proc_files::ProcFiles;
use self::processes::Processes;
use self::settings::ContainerSettings;
use self::sources::Sources;
use crate::config::Body;
use crate::model::{CgroupKey, Owner, ProcessKey, Resource, SchedBatch};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};
use crate::telemetry::{Meter, Telemetry};

/// `container`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "container",
    aliases: &[],
    about: "Names the container, pod, systemd unit and process of everything that is measured",
    stability: "alpha",
    converts: &[(Signal::Sched, Signal::Sched)],
    needs_receiver: None,
    settings: Settings::of::<ContainerSettings>(),
    build: |body: &Body, context: &BuildContext| -> Built<dyn Processor> {
        let (settings, context) = (body.decode()?, context.clone());
        Ok(Box::new(Begins { settings, context, running: None }))
    },
};

/// Processes that are read from `/proc` in one batch at most: a start with 10,000 of them is spread over some.
const READS_PER_BATCH: usize = 256;
/// The same where a collection tells all threads: their processes are series, which should not begin twice.
const READS_PER_COLLECTION: usize = 4096;
/// How often unused entries are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The processor; it begins with its first batch, which tells where the host's files are.
struct Begins {
    settings: ContainerSettings,
    context: BuildContext,
    running: Option<Container>,
}

struct Container {
    host: Arc<Owner>,
    owners: Owners,
    processes: Processes,
    files: ProcFiles,
    sources: Sources,
    ttl: Duration,
    swept: Instant,
}

impl Container {
    /// A processor of a host whose files lie below `root`.
    fn new(settings: &ContainerSettings, context: &BuildContext, root: &Path) -> Self {
        let node = sources::node_name(&settings.kubernetes);
        let attributes = host::attributes(root, node.as_deref());
        let files = ProcFiles::new(&root.join("proc"));
        if !files.is_trusted() {
            tracing::warn!(
                "in a pid namespace of its own the agent cannot read processes of the host: they are known by \
                 their cgroup only; give it the host's (hostPID: true in Kubernetes, --pid host with docker)"
            );
        }
        let (sources, book, pods) = Sources::new(settings, context, !files.is_trusted());
        let caches = Caches { settings, telemetry: &context.telemetry, id: &context.id };
        let unknown = context.telemetry.counter(
            "otelcol_processor_container_cgroups_unknown",
            "{cgroup}",
            &[("processor", context.id.as_ref())],
        );
        let late = context.telemetry.counter(
            "otelcol_processor_container_names_late",
            "{owner}",
            &[("processor", context.id.as_ref())],
        );
        let owner_settings = OwnerSettings {
            name_wait: settings.name_wait.0,
            environment: settings.environment.clone(),
            host: attributes.clone(),
        };
        let of_cgroups = (caches.make("cgroups"), caches.make("owners"));
        Self {
            host: host_owner(&attributes),
            owners: Owners::new(owner_settings, of_cgroups, book, pods, (unknown, late)),
            processes: Processes::new(caches.make("processes"), settings.environment.clone(), attributes),
            files,
            sources,
            ttl: settings.cache_ttl_after_exit.0,
            swept: Instant::now(),
        }
    }

    fn attribute(&mut self, batch: &mut SchedBatch, now: Instant) {
        let tells_threads = batch.collection.as_ref().is_some_and(|collection| !collection.threads.is_empty());
        let mut budget = Budget(if tells_threads { READS_PER_COLLECTION } else { READS_PER_BATCH });
        self.owners.take_news(now);
        let mut tasks = HashMap::new();
        if batch.cgroups.values().any(|facts| facts.path.is_none()) {
            tasks.extend(batch.cycles.iter().rev().map(|cycle| (cycle.cgroup, cycle.task.process)));
        }
        for (key, facts) in &batch.cgroups {
            let task = tasks.get(key).copied();
            if let Some(owner) = self.owners.resolve(*key, facts, task, &self.files, &mut budget, now) {
                batch.owners.insert(*key, owner);
            }
        }
        self.attribute_processes(batch, &mut budget, now);
        batch.host = Some(Arc::clone(&self.host));
        if let Some(targets) = &batch.targets {
            let path = |owner: &Owner| self.owners.entry(owner).and_then(OwnerEntry::path);
            let silent = batch.owners.values().filter(|owner| !targets.gives_spans(path(owner), &owner.resource));
            batch.silent = silent.map(|owner| Arc::clone(&owner.key)).collect();
        }
        if now.saturating_duration_since(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            self.owners.sweep(now, self.ttl);
            self.processes.sweep(now, self.ttl);
        }
    }

    /// One lookup for each cycle and thread, the rest for each process.
    fn attribute_processes(&mut self, batch: &mut SchedBatch, budget: &mut Budget, now: Instant) {
        let mut told: HashMap<ProcessKey, Told, foldhash::fast::RandomState> = HashMap::default();
        let of_cycles = batch.cycles.iter().map(|cycle| (&cycle.task, cycle.cgroup, cycle.context.is_some()));
        let threads = batch.collection.iter().flat_map(|collection| &collection.threads);
        let of_threads = threads.map(|thread| (&thread.task, thread.cgroup, false));
        for (task, cgroup, has_context) in of_cycles.chain(of_threads) {
            let leader = (task.tid == task.process.pid).then_some(cgroup);
            let news = Told { leader, context: has_context };
            let known = told.get(&task.process).copied();
            if known.is_some_and(|known| known.covers(news)) {
                continue;
            }
            if news.context {
                self.processes.publishes(&task.process, now);
            }
            let is_resolved = known.is_some();
            let known = known.map_or(news, |known| known.with(news));
            told.insert(task.process, known);
            // a leader's cycle decides where threads of a process live in several cgroups, its last where it moved
            if is_resolved && news.leader.is_none() {
                continue;
            }
            let owner = batch.owners.get(&cgroup).and_then(|owner| Some((owner, self.owners.entry(owner)?)));
            let clock = (batch.offset, now);
            let process = self.processes.resolve(task, owner, &self.files, budget, clock);
            batch.processes.insert(task.process, process);
        }
    }
}

/// What cycles of one process have told already.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Where its leader was at the last of its cycles.
    leader: Option<CgroupKey>,
    /// One carried a context.
    context: bool,
}

impl Told {
    fn covers(self, news: Self) -> bool {
        (news.leader.is_none() || news.leader == self.leader) && self.context >= news.context
    }

    fn with(self, news: Self) -> Self {
        Self { leader: news.leader.or(self.leader), context: self.context | news.context }
    }
}

impl Processor for Begins {
    fn process(&mut self, data: Data, out: &mut Outbox) {
        let Data::Sched(mut batch) = data else {
            // the graph lets nothing else in
            return out.send(data);
        };
        let root = if batch.facts.root.is_empty() { "/" } else { &*batch.facts.root };
        let running =
            self.running.get_or_insert_with(|| Container::new(&self.settings, &self.context, Path::new(root)));
        running.sources.start();
        running.attribute(Arc::make_mut(&mut batch), Instant::now());
        if self.context.history.is_wanted() {
            let owners = batch.cgroups.keys().map(|cgroup| (*cgroup, batch.owners.get(cgroup).cloned()));
            self.context.history.learn(owners);
        }
        out.send(Data::Sched(batch));
    }
}

/// The owner of what is in no container and no unit.
fn host_owner(attributes: &Resource) -> Arc<Owner> {
    let known = Known::host();
    let facts =
        owner::Facts { known: &known, names: None, pod: None, published: None, executable: None, host: attributes };
    Arc::new(owner::build(&facts, false))
}

/// Makes caches of the configured size with their meters.
struct Caches<'a> {
    settings: &'a ContainerSettings,
    telemetry: &'a Telemetry,
    id: &'a str,
}

impl Caches<'_> {
    fn make<K: Eq + std::hash::Hash + Clone, V>(&self, name: &'static str) -> Cache<K, V> {
        let of = [("processor", self.id), ("cache", name)];
        let entries: Meter = self.telemetry.gauge("otelcol_processor_container_cache_entries", "{entry}", &of);
        let evicted = self.telemetry.counter("otelcol_processor_container_cache_evictions", "{entry}", &of);
        Cache::new(self.settings.cache_size, entries, evicted)
    }
}

#[cfg(test)]
mod tests;
