//! Which process of the host a span means by the ids that the process itself knows: in a container they are those of
//! its own pid namespace.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::missed::Missed;
use crate::host::{FIRST_PID_NAMESPACE, NS_PER_TICK};
use crate::model::{BootNs, ProcessKey};

/// Between two looks at one process: it may have ended, and its id gone to another one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Between two searches of all processes.
const SEARCH_AGAIN: Duration = Duration::from_millis(500);
/// Processes that are remembered; over it all are looked for anew.
const KNOWN_MAX: usize = 20_000;

/// A process' id as it says it, and its container's.
type Words = (u32, Option<String>);

/// What was found under some words.
#[derive(Default)]
struct Known {
    looked: Option<Instant>,
    found: Option<Found>,
}

/// A process, and the threads of it that go by other ids inside.
struct Found {
    process: ProcessKey,
    nested: bool,
    threads: HashMap<u32, u32>,
    listed: Option<Instant>,
}

/// What is known of processes.
pub(super) struct Processes {
    /// `/proc`; `None` where it does not show the host's processes under the host's ids.
    proc: Option<PathBuf>,
    known: HashMap<Words, Known>,
    searched: Option<Instant>,
}

impl Processes {
    /// Processes of the host whose files lie below `root`.
    pub(super) fn new(root: &Path) -> Self {
        let proc = root.join("proc");
        let namespace = fs::read_link(proc.join("1/ns/pid")).or_else(|_| fs::read_link(proc.join("self/ns/pid")));
        let is_host = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_PID_NAMESPACE);
        if !is_host {
            tracing::warn!(
                "sched_enrich: processes are not shown under the host's pids here; spans pass as they come (hostPID: \
                 true in Kubernetes, --pid host with docker)"
            );
        }
        Self { proc: is_host.then_some(proc), known: HashMap::new(), searched: None }
    }

    /// The process, and the host's id of its thread.
    ///
    /// # Errors
    /// There is no such process or thread, or it cannot be told which one is meant.
    pub(super) fn find(
        &mut self,
        pid: u32,
        tid: u32,
        container: Option<&str>,
        now: Instant,
    ) -> Result<(ProcessKey, u32), Missed> {
        let proc = self.proc.clone().ok_or(Missed::UnknownProcess)?;
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.known.entry((pid, container.map(str::to_owned))).or_default();
        if known.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_AGAIN) {
            let may_search = self.searched.is_none_or(|at| now.saturating_duration_since(at) >= SEARCH_AGAIN);
            known.look(&proc, pid, container, now, may_search.then_some(&mut self.searched));
        }
        let found = known.found.as_mut().ok_or(Missed::UnknownProcess)?;
        found.thread(&proc, tid, now).map(|tid| (found.process, tid)).ok_or(Missed::UnknownThread)
    }

    /// Whether a thread is there now.
    pub(super) fn has_thread(&self, process: ProcessKey, tid: u32) -> bool {
        self.proc.as_ref().is_some_and(|proc| proc.join(format!("{}/task/{tid}", process.pid)).exists())
    }
}

impl Known {
    /// Looks anew. What has ended stays known: its last spans are still to come.
    fn look(
        &mut self,
        proc: &Path,
        pid: u32,
        container: Option<&str>,
        now: Instant,
        search: Option<&mut Option<Instant>>,
    ) {
        if let Some(found) = &self.found
            && found.nested
            && start(proc, found.process.pid).is_some_and(|start| start == found.process.start)
        {
            self.looked = Some(now);
            return;
        }
        let is_its_own = container.is_none_or(|id| lives_in(proc, pid, id));
        if is_its_own && innermost_id(&proc.join(pid.to_string())) == Some(pid) {
            self.looked = Some(now);
            self.take(proc, pid, false);
        } else if let Some(searched) = search {
            (*searched, self.looked) = (Some(now), Some(now));
            if let Some(outer) = search_all(proc, pid, container) {
                self.take(proc, outer, true);
            }
        }
    }

    fn take(&mut self, proc: &Path, pid: u32, nested: bool) {
        let Some(start) = start(proc, pid) else { return };
        let process = ProcessKey { pid, start };
        if self.found.as_ref().is_none_or(|found| found.process != process) {
            self.found = Some(Found { process, nested, threads: HashMap::new(), listed: None });
        }
    }
}

impl Found {
    /// The host's id of a thread.
    fn thread(&mut self, proc: &Path, tid: u32, now: Instant) -> Option<u32> {
        if !self.nested {
            return Some(tid);
        }
        let stale = self.listed.is_none_or(|listed| now.saturating_duration_since(listed) >= LOOK_AGAIN);
        if stale && !self.threads.contains_key(&tid) {
            self.listed = Some(now);
            let folder = proc.join(self.process.pid.to_string()).join("task");
            let ids =
                numbers(&folder).filter_map(|outer| Some((innermost_id(&folder.join(outer.to_string()))?, outer)));
            self.threads.extend(ids);
        }
        self.threads.get(&tid).copied()
    }
}

/// The one process in a pid namespace of its own that goes by this id there; `None` where several do.
fn search_all(proc: &Path, pid: u32, container: Option<&str>) -> Option<u32> {
    let is_meant = |outer: &u32| {
        *outer != pid
            && innermost_id(&proc.join(outer.to_string())) == Some(pid)
            && container.is_none_or(|id| lives_in(proc, *outer, id))
    };
    let mut all = numbers(proc).filter(is_meant);
    let one = all.next()?;
    all.next().is_none().then_some(one)
}

fn numbers(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The id by which a process or a thread knows itself.
fn innermost_id(folder: &Path) -> Option<u32> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().last()?.parse().ok()
}

fn lives_in(proc: &Path, pid: u32, container: &str) -> bool {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
    container.len() >= 12 && text.contains(container)
}

fn start(proc: &Path, pid: u32) -> Option<BootNs> {
    let stat = procfs::process::Process::new_with_root(proc.join(pid.to_string())).ok()?.stat().ok()?;
    Some(BootNs(stat.starttime.saturating_mul(NS_PER_TICK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that this process and its threads are found under their own ids, and an id that nobody has is not.
    #[test]
    fn this_process() {
        let mut processes = Processes::new(Path::new("/"));
        if processes.proc.is_none() {
            return;
        }
        let (pid, now) = (std::process::id(), Instant::now());
        let (process, tid) = processes.find(pid, pid, None, now).unwrap();
        assert_eq!((process.pid, tid), (pid, pid));
        assert_eq!(processes.find(4_000_000_000, 1, None, now), Err(Missed::UnknownProcess));
        assert!(processes.has_thread(process, pid) && !processes.has_thread(process, 1));
        assert!(processes.find(pid, pid, Some("ff44c7a161a2b64a2c2e342fa1364dd1"), now).is_err());
    }
}
