//! Paths of cgroups by their kernel id: a walk at start, or the kernel's word where there is nothing to walk, then the
//! kernel's own word for each that is made.
//!
//! Refuses to know: what a path means.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::wire::NodeRecord;

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
    pub mount: Option<Mount>,
    /// The path of our own cgroup; `None` in a cgroup namespace, where it reads `/`.
    pub own: Option<String>,
    /// In a cgroup namespace: where the part below our own cgroup is mounted.
    pub own_part: Option<PathBuf>,
}

/// A mount of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where.
    pub point: PathBuf,
    /// The cgroup that it shows, without a slash at its end: empty for all of the hierarchy.
    pub below: String,
}

/// The initial cgroup namespace's inode (PROC_CGROUP_INIT_INO).
const INITIAL_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";

impl Hierarchy {
    /// Finds it from /proc/self/cgroup and the mounts, below `root`.
    ///
    /// # Errors
    /// Where /proc cannot be read.
    pub(super) fn find(root: &Path) -> io::Result<Self> {
        let controllers = fs::read_to_string(root.join("proc/cgroups")).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let namespace = fs::read_link("/proc/self/ns/cgroup");
        let is_namespaced = namespace.is_ok_and(|namespace| namespace.as_os_str() != INITIAL_CGROUP_NAMESPACE);
        Ok(Self::decide(&controllers, &own, &mounts, is_namespaced))
    }

    /// The host's cgroups cannot be walked from here, or only a part of them.
    pub(super) fn is_hidden(&self) -> bool {
        self.mount.as_ref().is_none_or(|mount| !mount.below.is_empty())
    }

    fn decide(controllers: &str, own: &str, mounts: &str, is_namespaced: bool) -> Self {
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
        let fits = |line: &MountLine<'_>| {
            let has_cpu = || line.options.split(',').any(|name| name == "cpu");
            if id == 0 { line.kind == "cgroup2" } else { line.kind == "cgroup" && has_cpu() }
        };
        let fitting: Vec<MountLine<'_>> = mounts.lines().filter_map(MountLine::read).filter(fits).collect();
        let whole = fitting.iter().find(|line| if is_namespaced { line.is_above() } else { line.root == "/" });
        let mount = whole.map(|line| Mount { point: line.point.into(), below: String::new() });
        // a container that shares the host's cgroup namespace sees its own part under its real name
        let part = fitting.first().filter(|_| !is_namespaced);
        let part = part.map(|line| Mount { point: line.point.into(), below: line.root.to_owned() });
        let own_part = fitting.iter().find(|line| is_namespaced && line.root == "/").map(|line| line.point.into());
        let own_path = own.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (_, path) = rest.split_once(':')?;
            (number.parse() == Ok(id)).then(|| path.to_owned())
        });
        Self { v2: id == 0, id, mount: mount.or(part), own: own_path.filter(|_| !is_namespaced), own_part }
    }
}

/// What counts of a mountinfo line.
struct MountLine<'a> {
    /// The part of the file system that is mounted.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    /// Of the super block.
    options: &'a str,
}

impl<'a> MountLine<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        let (root, point, kind) = (left.next()?, left.next()?, right.next()?);
        Some(Self { root, point, kind, options: right.nth(1)? })
    }

    /// It shows the root of the host's hierarchy, seen from a cgroup namespace: `/../..`.
    fn is_above(&self) -> bool {
        self.root.strip_prefix('/').is_some_and(|root| root.split('/').all(|component| component == ".."))
    }
}

/// Paths by kernfs id.
#[derive(Debug, Default)]
pub(super) struct CgroupPaths {
    paths: HashMap<u64, Arc<str>>,
}

