//! Pure: the API's JSON of pods, as far as it becomes attributes, and what is read out of it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::pods::{PodContainer, PodFacts, Workload};

/// The annotations of a static pod: its uid on the node, and on its mirror in the API.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotations that are about telemetry.
const OTEL_ANNOTATIONS: &str = "resource.opentelemetry.io/";
/// Texts of the API that are longer are taken as absent.
const TEXT_MAX_BYTES: usize = 1024;
/// Containers of one pod that are kept.
const CONTAINERS_MAX: usize = 256;
/// A CronJob names its jobs by the minute since 1970 for which they were scheduled: these are 2016 to 2042.
const CRON_MINUTES: std::ops::Range<u64> = 24_200_000..38_000_000;

/// A list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodList {
    /// Of the list.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ListMeta,
    /// The pods; a kubelet without any says null.
    #[serde(deserialize_with = "or_default")]
    pub items: Vec<Pod>,
}

/// Null means the same as nothing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Where a list stands in time.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMeta {
    /// To watch from.
    pub resource_version: String,
    /// There is more to the list.
    #[serde(rename = "continue")]
    pub continue_token: String,
}

/// One pod. Whatever is missing or null is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Names.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Meta,
    /// What was asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: Spec,
    /// What is.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    name: String,
    namespace: String,
    uid: String,
    /// To watch from.
    pub resource_version: String,
    labels: Option<HashMap<String, String>>,
    annotations: Option<HashMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerReference {
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

/// `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    node_name: String,
}

/// `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    start_time: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    restart_count: Option<i64>,
}

impl Pod {
    /// What becomes attributes; `None` for an object that has no uid or no name.
    pub fn facts(&self, labels: &[String]) -> Option<PodFacts> {
        let meta = &self.metadata;
        let uid = text(&meta.uid)?;
        let annotation =
            |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).and_then(|value| text(value));
        // a mirror: the cgroups on the node have the hash
        let node_uid =
            annotation(CONFIG_MIRROR).or_else(|| annotation(CONFIG_HASH)).unwrap_or_else(|| Arc::clone(&uid));
        let owners = self.owners();
        let pairs = |all: &Option<HashMap<String, String>>, keep: &dyn Fn(&str) -> bool| {
            let all = all.iter().flatten().filter(|(key, value)| keep(key) && value.len() <= TEXT_MAX_BYTES);
            let mut found: Vec<(Arc<str>, Arc<str>)> =
                all.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
            found.sort();
            found
        };
        let status = &self.status;
        let statuses =
            [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
        let containers = statuses.into_iter().flatten().flatten().take(CONTAINERS_MAX).filter_map(|about| {
            let id = about.container_id.as_deref().and_then(|id| id.split_once("://")).and_then(|(_, id)| text(id));
            Some(PodContainer { id, name: text(&about.name)?, restart_count: about.restart_count })
        });
        Some(PodFacts {
            uid,
            node_uid,
            name: text(&meta.name)?,
            namespace: text(&meta.namespace).unwrap_or_else(|| "default".into()),
            node: text(&self.spec.node_name),
            start_time: status.start_time.as_deref().and_then(text),
            workload: owners.last().cloned(),
            owners,
            labels: pairs(&meta.labels, &|key| labels.iter().any(|allowed| allowed == key)),
            annotations: pairs(&meta.annotations, &|key| key.starts_with(OTEL_ANNOTATIONS)),
            containers: containers.collect(),
        })
    }

    /// The pod's controller, and the one above it where the pod itself tells.
    fn owners(&self) -> Vec<Workload> {
        let meta = &self.metadata;
        let references = meta.owner_references.iter().flatten();
        let Some(reference) =
            references.clone().find(|one| one.controller == Some(true)).or_else(|| references.clone().next())
        else {
            return Vec::new();
        };
        let (Some(kind), Some(name)) = (kind(&reference.kind), text(&reference.name)) else { return Vec::new() };
        let mut owners = vec![Workload { kind, name: Arc::clone(&name), uid: text(&reference.uid) }];
        let above = match kind {
            // a Deployment puts the hash of its template into the name and into a label
            "ReplicaSet" => {
                let hash = meta.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
                let stem = hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
                stem.map(|stem| ("Deployment", stem))
            }
            "Job" => name.rsplit_once('-').and_then(|(stem, minute)| {
                let scheduled = minute.len() == 8 && minute.parse().is_ok_and(|minute| CRON_MINUTES.contains(&minute));
                scheduled.then_some(("CronJob", stem))
            }),
            _ => None,
        };
        if let Some((kind, stem)) = above
            && let Some(name) = text(stem)
        {
            owners.push(Workload { kind, name, uid: None });
        }
        owners
    }
}

