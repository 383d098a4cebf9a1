//! Pure: identity, names and pod put together: the Owner and its Resource.

use std::sync::Arc;

use super::attributes::{CONTAINER_NAME, CONTAINER_RUNTIME, POD_CONTAINER, POD_UID};
use super::identity::Known;
use super::kubernetes::pods::PodFacts;
use super::names::Names;
use super::service::{HOST_SERVICE, Hints, describe};
use crate::model::{Owner, OwnerKind, Resource, Value};

/// All that is known of an owner at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// From the cgroup's path.
    pub(super) known: &'a Known,
    /// From its runtime.
    pub(super) names: Option<&'a Names>,
    /// From Kubernetes.
    pub(super) pod: Option<&'a PodFacts>,
    /// What its main process publishes of itself.
    pub(super) published: Option<&'a Resource>,
    /// The main process' executable.
    pub(super) executable: Option<&'a str>,
    /// The host's own attributes.
    pub(super) host: &'a Resource,
}

/// The attributes that every process of this owner shares: no `service.*`, no `process.*`.
pub(super) fn shared_resource(facts: &Facts<'_>) -> Resource {
    let mut resource = facts.known.resource.clone();
    if let Some(names) = facts.names {
        add_names(&mut resource, names);
    }
    if let Some(pod) = facts.pod {
        pod.describe(&mut resource, facts.known.container_id.as_deref());
    }
    resource.fill_from(facts.host);
    resource
}

/// The owner; `provisional` where names may still come.
pub(super) fn build(facts: &Facts<'_>, provisional: bool) -> Owner {
    let mut resource = shared_resource(facts);
    match facts.known.kind {
        OwnerKind::Host => resource.set("service.name", HOST_SERVICE),
        OwnerKind::Container | OwnerKind::Unit => describe(&mut resource, &hints(facts)),
    }
    Owner {
        key: Arc::clone(&facts.known.key),
        kind: facts.known.kind,
        display_name: display_name(facts, &resource),
        resource: Arc::new(resource),
        provisional,
    }
}

/// What can tell the service of a process of this owner.
pub(super) fn hints<'a>(facts: &Facts<'a>) -> Hints<'a> {
    Hints {
        published: facts.published,
        pod: facts.pod,
        names: facts.names,
        machine: facts.known.machine.as_deref(),
        unit: facts.known.unit.as_deref(),
        executable: facts.executable,
    }
}

/// `namespace/pod/container`, the container's name, a short id, the unit.
fn display_name(facts: &Facts<'_>, resource: &Resource) -> Arc<str> {
    if let (Some(namespace), Some(pod)) = (resource.text("k8s.namespace.name"), resource.text("k8s.pod.name")) {
        return match resource.text(POD_CONTAINER) {
            Some(container) => format!("{namespace}/{pod}/{container}").into(),
            None => format!("{namespace}/{pod}").into(),
        };
    }
    match facts.names.and_then(|names| names.name.as_ref()) {
        Some(name) => Arc::clone(name),
        None => facts.known.short_name(),
    }
}

/// The attributes that a runtime's names become.
pub(super) fn add_names(resource: &mut Resource, names: &Names) {
    let mut text = |key: &'static str, value: &Option<Arc<str>>| {
        if let Some(value) = value {
            resource.set(key, Arc::clone(value));
        }
    };
    text(CONTAINER_NAME, &names.name);
    text("container.image.name", &names.image_name);
    text("container.image.id", &names.image_id);
    if let Some(pod) = &names.pod {
        text("k8s.pod.name", &pod.name);
        text("k8s.namespace.name", &pod.namespace);
        text(POD_CONTAINER, &pod.container);
    }
    if let Some(pod) = &names.pod
        && let Some(uid) = &pod.uid
    {
        resource.set_if_absent(POD_UID, Arc::clone(uid));
    }
    if let Some(runtime) = names.runtime {
        resource.set_if_absent(CONTAINER_RUNTIME, runtime.name());
    }
    if !names.image_tags.is_empty() {
        resource.set("container.image.tags", Value::Texts(names.image_tags.clone()));
    }
    if !names.image_repo_digests.is_empty() {
        resource.set("container.image.repo_digests", Value::Texts(names.image_repo_digests.clone()));
    }
    if let Some(count) = names.restart_count.filter(|_| names.pod.is_some()) {
        resource.set("k8s.container.restart_count", count);
    }
    for (key, value) in &names.labels {
        resource.set(format!("container.label.{key}"), Arc::clone(value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar::parse_path;
    use super::super::names::{PodNames, text};
    use super::*;

    const ID: &str = "ff44c7a161a2b64a2c2e342fa1364dd148b5958e53d378f0588846fc3e232c34";

    fn owner(path: &str, names: Option<&Names>) -> Owner {
        let mut host = Resource::new();
        host.set("host.id", "h");
        let known = Known::of(&parse_path(path));
        build(&Facts { known: &known, names, pod: None, published: None, executable: None, host: &host }, false)
    }

    #[test]
    fn owners_are_containers_units_or_the_host() {
        let container = owner(&format!("/system.slice/docker-{ID}.scope/inner.service"), None);
        assert_eq!((container.kind, container.key.as_ref()), (OwnerKind::Container, ID));
        assert_eq!(container.display_name.as_ref(), "docker ff44c7a161a2");
        assert_eq!(container.resource.text("host.id"), Some("h"));
        let unit = owner("/system.slice/ssh.service/child", None);
        assert_eq!((unit.kind, unit.key.as_ref()), (OwnerKind::Unit, "ssh.service"));
        assert_eq!(unit.resource.text("service.name"), Some("ssh.service"));
        let host = owner("/", None);
        assert_eq!((host.kind, host.display_name.as_ref()), (OwnerKind::Host, "host"));
        assert_eq!(host.resource.text("service.name"), Some("host-scheduler"));
    }

    #[test]
    fn names_become_attributes() {
        let names = Names {
            name: text("k8s_app_web-0"),
            image_name: text("shop/web"),
            image_tags: vec!["1.2".into()],
            restart_count: Some(3),
            labels: vec![("team".into(), "a".into())],
            pod: Some(PodNames { name: text("web-0"), namespace: text("shop"), container: text("app"), uid: None }),
            ..Names::default()
        };
        let owner = owner(&format!("/kubepods/pod3d3ce4b0-25d3-4a9f-9254-8ad7d341b7b1/{ID}"), Some(&names));
        assert_eq!(owner.display_name.as_ref(), "shop/web-0/app");
        let of = |key: &str| owner.resource.get(key).cloned();
        assert_eq!(of("k8s.container.restart_count"), Some(Value::Int(3)));
        assert_eq!(of("container.image.tags"), Some(Value::Texts(vec!["1.2".into()])));
        assert_eq!(of("container.label.team"), Some("a".into()));
        assert_eq!(of("k8s.pod.uid"), Some("3d3ce4b0-25d3-4a9f-9254-8ad7d341b7b1".into()));
        assert_eq!(of("service.instance.id"), Some("shop.web-0.app".into()));
    }
}
