//! Every process' Resource: read from `/proc` once, built anew when its owner is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::owner::{Facts, hints, shared_resource};
use super::owners::{Budget, OwnerEntry};
use super::proc_files::{ProcFiles, ProcessFacts};
use super::service::describe;
use crate::model::{ClockOffset, Owner, Process, ProcessKey, Resource, Task};

/// A program that renames itself is read again at most this often: a changed name can be an `exec`.
const REREADS_MAX: u8 = 4;

/// Attributes that a process may publish and that we know better: it sees itself from inside.
const OURS: [&str; 5] = ["process.pid", "process.vpid", "process.creation.time", "container.id", "k8s.pod.uid"];

/// One process.
#[derive(Debug)]
pub(super) struct ProcessEntry {
    process: Arc<Process>,
    facts: Reading,
    /// What it was built from; another one means another Resource.
    owner: Option<Arc<Owner>>,
    /// The leader's name when it was read.
    comm: Option<Arc<str>>,
    rereads: u8,
}

#[derive(Debug, Clone, PartialEq)]
enum Reading {
    /// There was no room in the batch's budget.
    Later,
    /// Read; `None`: gone, or not to be trusted.
    Done(Option<ProcessFacts>),
}

/// Processes by key.
pub(super) struct Processes {
    cache: Cache<ProcessKey, ProcessEntry>,
    environment: Vec<String>,
    host: Resource,
}

impl Processes {
    /// No processes yet.
    pub(super) fn new(cache: Cache<ProcessKey, ProcessEntry>, environment: Vec<String>, host: Resource) -> Self {
        Self { cache, environment, host }
    }

    /// The process of a task, which lives in that owner (`None`: the host's).
    pub(super) fn resolve(
        &mut self,
        task: &Task,
        owner: Option<(&Arc<Owner>, &OwnerEntry)>,
        files: &ProcFiles,
        budget: &mut Budget,
        clock: (ClockOffset, Instant),
    ) -> Arc<Process> {
        let (offset, now) = clock;
        let leader_comm = (task.tid == task.process.pid).then(|| Arc::clone(&task.comm));
        let known = self.cache.get_mut(&task.process, now);
        let (before, comm, rereads) = match known {
            Some(entry) => {
                let renamed = entry.comm.is_some() && leader_comm.is_some() && entry.comm != leader_comm;
                let reread = entry.facts == Reading::Later || renamed && entry.rereads < REREADS_MAX;
                let same_owner = match (&entry.owner, owner) {
                    (None, None) => true,
                    (Some(one), Some((other, _))) => Arc::ptr_eq(one, other),
                    _ => false,
                };
                if !reread && same_owner {
                    entry.comm = entry.comm.take().or(leader_comm);
                    return Arc::clone(&entry.process);
                }
                let before = if reread { Reading::Later } else { entry.facts.clone() };
                (before, entry.comm.clone(), entry.rereads.saturating_add(u8::from(renamed)))
            }
            None => (Reading::Later, None, 0),
        };
        let facts = match before {
            Reading::Later if task.kernel_thread => Reading::Done(None),
            Reading::Later if budget.take() => Reading::Done(files.process(task.process, &self.environment)),
            reading => reading,
        };
        let process = Arc::new(self.build(task, owner, &facts, offset));
        let entry = ProcessEntry {
            process: Arc::clone(&process),
            facts,
            owner: owner.map(|(owner, _)| Arc::clone(owner)),
            comm: leader_comm.or(comm),
            rereads,
        };
        self.cache.insert(task.process, entry, now);
        process
    }

    /// A thread of it publishes its active span: the process then publishes its Resource too, perhaps since it was read.
    pub(super) fn publishes(&mut self, process: &ProcessKey, now: Instant) {
        let Some(entry) = self.cache.get_mut(process, now) else { return };
        let lacks = matches!(&entry.facts, Reading::Done(Some(facts)) if !facts.has_context);
        if lacks && entry.rereads < REREADS_MAX {
            entry.facts = Reading::Later;
            entry.rereads += 1;
        }
    }