fn kind(word: &str) -> Option<&'static str> {
    ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Deployment"].into_iter().find(|kind| *kind == word)
}

fn text(value: &str) -> Option<Arc<str>> {
    (!value.is_empty() && value.len() <= TEXT_MAX_BYTES).then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(json: &str) -> Option<PodFacts> {
        serde_json::from_str::<Pod>(json).unwrap().facts(&["app".into()])
    }

    #[test]
    fn a_pod_of_a_deployment_names_both_owners() {
        let pod = facts(
            r#"{"metadata": {"name": "web-5d9c7-x2x", "namespace": "shop", "uid": "u",
                "labels": {"app": "web", "secret": "s", "pod-template-hash": "5d9c7"},
                "annotations": {"resource.opentelemetry.io/service.name": "front", "token": "t"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d9c7", "uid": "r", "controller": true}]},
                "spec": {"nodeName": "n1"},
                "status": {"startTime": "2026-01-01T00:00:00Z", "containerStatuses":
                [{"name": "app", "containerID": "containerd://abc", "restartCount": 2}], "initContainerStatuses": null}}"#,
        )
        .unwrap();
        let owners: Vec<(&str, &str)> = pod.owners.iter().map(|owner| (owner.kind, owner.name.as_ref())).collect();
        assert_eq!(owners, [("ReplicaSet", "web-5d9c7"), ("Deployment", "web")]);
        assert_eq!(pod.labels, vec![("app".into(), "web".into())]);
        assert_eq!(pod.annotations.len(), 1);
        let mut resource = crate::model::Resource::new();
        pod.describe(&mut resource, Some("abc"));
        for (key, value) in [
            ("k8s.pod.name", "web-5d9c7-x2x"),
            ("k8s.namespace.name", "shop"),
            ("k8s.node.name", "n1"),
            ("k8s.deployment.name", "web"),
            ("k8s.replicaset.uid", "r"),
            ("k8s.container.name", "app"),
            ("k8s.pod.label.app", "web"),
        ] {
            assert_eq!(resource.text(key), Some(value), "{key}");
        }
        assert_eq!(resource.get("k8s.container.restart_count"), Some(&2.into()));
    }

    #[test]
    fn a_cron_job_is_told_by_the_minute_in_the_name() {
        let job = |name: &str| {
            let json = format!(
                r#"{{"metadata": {{"name": "p", "uid": "u", "ownerReferences": [{{"kind": "Job", "name": "{name}"}}]}}}}"#
            );
            facts(&json).unwrap().owners.iter().map(|owner| owner.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(job("backup-28930410"), ["backup-28930410", "backup"]);
        assert_eq!(job("import-2024"), ["import-2024"]);
        assert_eq!(job("import-99999999"), ["import-99999999"]);
    }

    #[test]
    fn a_static_pod_is_found_by_its_hash_and_named_by_its_mirror() {
        let mirror = facts(
            r#"{"metadata": {"name": "etcd-n1", "namespace": "kube-system", "uid": "mirror",
                "annotations": {"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.hash": "hash"}}}"#,
        );
        let mirror = mirror.unwrap();
        assert_eq!((mirror.uid.as_ref(), mirror.node_uid.as_ref()), ("mirror", "hash"));
    }

    #[test]
    fn objects_with_missing_or_huge_fields_do_no_harm() {
        assert!(facts("{}").is_none());
        assert!(facts(r#"{"metadata": {"uid": "u"}}"#).is_none());
        let huge = "x".repeat(5000);
        assert!(facts(&format!(r#"{{"metadata": {{"uid": "u", "name": "{huge}"}}}}"#)).is_none());
        let pod =
            facts(r#"{"metadata": {"uid": "u", "name": "p", "labels": null}, "status": {"containerStatuses": [{}]}}"#);
        assert!(pod.unwrap().containers.is_empty());
        let list = r#"{"kind": "PodList", "metadata": null, "items": null}"#;
        assert!(serde_json::from_str::<PodList>(list).unwrap().items.is_empty());
        assert!(facts(r#"{"metadata": {"uid": "u", "name": "p"}, "spec": null, "status": null}"#).is_some());
    }
}