impl CgroupPaths {
    /// Learns every cgroup that exists in a mount.
    pub(super) fn walk(&mut self, mount: &Mount) {
        let (mount, below) = (&mount.point, mount.below.as_str());
        if let Ok(metadata) = fs::metadata(mount) {
            self.learn(metadata.ino(), if below.is_empty() { "/" } else { below }.into());
        }
        let mut folders = vec![mount.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let path = entry.path();
                if let Ok(relative) = path.strip_prefix(mount) {
                    let text = String::from_utf8_lossy(relative.as_os_str().as_bytes());
                    self.learn(entry.ino(), format!("{below}/{text}").into());
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

    /// Ids of every cgroup that is known.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.paths.keys().copied()
    }

    /// Learns paths from their parts; true where there were any. They come as ways up, each to the root or to a part of
    /// an earlier way.
    pub(super) fn compose(&mut self, nodes: &[NodeRecord]) -> bool {
        let ways = nodes.chunk_by(|part, next| part.parent == next.id);
        for node in ways.flat_map(|way| way.iter().rev()) {
            let name = String::from_utf8_lossy(&node.name);
            let path = match self.paths.get(&node.parent).map(AsRef::as_ref) {
                _ if node.parent == 0 => Some("/".into()),
                Some("/") => Some(format!("/{name}")),
                Some(above) => Some(format!("{above}/{name}")),
                // its own was lost for want of room; it comes again
                None => None,
            };
            if let Some(path) = path {
                self.learn(node.id, path.into());
            }
        }
        !nodes.is_empty()
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
            false,
        );
        assert_eq!((hybrid.v2, hybrid.id, hybrid.mount), (false, 1, at("/sys/fs/cgroup/cpu", "")));
        assert_eq!(hybrid.own.as_deref(), Some("/"));
        let pure = Hierarchy::decide(
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t90\t1\n",
            "0::/init.scope\n",
            "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            false,
        );
        assert_eq!((pure.v2, pure.id, pure.mount), (true, 0, at("/sys/fs/cgroup", "")));
        assert_eq!(pure.own.as_deref(), Some("/init.scope"));
    }

    fn at(point: &str, below: &str) -> Option<Mount> {
        Some(Mount { point: point.into(), below: below.to_owned() })
    }

    /// Check that parts make paths in the order in which the kernel sends them, also over two drains.
    #[test]
    fn parts() {
        let node = |id, parent, name: &str| NodeRecord { id, parent, name: name.as_bytes().to_vec() };
        let mut paths = CgroupPaths::default();
        assert!(!paths.compose(&[]));
        assert!(paths.compose(&[node(9, 5, "b"), node(5, 1, "a"), node(1, 0, ""), node(8, 5, "d")]));
        paths.compose(&[node(10, 5, "c"), node(12, 11, "lost")]);
        let told = |id| paths.get(id).map(|path| path.to_string());
        let all = [told(1), told(5), told(8), told(9), told(10)].map(Option::unwrap_or_default);
        assert_eq!(all, ["/", "/a", "/a/d", "/a/b", "/a/c"]);
        assert_eq!(told(12), None);
    }

    /// Check that a container's own part is known by its real name, the host's whole hierarchy wins over it, and
    /// in a cgroup namespace `/` is not taken for the host's root.
    #[test]
    fn containers() {
        let controllers = "cpu\t0\t90\t1\n";
        let part = "1 2 0:3 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let whole = "1 2 0:3 / /host/sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let shared = Hierarchy::decide(controllers, "0::/docker/x\n", part, false);
        assert_eq!((shared.mount, shared.own.as_deref()), (at("/sys/fs/cgroup", "/docker/x"), Some("/docker/x")));
        let with_host = Hierarchy::decide(controllers, "0::/docker/x\n", &format!("{part}{whole}"), false);
        assert_eq!(with_host.mount, at("/host/sys/fs/cgroup", ""));
        let own = "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let private = Hierarchy::decide(controllers, "0::/\n", own, true);
        assert_eq!((private.mount, private.own, private.own_part), (None, None, Some("/sys/fs/cgroup".into())));
        let above = "1 2 0:3 /../.. /host/sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let with_host = Hierarchy::decide(controllers, "0::/\n", &format!("{own}{above}"), true);
        assert_eq!(with_host.mount, at("/host/sys/fs/cgroup", ""));
    }
}
