//! Pure: `service.*` of something that did not tell it to us, by the precedence of otel.md 3.3.

use std::sync::Arc;

use super::kubernetes::pods::PodFacts;
use super::names::Names;
use crate::model::Resource;

/// The metrics' Resource of what is in no container and no unit.
pub(super) const HOST_SERVICE: &str = "host-scheduler";

/// A pod's own word on its services.
const SERVICE_ANNOTATION: &str = "resource.opentelemetry.io/service.name";
/// Labels that name a service, where the user allows them.
const SERVICE_LABELS: [&str; 2] = ["app.kubernetes.io/instance", "app.kubernetes.io/name"];
/// Docker compose's label, where the user allows it.
const COMPOSE_LABEL: &str = "com.docker.compose.service";

/// Everything that can tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hints<'a> {
    /// What the process published itself: process context over environment.
    pub(super) published: Option<&'a Resource>,
    /// What Kubernetes says of its pod.
    pub(super) pod: Option<&'a PodFacts>,
    /// What the runtime says of its container.
    pub(super) names: Option<&'a Names>,
    /// The name in the cgroup's path (LXC, nspawn).
    pub(super) machine: Option<&'a str>,
    /// The systemd unit, outside containers.
    pub(super) unit: Option<&'a str>,
    /// The executable's name.
    pub(super) executable: Option<&'a str>,
}

/// Sets `service.name`, and `.namespace` and `.instance.id` where they are known; `k8s.*` is there already.
pub(super) fn describe(resource: &mut Resource, hints: &Hints<'_>) {
    resource.set("service.name", name(hints));
    for key in ["service.namespace", "service.version", "service.instance.id"] {
        let published = hints.published.and_then(|published| published.text(key)).map(Arc::from);
        let annotated = || hints.pod?.annotation(&format!("resource.opentelemetry.io/{key}"));
        if let Some(value) = published.or_else(annotated) {
            resource.set(key, value);
        }
    }
    let Some(namespace) = resource.text("k8s.namespace.name").map(str::to_owned) else { return };
    if let (Some(pod), Some(container)) = (resource.text("k8s.pod.name"), resource.text("k8s.container.name")) {
        let id = format!("{namespace}.{pod}.{container}");
        resource.set_if_absent("service.instance.id", id);
    }
    resource.set_if_absent("service.namespace", namespace);
}

/// `service.name`; never the thread's name.
fn name(hints: &Hints<'_>) -> Arc<str> {
    let published = hints.published.and_then(|published| published.text("service.name"));
    published
        .map(Arc::from)
        .or_else(|| of_pod(hints))
        .or_else(|| of_container(hints.names?))
        .or_else(|| hints.machine.map(Arc::from))
        .or_else(|| hints.unit.map(Arc::from))
        .unwrap_or_else(|| match hints.executable {
            Some(executable) if !executable.is_empty() => format!("unknown_service:{executable}").into(),
            _ => "unknown_service".into(),
        })
}

fn of_pod(hints: &Hints<'_>) -> Option<Arc<str>> {
    let names = hints.names.and_then(|names| names.pod.as_ref());
    if let Some(pod) = hints.pod {
        let told = pod.annotation(SERVICE_ANNOTATION).or_else(|| SERVICE_LABELS.iter().find_map(|key| pod.label(key)));
        if let Some(told) = told.or_else(|| pod.workload.as_ref().map(|workload| Arc::clone(&workload.name))) {
            return Some(told);
        }
        return Some(Arc::clone(&pod.name));
    }
    let names = names?;
    let labels = hints.names.map(|names| names.labels.as_slice()).unwrap_or_default();
    let label = SERVICE_LABELS
        .iter()
        .find_map(|wanted| labels.iter().find(|(key, _)| key.as_ref() == *wanted).map(|(_, value)| Arc::clone(value)));
    label.or_else(|| names.name.clone()).or_else(|| names.container.clone())
}

fn of_container(names: &Names) -> Option<Arc<str>> {
    let compose = names.labels.iter().find(|(key, _)| key.as_ref() == COMPOSE_LABEL);
    compose.map(|(_, value)| Arc::clone(value)).or_else(|| names.name.clone()).or_else(|| {
        // an image without a container's name: its last word
        names.image_name.as_deref().and_then(|image| image.rsplit('/').next()).map(Arc::from)
    })
}

#[cfg(test)]
mod tests {
    use super::super::kubernetes::pods::Workload;
    use super::super::names::{PodNames, text};
    use super::*;

    #[track_caller]
    fn check(hints: &Hints<'_>, expected: &str) -> Resource {
        let mut resource = Resource::new();
        describe(&mut resource, hints);
        assert_eq!(resource.text("service.name"), Some(expected));
        resource
    }

    #[test]
    fn each_source_gives_way_to_a_better_one() {
        let mut hints = Hints::default();
        check(&hints, "unknown_service");
        hints.executable = Some("java");
        check(&hints, "unknown_service:java");
        hints.unit = Some("ssh.service");
        check(&hints, "ssh.service");
        let mut names = Names { name: text("web-1"), ..Names::default() };
        check(&Hints { names: Some(&names), ..hints }, "web-1");
        names.labels = vec![(COMPOSE_LABEL.into(), "web".into())];
        check(&Hints { names: Some(&names), ..hints }, "web");
        names.pod =
            Some(PodNames { name: text("web-5d9c"), namespace: text("shop"), container: text("app"), uid: None });
        check(&Hints { names: Some(&names), ..hints }, "web-5d9c");
        let mut pod = PodFacts { name: "web-5d9c".into(), namespace: "shop".into(), ..PodFacts::default() };
        pod.workload = Some(Workload { kind: "Deployment", name: "web".into(), uid: None });
        check(&Hints { names: Some(&names), pod: Some(&pod), ..hints }, "web");
        pod.labels = vec![("app.kubernetes.io/name".into(), "store".into())];
        check(&Hints { names: Some(&names), pod: Some(&pod), ..hints }, "store");
        pod.annotations = vec![(SERVICE_ANNOTATION.into(), "front".into())];
        check(&Hints { names: Some(&names), pod: Some(&pod), ..hints }, "front");
        let mut published = Resource::new();
        published.set("service.name", "own");
        published.set("service.instance.id", "7");
        let own = check(&Hints { published: Some(&published), names: Some(&names), pod: Some(&pod), ..hints }, "own");
        assert_eq!(own.text("service.instance.id"), Some("7"));
    }

    #[test]
    fn the_instance_is_the_container_of_the_pod() {
        let mut resource = Resource::new();
        resource.set("k8s.namespace.name", "shop");
        resource.set("k8s.pod.name", "web-5d9c");
        resource.set("k8s.container.name", "app");
        describe(&mut resource, &Hints::default());
        assert_eq!(resource.text("service.namespace"), Some("shop"));
        assert_eq!(resource.text("service.instance.id"), Some("shop.web-5d9c.app"));
    }
}