    /// Drops what was not used for `ttl`.
    pub(super) fn sweep(&mut self, now: Instant, ttl: Duration) {
        self.cache.sweep(now, ttl);
    }

    fn build(
        &self,
        task: &Task,
        owner: Option<(&Arc<Owner>, &OwnerEntry)>,
        facts: &Reading,
        offset: ClockOffset,
    ) -> Process {
        if task.kernel_thread {
            let mut resource = self.host.clone();
            resource.set("service.name", super::service::HOST_SERVICE);
            return Process { resource: Arc::new(resource), ..Process::default() };
        }
        let read = match facts {
            Reading::Done(facts) => facts.as_ref(),
            Reading::Later => None,
        };
        let executable = read.and_then(|read| read.executable_name.as_deref());
        let published = read.map(|read| &read.published);
        let mut resource = match owner {
            Some((_, entry)) => {
                let facts = Facts {
                    known: &entry.known,
                    names: entry.names.as_deref(),
                    pod: entry.pod.as_deref(),
                    published,
                    executable,
                    host: &self.host,
                };
                let mut resource = shared_resource(&facts);
                describe(&mut resource, &hints(&facts));
                resource
            }
            None => {
                let mut resource = self.host.clone();
                describe(&mut resource, &super::service::Hints { published, executable, ..Default::default() });
                resource
            }
        };
        if let Some(published) = published {
            add_claims(&mut resource, published);
        }
        resource.set("process.pid", i64::from(task.process.pid));
        if task.process.start.0 > 0
            && let Some(time) = creation_time(offset, task.process)
        {
            resource.set("process.creation.time", time);
        }
        let vpid = read.and_then(|read| read.vpid);
        if let Some(vpid) = vpid {
            resource.set("process.vpid", i64::from(vpid));
        }
        let executable_name = read.and_then(|read| read.executable_name.clone());
        let executable_path = read.and_then(|read| read.executable_path.clone());
        if let Some(name) = &executable_name {
            resource.set("process.executable.name", Arc::clone(name));
        }
        if let Some(path) = &executable_path {
            resource.set("process.executable.path", Arc::clone(path));
        }
        Process { vpid, executable_name, executable_path, resource: Arc::new(resource) }
    }
}

/// Adds what a process says of itself. Where it runs is not for it to say, or a container that knows another's name
/// could speak as that one: of a container nothing is taken, and of a pod only what is not known, by a process that is
/// in one and claims no other.
fn add_claims(resource: &mut Resource, published: &Resource) {
    let pod = resource.get("k8s.pod.uid");
    let own_pod = pod.is_some() && published.get("k8s.pod.uid").is_none_or(|claimed| Some(claimed) == pod);
    let in_container = resource.get("container.id").is_some();
    for (key, value) in published.iter() {
        let refused = OURS.contains(&key)
            || in_container && key.starts_with("container.")
            || in_container && key.starts_with("k8s.") && (!own_pod || resource.get(key).is_some());
        if !refused {
            resource.set(key.to_owned(), value.clone());
        }
    }
}

