//! What the agent's own pod tells it: environment and files of the downward API.

use std::path::Path;
use std::sync::Arc;

use super::pods::PodFacts;

/// The variables by which manifests usually pass a field, the first that is set wins.
const POD_NAME: [&str; 3] = ["K8S_POD_NAME", "POD_NAME", "OTEL_RESOURCE_ATTRIBUTES_POD_NAME"];
const POD_UID: [&str; 3] = ["K8S_POD_UID", "POD_UID", "OTEL_RESOURCE_ATTRIBUTES_POD_UID"];
const NAMESPACE: [&str; 4] = ["K8S_NAMESPACE_NAME", "K8S_POD_NAMESPACE", "POD_NAMESPACE", "K8S_NAMESPACE"];
/// Where every pod with a service account finds its namespace.
const NAMESPACE_FILE: &str = "var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where manifests usually mount the downward API's files.
const LABELS_FILE: &str = "etc/podinfo/labels";
const ANNOTATIONS_FILE: &str = "etc/podinfo/annotations";

/// The agent's own pod, where its uid is told; `variable` reads the agent's own environment.
pub(super) fn own_pod(
    variable: impl Fn(&str) -> Option<String>,
    root: &Path,
    node: Option<&str>,
    labels: &[String],
) -> Option<PodFacts> {
    let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    let uid: Arc<str> = first(&POD_UID)?.into();
    let from_file = || std::fs::read_to_string(root.join(NAMESPACE_FILE)).ok().map(|text| text.trim().to_owned());
    // a pod's host name is its name, unless its spec says otherwise
    let name = first(&POD_NAME).or_else(|| variable("HOSTNAME"))?;
    let keep_label = |key: &str| labels.iter().any(|allowed| allowed == key);
    Some(PodFacts {
        node_uid: Arc::clone(&uid),
        uid,
        name: name.into(),
        namespace: first(&NAMESPACE).or_else(from_file)?.into(),
        node: node.map(Arc::from),
        labels: pairs(&root.join(LABELS_FILE), keep_label),
        annotations: pairs(&root.join(ANNOTATIONS_FILE), |key| key.starts_with("resource.opentelemetry.io/")),
        ..PodFacts::default()
    })
}

/// Lines `key="value"` of a file of the downward API, the value escaped as in a string of Go.
fn pairs(path: &Path, keep: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Arc<str>)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| {
        let (key, quoted) = line.split_once('=')?;
        let value: String = serde_json::from_str(quoted).ok()?;
        keep(key).then(|| (key.into(), value.into()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_pod_is_read_from_environment_and_files() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/podinfo")).unwrap();
        std::fs::write(root.path().join("etc/podinfo/labels"), "app=\"we\\\"b\"\nsecret=\"x\"\n").unwrap();
        let variable = |name: &str| match name {
            "K8S_POD_UID" => Some("u".to_owned()),
            "HOSTNAME" => Some("web-0".to_owned()),
            "POD_NAMESPACE" => Some("shop".to_owned()),
            _ => None,
        };
        let pod = own_pod(variable, root.path(), Some("n1"), &["app".into()]).unwrap();
        assert_eq!((pod.name.as_ref(), pod.namespace.as_ref(), pod.uid.as_ref()), ("web-0", "shop", "u"));
        assert_eq!(pod.labels, vec![("app".into(), "we\"b".into())]);
        assert!(own_pod(|_| None, root.path(), None, &[]).is_none());
    }
}
