//! Pure: the attribute names of what the grammar found (semantic conventions; config.md "Names").

use super::grammar::Identity;
use crate::model::Resource;

/// `container.id`.
pub const CONTAINER_ID: &str = "container.id";
/// `container.name`.
pub const CONTAINER_NAME: &str = "container.name";
/// `container.runtime.name`.
pub const CONTAINER_RUNTIME: &str = "container.runtime.name";
/// `k8s.pod.uid`.
pub const POD_UID: &str = "k8s.pod.uid";
/// `k8s.pod.qos_class`.
pub const POD_QOS: &str = "k8s.pod.qos_class";
/// `k8s.container.name`.
pub const POD_CONTAINER: &str = "k8s.container.name";
/// The annotation that holds a static pod's uid on its node.
pub const CONFIG_HASH: &str = "k8s.pod.annotation.kubernetes.io/config.hash";
/// `systemd.unit`.
pub const UNIT: &str = "systemd.unit";

/// The attributes of an identity; what is unknown is absent.
pub fn of_identity(identity: &Identity<'_>) -> Resource {
    let mut resource = Resource::new();
    if let Some(container) = &identity.container {
        resource.set(CONTAINER_ID, container.id.as_ref());
        if let Some(name) = &container.name {
            resource.set(CONTAINER_NAME, name.as_ref());
        }
        if let Some(runtime) = container.runtime {
            resource.set(CONTAINER_RUNTIME, runtime.name());
        }
    }
    if let Some(uid) = &identity.pod_uid {
        resource.set(POD_UID, uid.as_ref());
        if is_static(uid) {
            resource.set(CONFIG_HASH, uid.as_ref());
        }
    }
    if let Some(name) = &identity.pod_container {
        resource.set(POD_CONTAINER, name.as_ref());
    }
    if let Some(qos) = identity.qos {
        resource.set(POD_QOS, qos.name());
    }
    if let Some(unit) = identity.unit {
        resource.set(UNIT, unit);
    }
    resource
}

/// A static pod's uid on its node: its config hash, 32 hex digits without dashes, which is not the uid of
/// its mirror in the API.
pub fn is_static(uid: &str) -> bool {
    uid.len() == 32
}