/// ISO 8601, to the 10 ms that every reader of `/proc` sees.
fn creation_time(offset: ClockOffset, process: ProcessKey) -> Option<String> {
    const STEP_NS: u64 = 10_000_000;
    let wall = offset.wall(process.start).0;
    let whole = i128::from(wall - wall % STEP_NS);
    jiff::Timestamp::from_nanosecond(whole).ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::BootNs;
    use crate::telemetry::Meter;

    fn processes() -> Processes {
        let cache = Cache::new(10, Meter::default(), Meter::default());
        let mut host = Resource::new();
        host.set("host.id", "h");
        Processes::new(cache, Vec::new(), host)
    }

    fn task(pid: u32) -> Task {
        Task {
            tid: pid,
            process: ProcessKey { pid, start: BootNs(1_234_567_890) },
            comm: "x".into(),
            ..Task::default()
        }
    }

    const CLOCK: ClockOffset = ClockOffset { wall_minus_boot_ns: 1_700_000_000_000_000_000 };

    #[test]
    fn a_process_that_is_gone_still_has_its_identity() {
        let files = ProcFiles::new(Path::new("/nonexistent"));
        let mut budget = Budget(10);
        let process = processes().resolve(&task(7), None, &files, &mut budget, (CLOCK, Instant::now()));
        assert_eq!(process.resource.text("service.name"), Some("unknown_service"));
        assert_eq!(process.resource.text("process.creation.time"), Some("2023-11-14T22:13:21.23Z"));
        assert_eq!(process.resource.get("process.pid"), Some(&7.into()));
        assert_eq!((process.vpid, process.executable_name.as_ref()), (None, None));
    }

    /// Check that a process cannot speak as another container or pod, and may say what nobody else knows.
    #[test]
    fn claims() {
        let resource = |pairs: &[(&'static str, &'static str)]| {
            let mut resource = Resource::new();
            for (key, value) in pairs {
                resource.set(*key, *value);
            }
            resource
        };
        let with = |own: &[(&'static str, &'static str)], claims: &[(&'static str, &'static str)]| {
            let mut own = resource(own);
            add_claims(&mut own, &resource(claims));
            own
        };
        let pod = [("container.id", "c"), ("k8s.pod.name", "mine-1"), ("k8s.pod.uid", "a")];
        let lie = [
            ("container.id", "victim"),
            ("container.name", "victim"),
            ("k8s.pod.uid", "b"),
            ("k8s.pod.name", "victim-1"),
            ("k8s.node.name", "n"),
        ];
        assert_eq!(with(&pod, &lie), resource(&pod));
        assert_eq!(with(&pod[..1], &lie), resource(&pod[..1]));
        let news = [("k8s.pod.uid", "a"), ("k8s.pod.name", "x"), ("k8s.node.name", "n"), ("service.namespace", "shop")];
        let both = [pod[0], pod[1], pod[2], ("k8s.node.name", "n"), ("service.namespace", "shop")];
        assert_eq!(with(&pod, &news), resource(&both));
        // without a container's cgroup there is no other word
        assert_eq!(with(&[], &[("k8s.pod.name", "x")]).text("k8s.pod.name"), Some("x"));
    }

    #[test]
    fn a_process_is_read_once_and_again_after_an_exec() {
        let files = ProcFiles::new(Path::new("/nonexistent"));
        let (mut processes, mut budget) = (processes(), Budget(10));
        let clock = (CLOCK, Instant::now());
        let first = processes.resolve(&task(7), None, &files, &mut budget, clock);
        let again = processes.resolve(&task(7), None, &files, &mut budget, clock);
        assert!(Arc::ptr_eq(&first, &again) && budget.0 == 9);
        let mut renamed = task(7);
        for round in 0..20 {
            renamed.comm = format!("n{round}").into();
            processes.resolve(&renamed, None, &files, &mut budget, clock);
        }
        assert_eq!(budget.0, 9 - usize::from(REREADS_MAX));
    }

    #[test]
    fn without_budget_it_is_read_in_a_later_batch() {
        let files = ProcFiles::new(Path::new("/nonexistent"));
        let mut processes = processes();
        let clock = (CLOCK, Instant::now());
        processes.resolve(&task(7), None, &files, &mut Budget(0), clock);
        let mut budget = Budget(1);
        processes.resolve(&task(7), None, &files, &mut budget, clock);
        assert_eq!(budget.0, 0);
    }

    #[test]
    fn kernel_threads_are_the_hosts() {
        let files = ProcFiles::new(Path::new("/nonexistent"));
        let kernel = Task { kernel_thread: true, ..task(2) };
        let process = processes().resolve(&kernel, None, &files, &mut Budget(1), (CLOCK, Instant::now()));
        assert_eq!(process.resource.text("service.name"), Some("host-scheduler"));
    }
}
