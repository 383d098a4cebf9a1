//! Pure: what a container's own mounts tell about it, for where its cgroup namespace shows only `/`.
//!
//! The files that a runtime mounts over `/etc/hostname` lie in a folder named by the container's id, but
//! in a pod they are the sandbox's: there only the pod is known.

use std::borrow::Cow;

use super::segment::is_hex;
use super::{Container, Identity, Runtime, parse_path, pod};

/// Lines that are read at most: a node with many volumes has some thousand.
const LINES_MAX: usize = 8192;

/// One mount's fields that matter.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    filesystem: &'a str,
}

/// Who the process is, if its mounts tell.
pub fn parse(text: &str) -> Option<Identity<'_>> {
    let mut by_hostname = None;
    let mut by_hosts = None;
    let mut own = None;
    let mut pod = Identity::default();
    for mount in text.split('\n').take(LINES_MAX).filter_map(read_line) {
        if matches!(mount.filesystem, "cgroup" | "cgroup2") {
            // a bind mount of the host's hierarchy shows the whole path
            let found = parse_path(mount.root);
            if found.container.is_some() || found.pod_uid.is_some() {
                return Some(found);
            }
        } else if let Some(uid) = pod_of(&mount) {
            pod.pod_uid = Some(uid);
            pod.pod_container = pod.pod_container.take().or_else(|| pod_container_of(&mount));
        } else if let Some(found) = own_file_of(&mount) {
            own = own.or(Some(found));
        } else if mount.point == "/etc/hostname" {
            by_hostname = by_hostname.or_else(|| folder_of(mount.root, "/hostname"));
        } else if mount.point == "/etc/hosts" {
            // all there is with the host's UTS namespace
            by_hosts = by_hosts.or_else(|| folder_of(mount.root, "/hosts"));
        }
    }
    pod.container = match (pod.pod_uid.is_some(), own) {
        // in a pod containers/storage is CRI-O's
        (true, own) => own.map(|id| Container { id: id.into(), name: None, runtime: Some(Runtime::Crio) }),
        (false, Some(id)) => Some(Container { id: id.into(), name: None, runtime: Some(Runtime::Podman) }),
        (false, None) => by_hostname.or(by_hosts),
    };
    (pod.pod_uid.is_some() || pod.container.is_some()).then(|| {
        pod.depth = u8::from(pod.container.is_some());
        pod
    })
}

/// `id parent major:minor root point options [fields...] - type source options`
fn read_line(line: &str) -> Option<Mount<'_>> {
    let (mount, about) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    Some(Mount { root: fields.next()?, point: fields.next()?, filesystem: about.split(' ').next()? })
}

/// The kubelet's own mounts into a pod's containers: `.../pods/<uid>/etc-hosts`,
/// `.../pods/<uid>/containers/<name>/<hash>`.
fn pod_of<'a>(mount: &Mount<'a>) -> Option<Cow<'a, str>> {
    let (before, rest) = mount.root.split_once("/pods/")?;
    let (uid, file) = rest.split_once('/')?;
    let into_container = file == "etc-hosts" && mount.point == "/etc/hosts"
        || file.starts_with("containers/") && !mount.point.contains("/pods/");
    // podman keeps `/containers/storage/...`, never `pods/<uid>`
    if !into_container || before.ends_with("/log") {
        return None;
    }
    pod::uid(uid)
}

fn pod_container_of<'a>(mount: &Mount<'a>) -> Option<Cow<'a, str>> {
    let (_, rest) = mount.root.split_once("/containers/")?;
    let (name, _) = rest.split_once('/')?;
    (!name.is_empty()).then_some(Cow::Borrowed(name))
}

/// The id in files of containers/storage that lie in the container's own folder even in a pod.
fn own_file_of<'a>(mount: &Mount<'a>) -> Option<&'a str> {
    let (_, rest) = mount.root.split_once("/overlay-containers/")?;
    let (id, file) = rest.split_once("/userdata/")?;
    let own = matches!((file, mount.point), (".containerenv", "/run/.containerenv") | ("run/secrets", "/run/secrets"));
    (own && is_id(id)).then_some(id)
}

/// `.../containers/<id>/hostname` (docker), `.../containers/<namespace>/<id>/hostname` (nerdctl),
/// `.../overlay-containers/<id>/userdata/hostname` (podman).
fn folder_of<'a>(root: &'a str, file: &str) -> Option<Container<'a>> {
    let folder = root.strip_suffix(file)?;
    if let Some(folder) = folder.strip_suffix("/userdata") {
        let (before, id) = folder.rsplit_once('/')?;
        return before.ends_with("overlay-containers").then(|| container(id, Some(Runtime::Podman)))?;
    }
    let (before, id) = folder.rsplit_once('/')?;
    if before.ends_with("docker/containers") {
        return container(id, Some(Runtime::Docker));
    }
    if before == "/containers" || before.ends_with("/containers") {
        return container(id, None);
    }
    let (parent, _namespace) = before.rsplit_once('/')?;
    let nerdctl = parent.ends_with("/containers") && parent.contains("nerdctl");
    if nerdctl { container(id, Some(Runtime::Containerd)) } else { None }
}

fn container(id: &str, runtime: Option<Runtime>) -> Option<Container<'_>> {
    is_id(id).then(|| Container { id: id.into(), name: None, runtime })
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && is_hex(text.as_bytes())
}
