//! Paths of cgroups by their kernel id: a walk at start, then the kernel's own word for each that is made.
//!
//! Refuses to know: what a path means.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Paths kept; more cgroups than slots exist can be named, so that culprits have names too.
const PATHS_MAX: usize = 200_000;

/// Which hierarchy has the cpu controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Pure v2: identity is the v2 cgroup.
    pub v2: bool,
    /// The kernel's id of the hierarchy, 0 for v2.
    pub id: u32,
    /// Where it is mounted, if it is.
    pub mount: Option<PathBuf>,
}

impl Hierarchy {
    /// Finds it from /proc/self/cgroup and the mounts, below `root`.
    ///
    /// # Errors
    /// Where /proc cannot be read.
    pub(super) fn find(root: &Path) -> io::Result<Self> {
        let controllers = fs::read_to_string(root.join("proc/cgroups")).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        Ok(Self::decide(&controllers, &own, &mounts))
    }

    fn decide(controllers: &str, own: &str, mounts: &str) -> Self {
        let listed = controllers.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut fields = line.split_whitespace();
            (fields.next() == Some("cpu")).then(|| fields.next().and_then(|id| id.parse::<u32>().ok())).flatten()
        });
        // kernels without the v1 code do not list cpu in /proc/cgroups; then our own lines tell
        let from_own = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let id: u32 = fields.next()?.parse().ok()?;
            fields.next()?.split(',').any(|name| name == "cpu").then_some(id)
        });
        let id = listed.or(from_own).unwrap_or(0);
        let mount = mounts.lines().filter_map(mount_line).find(|(kind, options, _)| {
            if id == 0 { kind == "cgroup2" } else { kind == "cgroup" && options.split(',').any(|name| name == "cpu") }
        });
        Self { v2: id == 0, id, mount: mount.map(|(_, _, point)| point) }
    }
}

/// Kind, super options and mount point of a mountinfo line.
fn mount_line(line: &str) -> Option<(String, String, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let point = left.split(' ').nth(4)?;
    let mut fields = right.split(' ');
    let kind = fields.next()?.to_owned();
    let options = fields.nth(1)?.to_owned();
    Some((kind, options, PathBuf::from(point)))
}

/// Paths by kernfs id.
#[derive(Debug, Default)]
pub(super) struct CgroupPaths {
    paths: HashMap<u64, Arc<str>>,
}

impl CgroupPaths {
    /// Learns every cgroup that exists below `mount`.
    pub(super) fn walk(&mut self, mount: &Path) {
        if let Ok(metadata) = fs::metadata(mount) {
            self.learn(metadata.ino(), "/".into());
        }
        let mut folders = vec![mount.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let path = entry.path();
                if let Ok(relative) = path.strip_prefix(mount) {
                    let text = String::from_utf8_lossy(relative.as_os_str().as_bytes());
                    self.learn(entry.ino(), format!("/{text}").into());
                }
                folders.push(path);
            }
        }
    }

    /// Learns one.
    pub(super) fn learn(&mut self, id: u64, path: Arc<str>) {
        if self.paths.len() < PATHS_MAX {
            self.paths.insert(id, path);
        }
    }

    /// Forgets one.
    pub(super) fn forget(&mut self, id: u64) {
        self.paths.remove(&id);
    }

    /// The path of a cgroup.
    pub(super) fn get(&self, id: u64) -> Option<Arc<str>> {
        self.paths.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a hybrid host takes the v1 cpu hierarchy, a pure v2 host the unified one.
    #[test]
    fn hierarchies() {
        let hybrid = Hierarchy::decide(
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t1\t1\ncpu\t1\t1\t1\n",
            "1:cpu:/\n0::/\n",
            "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n1 2 0:4 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n",
        );
        assert_eq!(hybrid, Hierarchy { v2: false, id: 1, mount: Some("/sys/fs/cgroup/cpu".into()) });
        let pure = Hierarchy::decide(
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t90\t1\n",
            "0::/init.scope\n",
            "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        assert_eq!(pure, Hierarchy { v2: true, id: 0, mount: Some("/sys/fs/cgroup".into()) });
    }
}
