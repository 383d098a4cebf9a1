//! The task that keeps the store of pods: by the kubelet's list, or by the API server's list and watch.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use super::access::Access;
use super::api_types::{Pod, PodList};
use super::client::{ApiClient, ApiError};
use super::store::PodStore;
use crate::processors::container::settings::{KubernetesSettings, PodSource};
use crate::telemetry::Meter;

/// The kubelet's list is read this often, and when somebody asks for an unknown pod.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// But not more often than this.
const POLL_GAP: Duration = Duration::from_millis(500);
/// Pauses after a failure, doubled up to the last.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(30);
/// A watch ends by itself after this; it is then begun anew where it stood.
const WATCH_SECONDS: u64 = 300;
/// Pods of one page of the API's list.
const PAGE: usize = 500;

/// What the task needs.
pub struct PodWatch {
    pub(super) settings: KubernetesSettings,
    pub(super) node: Option<String>,
    pub(super) labels: Arc<[String]>,
    pub(super) store: PodStore,
    pub(super) failures: Meter,
}

/// One change of a watch.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: serde_json::Value,
}

impl PodWatch {
    /// Runs for ever: a source that is away is tried again, what is known stays.
    pub async fn run(self) {
        let mut pause = PAUSE_FIRST;
        // by source: in turns each says its own
        let mut told: [Option<String>; 2] = Default::default();
        let mut kubelet = matches!(self.settings.source, PodSource::Auto | PodSource::Kubelet);
        loop {
            let started = Instant::now();
            let ended = if kubelet { self.follow_kubelet().await } else { self.follow_api().await };
            self.failures.add(1);
            let why = match ended {
                Ok(()) => "the connection was closed".to_owned(),
                Err(ApiError::Forbidden(why)) => format!("{why}; {}", missing_rule(kubelet)),
                Err(other) => other.to_string(),
            };
            let [of_kubelet, of_api] = &mut told;
            let last = if kubelet { of_kubelet } else { of_api };
            if last.as_deref() != Some(&why) {
                let asked = if kubelet { "kubelet" } else { "api" };
                tracing::warn!(source = asked, error = %why, "names of pods cannot be had; what is known stays, it is tried again");
                *last = Some(why);
            }
            if self.settings.source == PodSource::Auto {
                // the other one may be reachable
                kubelet = !kubelet || Access::api(&self.settings, &variable).is_err();
            }
            if started.elapsed() > PAUSE_LAST {
                pause = PAUSE_FIRST;
                told = Default::default();
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    async fn follow_kubelet(&self) -> Result<(), ApiError> {
        let access = Access::kubelet(&self.settings, self.node.as_deref(), &variable).ok_or_else(|| {
            ApiError::Failed("no kubelet is known: set kubernetes::endpoint, or K8S_NODE_NAME or K8S_NODE_IP".into())
        })?;
        let client = ApiClient::new(access)?;
        let mut first = true;
        loop {
            let asked = Instant::now();
            let list = parse_list(&client.get("/pods").await?)?;
            self.store.replace(list.items.iter().filter_map(|pod| pod.facts(&self.labels)).collect());
            if std::mem::take(&mut first) {
                tracing::info!(
                    endpoint = client.base_url(),
                    pods = list.items.len(),
                    "names of pods are there, from the kubelet"
                );
            }
            sleep(POLL_GAP.saturating_sub(asked.elapsed())).await;
            // ended by the interval or by a question: either way it is time
            let _ = timeout(POLL_INTERVAL, self.store.wanted()).await;
        }
    }

    async fn follow_api(&self) -> Result<(), ApiError> {
        let access = Access::api(&self.settings, &variable).map_err(ApiError::Failed)?;
        let client = ApiClient::new(access)?;
        let node = self.node.as_deref().ok_or_else(|| {
            ApiError::Failed("the API server has the pods of all nodes: set kubernetes::node or K8S_NODE_NAME".into())
        })?;
        loop {
            let mut version = self.list(&client, node).await?;
            loop {
                match self.watch(&client, node, &version).await {
                    Ok(newer) => version = newer,
                    Err(ApiError::Gone) => break,
                    Err(why) => return Err(why),
                }
            }
        }
    }

    /// All pods of the node, page by page; gives the version to watch from.
    async fn list(&self, client: &ApiClient, node: &str) -> Result<String, ApiError> {
        let mut pods = Vec::new();
        let mut next = String::new();
        loop {
            let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&limit={PAGE}&continue={next}");
            let list = parse_list(&client.get(&path).await?)?;
            pods.extend(list.items.iter().filter_map(|pod| pod.facts(&self.labels)));
            next = list.metadata.continue_token;
            if next.is_empty() {
                tracing::info!(
                    endpoint = client.base_url(),
                    pods = pods.len(),
                    "names of pods are there, from the API server"
                );
                self.store.replace(pods);
                return Ok(list.metadata.resource_version);
            }
        }
    }

    /// Changes since a version; gives the version where the watch ended.
    async fn watch(&self, client: &ApiClient, node: &str, since: &str) -> Result<String, ApiError> {
        let path = format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&watch=true&allowWatchBookmarks=true\
             &timeoutSeconds={WATCH_SECONDS}&resourceVersion={since}"
        );
        let mut version = since.to_owned();
        let read = client.lines(&path, |line| {
            if line.is_empty() {
                return Ok(());
            }
            let event: Event =
                serde_json::from_slice(line).map_err(|why| ApiError::Failed(format!("not JSON: {why}")))?;
            if event.kind == "ERROR" {
                let gone = event.object.get("code").and_then(serde_json::Value::as_i64) == Some(410);
                let message = event.object.get("message").and_then(|text| text.as_str()).unwrap_or_default();
                return Err(if gone { ApiError::Gone } else { ApiError::Failed(message.to_owned()) });
            }
            // one object that cannot be read must not end the watch
            let Ok(pod) = serde_json::from_value::<Pod>(event.object) else { return Ok(()) };
            version.clone_from(&pod.metadata.resource_version);
            // a deleted pod is kept: its last records are still to come
            if matches!(event.kind.as_str(), "ADDED" | "MODIFIED")
                && let Some(facts) = pod.facts(&self.labels)
            {
                self.store.put(facts);
            }
            Ok(())
        });
        // a watch that is silent beyond its own end is a broken connection
        let patience = Duration::from_secs(WATCH_SECONDS + 30);
        match timeout(patience, read).await {
            Ok(result) => result.map(|()| version),
            Err(_) => Err(ApiError::Failed("the watch fell silent".into())),
        }
    }
}

fn parse_list(bytes: &[u8]) -> Result<PodList, ApiError> {
    serde_json::from_slice(bytes).map_err(|why| ApiError::Failed(format!("no list of pods: {why}")))
}

/// The rule that a role of the agent lacks.
fn missing_rule(kubelet: bool) -> &'static str {
    if kubelet {
        "its service account needs a ClusterRole with {apiGroups: [\"\"], resources: [nodes/proxy], verbs: [get]}"
    } else {
        "its service account needs a ClusterRole with {apiGroups: [\"\"], resources: [pods], verbs: [list, watch]}"
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
