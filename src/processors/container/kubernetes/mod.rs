//! What Kubernetes knows of pods, fetched in the background, looked up without waiting.

mod access;
pub mod api_types;
mod client;
mod downward;
pub mod pods;
pub mod store;
mod watch;

use std::path::Path;
use std::sync::Arc;

pub use pods::PodFacts;
pub use store::PodStore;
pub use watch::PodWatch;

use super::settings::{KubernetesSettings, PodSource};
use crate::telemetry::Meter;

/// The store, and the task that fills it, if there is anything to ask.
///
/// `auto`: the downward API where the agent cannot see the host's processes and its pod is told, else the
/// kubelet and the API server in turns, where a cluster is in sight.
pub fn open(
    settings: &KubernetesSettings,
    node: Option<String>,
    labels: Arc<[String]>,
    sidecar: bool,
    failures: Meter,
) -> (PodStore, Option<PodWatch>) {
    let variable = |name: &str| std::env::var(name).ok();
    let own_pod = || downward::own_pod(variable, Path::new("/"), node.as_deref(), &labels);
    let only_own = |pod: Option<PodFacts>| {
        let store = PodStore::new(false);
        if let Some(pod) = pod {
            store.put(pod);
        }
        (store, None)
    };
    let in_cluster = variable("KUBERNETES_SERVICE_HOST").is_some();
    match settings.source {
        PodSource::None => return only_own(None),
        PodSource::Downward => {
            let pod = own_pod();
            if pod.is_none() {
                tracing::warn!(
                    "the downward API tells nothing: pass metadata.uid as K8S_POD_UID and metadata.name as K8S_POD_NAME"
                );
            }
            return only_own(pod);
        }
        PodSource::Auto => {
            if sidecar && let Some(pod) = own_pod() {
                return only_own(Some(pod));
            }
            if !in_cluster && settings.endpoint.is_empty() {
                return only_own(None);
            }
        }
        PodSource::Kubelet | PodSource::Api => {}
    }
    let store = PodStore::new(true);
    let watch = PodWatch { settings: settings.clone(), node, labels, store: store.clone(), failures };
    (store, Some(watch))
}
