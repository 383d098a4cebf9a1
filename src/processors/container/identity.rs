//! Pure: what a cgroup's path says, kept: the identity that names are added to.

use std::sync::Arc;

use super::attributes;
use super::grammar::{Identity, Runtime};
use crate::model::{OwnerKind, Resource};

/// Hex digits of an id that a person is shown.
const SHORT_ID_CHARS: usize = 12;

/// The owner of a cgroup as far as its path tells. Two cgroups with the same `key` are one owner.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    /// The container id, the unit, `pod <uid>` or `host`.
    pub(super) key: Arc<str>,
    /// What it is.
    pub(super) kind: OwnerKind,
    /// The container's id.
    pub(super) container_id: Option<Arc<str>>,
    /// Where the path tells it.
    pub(super) runtime: Option<Runtime>,
    /// As the node has it.
    pub(super) pod_uid: Option<Arc<str>>,
    /// The name in the path (LXC, nspawn).
    pub(super) machine: Option<Arc<str>>,
    /// The systemd unit of what is in no container.
    pub(super) unit: Option<Arc<str>>,
    /// Its attributes.
    pub(super) resource: Resource,
}

impl Known {
    /// What is in no container, no pod and no unit.
    pub(super) fn host() -> Self {
        Self {
            key: "host".into(),
            kind: OwnerKind::Host,
            container_id: None,
            runtime: None,
            pod_uid: None,
            machine: None,
            unit: None,
            resource: Resource::new(),
        }
    }

    /// Keeps what the grammar found.
    pub(super) fn of(identity: &Identity<'_>) -> Self {
        let resource = attributes::of_identity(identity);
        let pod_uid: Option<Arc<str>> = identity.pod_uid.as_deref().map(Arc::from);
        if let Some(container) = &identity.container {
            let id: Arc<str> = container.id.as_ref().into();
            return Self {
                key: Arc::clone(&id),
                kind: OwnerKind::Container,
                container_id: Some(id),
                runtime: container.runtime,
                pod_uid,
                machine: container.name.as_deref().map(Arc::from),
                unit: None,
                resource,
            };
        }
        let unit: Option<Arc<str>> = identity.unit.map(Arc::from);
        let key = match (&unit, &pod_uid) {
            (Some(unit), _) => Arc::clone(unit),
            (None, Some(uid)) => format!("pod {uid}").into(),
            (None, None) => return Self::host(),
        };
        Self { key, kind: OwnerKind::Unit, pod_uid, unit, resource, ..Self::host() }
    }

    /// What a person calls it while no runtime has given a name.
    pub(super) fn short_name(&self) -> Arc<str> {
        let Some(id) = &self.container_id else { return Arc::clone(&self.key) };
        if let Some(machine) = &self.machine {
            return Arc::clone(machine);
        }
        let short: String = id.chars().take(SHORT_ID_CHARS).collect();
        match self.runtime {
            Some(runtime) => format!("{} {short}", runtime.name()).into(),
            None => short.into(),
        }
    }
}
