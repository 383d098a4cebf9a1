//! Reads of `/proc`: one process at its first sight, never per event.
//!
//! A pid is only believed where the start time agrees before and after the reading. In a foreign pid
//! namespace `/proc/<pid>` is somebody else: nothing is read there at all.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environ;
use crate::host::{FIRST_PID_NAMESPACE, NS_PER_TICK};
use crate::model::{ProcessKey, Resource};
use crate::process_context;

/// Bytes of an environment that are read.
const ENVIRON_MAX_BYTES: u64 = 256 << 10;
/// Bytes of any other file that are read.
const FILE_MAX_BYTES: u64 = 64 << 10;

/// What `/proc` tells of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProcessFacts {
    /// The pid in its innermost pid namespace.
    pub(super) vpid: Option<u32>,
    /// Path of the executable as the process sees it.
    pub(super) executable_path: Option<Arc<str>>,
    /// The path's last part.
    pub(super) executable_name: Option<Arc<str>>,
    /// What it publishes of itself: environment, or process context over it.
    pub(super) published: Resource,
    /// It publishes a process context, not only an environment.
    pub(super) has_context: bool,
}

/// A reader of one `/proc`.
#[derive(Debug)]
pub(super) struct ProcFiles {
    root: PathBuf,
    trusted: bool,
    /// Where the hierarchy that paths belong to is mounted.
    cgroups: Option<PathBuf>,
}

impl ProcFiles {
    /// A reader below `root`, usually `/proc`.
    pub(super) fn new(root: &Path) -> Self {
        let namespace = std::fs::read_link(root.join("self/ns/pid"));
        let trusted = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_PID_NAMESPACE);
        let mounts = read_bounded(&root.join("self/mountinfo"), 1 << 20).unwrap_or_default();
        Self { root: root.to_owned(), trusted, cgroups: cgroup_mount(&String::from_utf8_lossy(&mounts)) }
    }

    /// Whether pids of the kernel mean the same here.
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Facts of a process; `None` where it is gone or its pid belongs to another one by now.
    pub(super) fn process(&self, key: ProcessKey, variables: &[String]) -> Option<ProcessFacts> {
        if !self.is_alive(key) {
            return None;
        }
        let folder = self.folder(key.pid);
        let status = self.text(&folder.join("status"));
        let path = std::fs::read_link(folder.join("exe")).ok().and_then(|path| path.to_str().map(str::to_owned));
        let path = path.map(|path| path.strip_suffix(" (deleted)").map_or_else(|| path.clone(), str::to_owned));
        let environment = || {
            let text = read_bounded(&folder.join("environ"), ENVIRON_MAX_BYTES)?;
            Some(environ::attributes(&environ::allowed(&text, variables)))
        };
        // what the process says now wins over what it was started with
        let context = process_context::read(&folder);
        let has_context = context.is_some();
        let mut published = context.map(|found| found.resource).unwrap_or_default();
        published.fill_from(&environment().unwrap_or_default());
        let facts = ProcessFacts {
            vpid: status.as_deref().and_then(innermost_pid),
            executable_name: path.as_deref().and_then(|path| path.rsplit('/').next()).map(Arc::from),
            executable_path: path.map(Arc::from),
            published,
            has_context,
        };
        self.is_alive(key).then_some(facts)
    }

    /// The cgroup file of a process, where its pid is still its own.
    pub(super) fn cgroup_text(&self, key: ProcessKey) -> Option<String> {
        let text = self.is_alive(key).then(|| self.text(&self.folder(key.pid).join("cgroup")))??;
        self.is_alive(key).then_some(text)
    }

    /// The oldest process of a cgroup: a container's main process, usually.
    pub(super) fn first_process(&self, cgroup_path: &str) -> Option<ProcessKey> {
        if !self.trusted || cgroup_path.split('/').any(|component| component == "..") {
            return None;
        }
        let folder = self.cgroups.as_ref()?.join(cgroup_path.trim_start_matches('/'));
        let pids = self.text(&folder.join("cgroup.procs"))?;
        // 0: a process of a pid namespace that we cannot see into
        let pid = pids.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid > 0).min()?;
        let ticks = start_ticks(&self.text(&self.folder(pid).join("stat"))?)?;
        Some(ProcessKey { pid, start: crate::model::BootNs(ticks.saturating_mul(NS_PER_TICK)) })
    }

    /// The process of this pid has this start time. Times are cut to ticks, and 0 means not known.
    fn is_alive(&self, key: ProcessKey) -> bool {
        if !self.trusted {
            return false;
        }
        let Some(stat) = self.text(&self.folder(key.pid).join("stat")) else { return false };
        key.start.0 == 0 || start_ticks(&stat).is_some_and(|ticks| ticks.abs_diff(key.start.0 / NS_PER_TICK) <= 1)
    }

    fn folder(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    fn text(&self, path: &Path) -> Option<String> {
        Some(String::from_utf8_lossy(&read_bounded(path, FILE_MAX_BYTES)?).into_owned())
    }
}

/// At most that many bytes of a file; a longer one is cut.
fn read_bounded(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Field 22 of `/proc/PID/stat`, counted behind the name, which may hold anything.
fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The last pid of the line `NSpid:`.
fn innermost_pid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The mount of the hierarchy that has the cpu controller: v1's, else v2.
fn cgroup_mount(mountinfo: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in mountinfo.lines() {
        let Some((mount, about)) = line.split_once(" - ") else { continue };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        if root != "/" {
            continue;
        }
        let mut about = about.split(' ');
        match (about.next(), about.nth(1)) {
            (Some("cgroup"), Some(options)) if options.split(',').any(|option| option == "cpu") => {
                return Some(PathBuf::from(point));
            }
            (Some("cgroup2"), _) => unified = unified.or_else(|| Some(PathBuf::from(point))),
            _ => {}
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BootNs;

    fn own_key() -> ProcessKey {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        ProcessKey { pid: std::process::id(), start: BootNs(start_ticks(&stat).unwrap() * NS_PER_TICK + 5_000) }
    }

    fn files() -> ProcFiles {
        ProcFiles { trusted: true, ..ProcFiles::new(Path::new("/proc")) }
    }

    #[test]
    fn an_own_process_is_read_and_a_reused_pid_is_not() {
        let facts = files().process(own_key(), &[]).unwrap();
        assert_eq!(facts.executable_path.as_deref(), std::env::current_exe().unwrap().to_str());
        assert!(facts.vpid.is_some());
        assert!(facts.published.is_empty());
        let reused = ProcessKey { start: BootNs(own_key().start.0 + 10 * NS_PER_TICK), ..own_key() };
        assert_eq!(files().process(reused, &[]), None);
        assert!(files().cgroup_text(reused).is_none());
        assert!(files().cgroup_text(own_key()).is_some());
    }

    #[test]
    fn nothing_is_read_in_a_foreign_pid_namespace() {
        let files = ProcFiles { trusted: false, ..files() };
        assert_eq!(files.process(own_key(), &[]), None);
        assert_eq!(files.first_process("/"), None);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = format!("7 (a) b) c (d)) S {} 4711 0", (0..18).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(start_ticks(&stat), Some(4711));
        assert_eq!(innermost_pid("Name:\tx\nNSpid:\t4711\t12\t1\n"), Some(1));
    }

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_meant() {
        let hybrid = "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      1 2 0:4 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      1 2 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(cgroup_mount(hybrid), Some("/sys/fs/cgroup/cpu".into()));
        assert_eq!(cgroup_mount("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), Some("/sys/fs/cgroup".into()));
        assert_eq!(cgroup_mount("1 2 0:3 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), None);
    }
}
