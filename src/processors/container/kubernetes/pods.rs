//! Pure: what Kubernetes knows of a pod, as far as it becomes attributes.

use std::sync::Arc;

use crate::model::Resource;

/// The workload that owns a pod, at the top of the chain as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `Job`, `CronJob`, `ReplicaSet`.
    pub kind: &'static str,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid, where the source gives it.
    pub uid: Option<Arc<str>>,
}

/// One container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodContainer {
    /// Without the runtime's prefix.
    pub id: Option<Arc<str>>,
    /// `k8s.container.name`.
    pub name: Arc<str>,
    /// `k8s.container.restart_count`.
    pub restart_count: Option<i64>,
}

/// A pod as a kubelet or the API server tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The uid by which attributes name it: the mirror's for a static pod of the API server.
    pub uid: Arc<str>,
    /// The uid in its cgroups: a static pod's hash, else the same.
    pub node_uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// RFC 3339.
    pub start_time: Option<Arc<str>>,
    /// Who owns it, from the pod's own owner to the top.
    pub owners: Vec<Workload>,
    /// The topmost of them.
    pub workload: Option<Workload>,
    /// Allow-listed labels.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The annotations under `resource.opentelemetry.io/`.
    pub annotations: Vec<(Arc<str>, Arc<str>)>,
    /// Its containers, init and ephemeral ones included.
    pub containers: Vec<PodContainer>,
}

impl PodFacts {
    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<Arc<str>> {
        find(&self.annotations, key)
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<Arc<str>> {
        find(&self.labels, key)
    }

    /// Adds `k8s.*` to a Resource that the cgroup's path has begun.
    pub fn describe(&self, resource: &mut Resource, container_id: Option<&str>) {
        resource.set("k8s.pod.uid", Arc::clone(&self.uid));
        resource.set("k8s.pod.name", Arc::clone(&self.name));
        resource.set("k8s.namespace.name", Arc::clone(&self.namespace));
        if let Some(node) = &self.node {
            resource.set("k8s.node.name", Arc::clone(node));
        }
        if let Some(start) = &self.start_time {
            resource.set("k8s.pod.start_time", Arc::clone(start));
        }
        for owner in &self.owners {
            let Some((name, uid)) = workload_keys(owner.kind) else { continue };
            resource.set(name, Arc::clone(&owner.name));
            if let Some(value) = &owner.uid {
                resource.set(uid, Arc::clone(value));
            }
        }
        for (key, value) in &self.labels {
            resource.set(format!("k8s.pod.label.{key}"), Arc::clone(value));
        }
        let own =
            self.containers.iter().find(|container| container_id.is_some() && container.id.as_deref() == container_id);
        if let Some(container) = own {
            resource.set("k8s.container.name", Arc::clone(&container.name));
            if let Some(count) = container.restart_count {
                resource.set("k8s.container.restart_count", count);
            }
        }
    }
}

fn find(pairs: &[(Arc<str>, Arc<str>)], wanted: &str) -> Option<Arc<str>> {
    pairs.iter().find(|(key, _)| key.as_ref() == wanted).map(|(_, value)| Arc::clone(value))
}

/// The attributes of a workload's name and uid.
fn workload_keys(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "Deployment" => ("k8s.deployment.name", "k8s.deployment.uid"),
        "ReplicaSet" => ("k8s.replicaset.name", "k8s.replicaset.uid"),
        "StatefulSet" => ("k8s.statefulset.name", "k8s.statefulset.uid"),
        "DaemonSet" => ("k8s.daemonset.name", "k8s.daemonset.uid"),
        "Job" => ("k8s.job.name", "k8s.job.uid"),
        "CronJob" => ("k8s.cronjob.name", "k8s.cronjob.uid"),
        _ => return None,
    })
}
