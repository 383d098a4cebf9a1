//! Pure: what a receiver of narrower scope may see. What lies outside gives no spans and no totals, and as a
//! culprit it is `other`: a neighbour's names and pids do not leak into a sidecar's data.

use std::collections::HashSet;

use super::settings::Scope;

/// The part of the host that is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// All of it.
    Host,
    /// A cgroup and all below it.
    Below(String),
    /// Cgroups that were found below our own, whose path cannot be told from inside a cgroup namespace.
    Only(HashSet<u64>),
}

/// Where the agent itself is.
#[derive(Debug, Clone, Default)]
pub(super) struct Standpoint {
    /// The path of its own cgroup; `None` in a cgroup namespace of its own.
    pub path: Option<String>,
    /// Ids of its own cgroup and those below it, where the path is not known.
    pub own: HashSet<u64>,
    /// Pids of the host mean the same to it.
    pub sees_host: bool,
}

impl View {
    /// What a scope means from there.
    ///
    /// # Errors
    /// Where the agent stands in nothing that such a scope can mean.
    pub(super) fn new(scope: Scope, from: Standpoint) -> Result<Self, String> {
        let path = from.path.as_deref();
        let in_container = path.is_none_or(|path| path.split('/').any(is_container));
        let scope = match scope {
            Scope::Auto if from.sees_host || !in_container => Scope::Host,
            Scope::Auto => Scope::Pod,
            given => given,
        };
        match (scope, path) {
            (Scope::Host | Scope::Auto, _) => Ok(Self::Host),
            (_, Some("/")) => {
                Err("the agent's own cgroup is the root: `host` is what it can see; start it in a pod or container"
                    .to_owned())
            }
            (Scope::Cgroup, Some(path)) => Ok(Self::Below(path.to_owned())),
            (Scope::Pod, Some(path)) => Ok(Self::Below(pod(path))),
            (_, None) if from.own.is_empty() => {
                Err("no cgroup hierarchy is mounted here, so the agent's own cgroup cannot be told".to_owned())
            }
            (_, None) => Ok(Self::Only(from.own)),
        }
    }

    /// Whether it is all of the host.
    pub(super) fn is_host(&self) -> bool {
        matches!(self, Self::Host)
    }

    /// Whether a cgroup lies in it.
    pub(super) fn holds(&self, id: u64, path: Option<&str>) -> bool {
        match self {
            Self::Host => true,
            Self::Only(ids) => ids.contains(&id),
            Self::Below(root) => path
                .and_then(|path| path.strip_prefix(root.as_str()))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}

/// A component that is a pod or holds a container's id.
fn is_container(component: &str) -> bool {
    is_pod(component) || component.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() == 64)
}

/// `pod<uid>` of cgroupfs, `kubepods-burstable-pod<uid>.slice` of systemd.
fn is_pod(component: &str) -> bool {
    let uid = component.strip_prefix("pod").or_else(|| component.rsplit_once("-pod").map(|(_, uid)| uid));
    uid.is_some_and(|uid| uid.len() >= 32 && uid.starts_with(|c: char| c.is_ascii_hexdigit()))
}

/// The pod's part of a path; without a pod the container itself is all there is.
fn pod(path: &str) -> String {
    let mut end = 0;
    for component in path.split_inclusive('/') {
        end += component.len();
        if is_pod(component.trim_end_matches('/')) {
            return path[..end].trim_end_matches('/').to_owned();
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/kubepods/burstable/pod5f0fbcd7-1d5b-4a0f-8a83-0c0c1f0e0001";
    const ID: &str = "ff44c7a161a2b64a2c2e342fa1364dd148b5958e53d378f0588846fc3e232c34";

    fn at(path: Option<&str>, sees_host: bool) -> Standpoint {
        Standpoint { path: path.map(str::to_owned), own: HashSet::new(), sees_host }
    }

    /// Check what `auto` means on a host, in a DaemonSet with the host's pids, and in a sidecar.
    #[test]
    fn automatic() {
        let inside = format!("{POD}/{ID}");
        assert_eq!(View::new(Scope::Auto, at(Some("/"), true)), Ok(View::Host));
        assert_eq!(View::new(Scope::Auto, at(Some("/"), false)), Ok(View::Host));
        assert_eq!(View::new(Scope::Auto, at(Some(&inside), true)), Ok(View::Host));
        assert_eq!(View::new(Scope::Auto, at(Some(&inside), false)), Ok(View::Below(POD.to_owned())));
        let hidden = Standpoint { own: HashSet::from([7]), ..at(None, false) };
        assert_eq!(View::new(Scope::Auto, hidden), Ok(View::Only(HashSet::from([7]))));
    }

    /// Check that a pod holds its containers and no neighbour whose name begins like its own.
    #[test]
    fn pods_and_cgroups() {
        let inside = format!("{POD}/{ID}");
        let view = View::new(Scope::Pod, at(Some(&inside), true)).unwrap();
        assert!(view.holds(1, Some(&format!("{POD}/other"))) && view.holds(1, Some(POD)));
        assert!(!view.holds(1, Some(&format!("{POD}2/other"))) && !view.holds(1, Some("/")) && !view.holds(1, None));
        assert_eq!(View::new(Scope::Cgroup, at(Some(&inside), true)), Ok(View::Below(inside)));
        let docker = format!("/docker/{ID}");
        assert_eq!(View::new(Scope::Pod, at(Some(&docker), true)), Ok(View::Below(docker)));
        let slice = "/kubepods.slice/kubepods-pod5f0fbcd7_1d5b_4a0f_8a83_0c0c1f0e0001.slice";
        let scope = format!("{slice}/cri-containerd-{ID}.scope");
        assert_eq!(View::new(Scope::Pod, at(Some(&scope), true)), Ok(View::Below(slice.to_owned())));
        assert!(View::new(Scope::Cgroup, at(Some("/"), true)).is_err());
    }
}
