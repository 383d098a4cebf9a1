//! Who a thread is and where it lives, from /proc: the text of tracefs names only ids and names.
//!
//! A thread that is gone before anybody looks has no cgroup; one that moves is seen there at the next look.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::param::clock_ticks_per_second;

use super::super::cgroups::Hierarchy;
use crate::model::{BootNs, CgroupKey, ProcessKey};
use crate::record::Chunk;
use crate::timeline::{Event, Record};

/// Threads that are remembered; more means that ends were missed, then all are looked at anew.
const THREADS_MAX: usize = 131_072;

/// What was told of each thread.
pub(super) struct Identities {
    hierarchy: Hierarchy,
    known: HashMap<u32, CgroupKey>,
    paths: HashMap<Arc<str>, CgroupKey>,
}

impl Identities {
    /// Nobody is known yet.
    ///
    /// # Errors
    /// Where /proc cannot be read.
    pub(super) fn new(root: &Path) -> Result<Self, String> {
        let hierarchy = Hierarchy::find(root).map_err(|error| format!("/proc cannot be read: {error}"))?;
        Ok(Self { hierarchy, known: HashMap::new(), paths: HashMap::new() })
    }

    /// Tells of the threads of an event that are not known yet, before the event.
    pub(super) fn before(&mut self, record: &Record, tell: &mut impl FnMut(Chunk)) {
        match &record.event {
            Event::Switch { prev, next, .. } => {
                self.learn(prev.tid, record.at, tell);
                self.learn(next.tid, record.at, tell);
            }
            Event::Fork { child, .. } => {
                self.known.remove(&child.tid);
            }
            Event::Wakeup { task, .. } => self.learn(task.tid, record.at, tell),
            Event::Exit { task } => {
                self.learn(task.tid, record.at, tell);
            }
            _ => {}
        }
    }

    /// Looks again at every thread that lives: where it is now.
    pub(super) fn look_again(&mut self, at: BootNs, tell: &mut impl FnMut(Chunk)) {
        let before = std::mem::take(&mut self.known);
        for (tid, cgroup) in before {
            if let Some(now) = self.look(tid, at, tell, Some(cgroup)) {
                self.known.insert(tid, now);
            }
        }
    }

    fn learn(&mut self, tid: u32, at: BootNs, tell: &mut impl FnMut(Chunk)) {
        if tid == 0 || self.known.contains_key(&tid) {
            return;
        }
        if self.known.len() >= THREADS_MAX {
            self.known.clear();
        }
        // one that cannot be looked at is gone: it is not asked for at each of its events
        let cgroup = self.look(tid, at, tell, None).unwrap_or_default();
        self.known.insert(tid, cgroup);
    }

    /// Reads a thread's files; tells where it differs from `before`.
    fn look(
        &mut self,
        tid: u32,
        at: BootNs,
        tell: &mut impl FnMut(Chunk),
        before: Option<CgroupKey>,
    ) -> Option<CgroupKey> {
        let text = fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
        let path = path_of(&text, self.hierarchy.id)?;
        let cgroup = self.cgroup(path, tell);
        if before == Some(cgroup) {
            return Some(cgroup);
        }
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())?;
        let start = start_of(&format!("/proc/{tid}/stat"))?;
        let process_start = if pid == tid { start } else { start_of(&format!("/proc/{pid}/stat"))? };
        let event = Event::Identity {
            tid,
            process: ProcessKey { pid, start: process_start },
            start,
            // only user threads have memory, and only they say how much
            kernel_thread: !status.contains("\nVmSize:"),
            cgroup,
        };
        tell(Chunk::Record(Record::new(at.0, 0, event)));
        Some(cgroup)
    }

    fn cgroup(&mut self, path: &str, tell: &mut impl FnMut(Chunk)) -> CgroupKey {
        if let Some(key) = self.paths.get(path) {
            return *key;
        }
        let folder: Option<PathBuf> =
            self.hierarchy.mount.as_ref().map(|mount| mount.point.join(path.trim_start_matches('/')));
        let id = folder.and_then(|folder| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(folder).ok().map(|folder| folder.ino())
        });
        let Some(id) = id else { return CgroupKey::default() };
        let (key, path): (_, Arc<str>) = (CgroupKey { id, serial: 0 }, path.into());
        self.paths.insert(Arc::clone(&path), key);
        tell(Chunk::Cgroup { key, path });
        key
    }
}

/// The path in one hierarchy, of /proc/PID/cgroup.
fn path_of(text: &str, hierarchy: u32) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let id: u32 = fields.next()?.parse().ok()?;
        (id == hierarchy).then(|| fields.nth(1)).flatten()
    })
}

/// Field 22 of /proc/PID/stat, behind a name that may hold anything.
fn start_of(path: &str) -> Option<BootNs> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, behind) = text.rsplit_once(')')?;
    let ticks: u64 = behind.split_whitespace().nth(19)?.parse().ok()?;
    Some(BootNs(ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_with_its_cgroup() {
        let Ok(mut identities) = Identities::new(Path::new("/")) else { return };
        let tid = std::process::id();
        let mut told = Vec::new();
        identities.learn(tid, BootNs(5), &mut |chunk| told.push(chunk));
        identities.learn(tid, BootNs(6), &mut |chunk| told.push(chunk));
        let identity = told.iter().filter(|chunk| matches!(chunk, Chunk::Record(_))).count();
        assert_eq!(identity, 1, "{told:?}");
        identities.look_again(BootNs(7), &mut |chunk| told.push(chunk));
        assert_eq!(told.iter().filter(|chunk| matches!(chunk, Chunk::Record(_))).count(), 1, "told again: {told:?}");
    }

    #[test]
    fn the_hierarchy_decides_which_path_counts() {
        let text = "3:cpu:/a:b\n1:name=systemd:/s\n0::/u\n";
        assert_eq!((path_of(text, 3), path_of(text, 0), path_of(text, 9)), (Some("/a:b"), Some("/u"), None));
    }
}
