//! Names that only a runtime knows, learnt in the background and looked up without waiting.
//!
//! [`book`] is the meeting place: the processor asks and reads, sources (one per runtime) answer whenever
//! they can. Refuses to know: cgroups, batches.

pub mod book;
pub mod catalog;
mod cri;
mod cri_messages;
mod docker;
mod podman;
pub mod runtimes;
mod socket;

use std::sync::Arc;

pub use book::Book;

use super::grammar::Runtime;

/// What a runtime tells about one container. Everything is optional; texts are bounded by whoever read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The container's name, without a leading slash.
    pub name: Option<Arc<str>>,
    /// Who runs it, where the cgroup's path did not say.
    pub runtime: Option<Runtime>,
    /// The image by name, without tag and digest.
    pub image_name: Option<Arc<str>>,
    /// The image's id.
    pub image_id: Option<Arc<str>>,
    /// Tags, without the image's name.
    pub image_tags: Vec<Arc<str>>,
    /// `name@sha256:...` as registries know it.
    pub image_repo_digests: Vec<Arc<str>>,
    /// Allow-listed labels.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// How often the runtime restarted it.
    pub restart_count: Option<i64>,
    /// The pod it belongs to.
    pub pod: Option<PodNames>,
}

/// What a CRI runtime tells about the pod of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNames {
    /// `k8s.pod.name`.
    pub name: Option<Arc<str>>,
    /// `k8s.namespace.name`.
    pub namespace: Option<Arc<str>>,
    /// `k8s.pod.uid` as the node has it.
    pub uid: Option<Arc<str>>,
    /// `k8s.container.name`; the pause container of a pod has none.
    pub container: Option<Arc<str>>,
}

impl Names {
    /// Takes over what `newer` knows; what it does not know stays.
    pub fn merge(&mut self, newer: Self) {
        fn replace<T>(slot: &mut Option<T>, newer: Option<T>) {
            if newer.is_some() {
                *slot = newer;
            }
        }
        fn replace_list<T>(slot: &mut Vec<T>, newer: Vec<T>) {
            if !newer.is_empty() {
                *slot = newer;
            }
        }
        replace(&mut self.name, newer.name);
        replace(&mut self.runtime, newer.runtime);
        replace(&mut self.image_name, newer.image_name);
        replace(&mut self.image_id, newer.image_id);
        replace_list(&mut self.image_tags, newer.image_tags);
        replace_list(&mut self.image_repo_digests, newer.image_repo_digests);
        replace_list(&mut self.labels, newer.labels);
        replace(&mut self.restart_count, newer.restart_count);
        replace(&mut self.pod, newer.pod);
    }
}

/// Bytes of one name, label or image reference that are kept.
const TEXT_MAX_BYTES: usize = 1024;
/// Tags or digests of one image that are kept.
const LIST_MAX: usize = 16;

/// A text of a runtime's answer: present, not empty, of bounded length.
pub fn text(value: &str) -> Option<Arc<str>> {
    let value = value.trim();
    (!value.is_empty() && value.len() <= TEXT_MAX_BYTES).then(|| value.into())
}

/// A bounded list of such texts.
pub fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Arc<str>> {
    values.into_iter().filter_map(text).take(LIST_MAX).collect()
}

/// The allowed ones of a runtime's labels.
pub fn allowed_labels<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    allowed: &[String],
) -> Vec<(Arc<str>, Arc<str>)> {
    let mut found: Vec<(Arc<str>, Arc<str>)> = labels
        .into_iter()
        .filter(|(key, value)| value.len() <= TEXT_MAX_BYTES && allowed.iter().any(|allowed| allowed == key))
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    found.sort();
    found
}

/// An image reference as its name and its tag: `registry:5000/shop/web:1.2@sha256:...`.
pub fn image(reference: &str) -> (Option<Arc<str>>, Vec<Arc<str>>) {
    if reference.starts_with("sha256:") {
        return (None, Vec::new());
    }
    let (plain, _digest) = reference.split_once('@').unwrap_or((reference, ""));
    match plain.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (text(name), texts([tag])),
        _ => (text(plain), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_come_apart() {
        let check = |reference: &str, name: Option<&str>, tags: &[&str]| {
            let (found, found_tags) = image(reference);
            assert_eq!(found.as_deref(), name, "{reference}");
            assert_eq!(found_tags.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), tags, "{reference}");
        };
        check("nginx", Some("nginx"), &[]);
        check("nginx:1.25", Some("nginx"), &["1.25"]);
        check("registry:5000/shop/web", Some("registry:5000/shop/web"), &[]);
        check("registry:5000/shop/web:1@sha256:ab", Some("registry:5000/shop/web"), &["1"]);
        check("sha256:abcdef", None, &[]);
        check("", None, &[]);
    }

    #[test]
    fn labels_leave_by_exact_key_only() {
        let labels = [("app", "web"), ("app.secret", "x"), ("big", &"y".repeat(2000))];
        let found = allowed_labels(labels, &["app".into(), "big".into()]);
        assert_eq!(found, vec![("app".into(), "web".into())]);
    }

    #[test]
    fn what_is_not_known_does_not_erase() {
        let mut names = Names { name: text("web"), restart_count: Some(1), ..Names::default() };
        names.merge(Names { restart_count: Some(2), ..Names::default() });
        assert_eq!((names.name.as_deref(), names.restart_count), (Some("web"), Some(2)));
    }
}
