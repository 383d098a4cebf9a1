//! CRI over gRPC: what containerd and CRI-O know of the containers of pods.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::catalog::{Catalog, CatalogError, Seen};
use super::cri_messages as cri;
use super::{Names, PodNames, allowed_labels, image, text, texts};
use crate::processors::container::grammar::Runtime;

/// containerd's usual sockets: its own, k3s', microk8s', k0s'.
pub(super) const CONTAINERD_SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/k0s/containerd.sock",
];
/// CRI-O's.
pub(super) const CRIO_SOCKETS: [&str; 2] = ["/run/crio/crio.sock", "/var/run/crio/crio.sock"];
/// Images whose tags and digests are kept.
const IMAGES_MAX: usize = 1000;
/// Bytes of one answer.
const ANSWER_MAX_BYTES: usize = 8 << 20;

/// One CRI runtime.
pub(super) struct CriApi {
    channel: Channel,
    runtime: Runtime,
    labels: Arc<[String]>,
    images: Mutex<HashMap<String, cri::Image>>,
}

impl CriApi {
    /// The runtime behind a socket; connects with the first call.
    pub(super) fn new(socket: &Path, runtime: Runtime, labels: Arc<[String]>) -> Self {
        let path: Arc<Path> = socket.into();
        let connect = service_fn(move |_: Uri| {
            let path = Arc::clone(&path);
            async move { UnixStream::connect(&path).await.map(TokioIo::new) }
        });
        // the name is only the authority that servers want to see
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        Self { channel, runtime, labels, images: Mutex::default() }
    }

    fn client(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_MAX_BYTES)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut client = self.client();
        client.ready().await.map_err(|why| Status::unavailable(super::docker::chain(&why)))?;
        let path = http::uri::PathAndQuery::from_static(path);
        let answer = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    async fn image(&self, reference: &str) -> Option<cri::Image> {
        let images = || self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = images().get(reference) {
            return Some(known.clone());
        }
        let spec = cri::ImageSpec { image: reference.to_owned(), ..Default::default() };
        let request = cri::ImageStatusRequest { image: Some(spec) };
        let answer: cri::ImageStatusResponse = self.call("/runtime.v1.ImageService/ImageStatus", request).await.ok()?;
        let found = answer.image?;
        let mut images = images();
        if images.len() >= IMAGES_MAX {
            images.clear();
        }
        images.insert(reference.to_owned(), found.clone());
        Some(found)
    }

    /// The pause container of a pod, which is no container to CRI.
    async fn sandbox(&self, id: &str) -> Result<Option<Names>, CatalogError> {
        let request = cri::StatusRequest { id: id.to_owned() };
        match self.call("/runtime.v1.RuntimeService/PodSandboxStatus", request).await {
            Ok(cri::PodSandboxStatusResponse { status: Some(status) }) if status.id == id => {
                Ok(Some(self.names_of_sandbox(&status)))
            }
            Ok(_) => Ok(None),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(failure(&status)),
        }
    }

    fn names_of_sandbox(&self, status: &cri::PodSandboxStatus) -> Names {
        let pod = status.metadata.as_ref().map(|about| PodNames {
            name: text(&about.name),
            namespace: text(&about.namespace),
            uid: text(&about.uid),
            container: None,
        });
        Names { runtime: Some(self.runtime), pod, ..Names::default() }
    }

    fn names_of(&self, status: &cri::ContainerStatus) -> Names {
        let label = |key: &str| status.labels.get(key).and_then(|value| text(value));
        let metadata = status.metadata.as_ref();
        let container = label("io.kubernetes.container.name").or_else(|| metadata.and_then(|about| text(&about.name)));
        let restarts = status.annotations.get("io.kubernetes.container.restartCount");
        let spec = status.image.as_ref();
        let told = spec.map(|spec| match spec.user_specified_image.as_str() {
            "" => spec.image.as_str(),
            wanted => wanted,
        });
        let (image_name, image_tags) = image(told.unwrap_or_default());
        let pairs = status.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let pod = PodNames {
            name: label("io.kubernetes.pod.name"),
            namespace: label("io.kubernetes.pod.namespace"),
            uid: label("io.kubernetes.pod.uid"),
            container: container.clone(),
        };
        Names {
            name: container,
            runtime: Some(self.runtime),
            image_name,
            image_tags,
            labels: allowed_labels(pairs, &self.labels),
            restart_count: restarts
                .and_then(|count| count.parse().ok())
                .or_else(|| metadata.map(|about| i64::from(about.attempt))),
            pod: pod.name.is_some().then_some(pod),
            ..Names::default()
        }
    }
}

#[async_trait]
impl Catalog for CriApi {
    async fn greet(&self) -> Result<String, CatalogError> {
        let request = cri::VersionRequest::default();
        let answer: Result<cri::VersionResponse, Status> =
            self.call("/runtime.v1.RuntimeService/Version", request).await;
        match answer {
            Ok(version) => Ok(format!("{} {}", version.runtime_name, version.runtime_version)),
            Err(status) if status.code() == Code::Unimplemented => {
                let text = "it does not serve CRI v1 (in containerd: the plugin io.containerd.grpc.v1.cri is disabled)";
                Err(CatalogError::Unreachable(text.into()))
            }
            Err(status) => Err(failure(&status)),
        }
    }

    async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError> {
        let request = cri::StatusRequest { id: id.to_owned() };
        let answer = self.call("/runtime.v1.RuntimeService/ContainerStatus", request).await;
        let status: cri::ContainerStatus = match answer {
            Ok(cri::ContainerStatusResponse { status: Some(status) }) if status.id == id => status,
            Ok(_) => return Err(CatalogError::Answer("it answered about another container".into())),
            Err(status) if status.code() == Code::NotFound => return self.sandbox(id).await,
            Err(status) => return Err(failure(&status)),
        };
        let mut names = self.names_of(&status);
        if let Some(found) = self.image(&status.image_ref).await {
            names.image_id = text(&found.id);
            names.image_repo_digests = texts(found.repo_digests.iter().map(String::as_str));
            let first = found.repo_tags.first().map(String::as_str).unwrap_or_default();
            if names.image_name.is_none() {
                names.image_name = image(first).0;
            }
            if names.image_tags.is_empty() {
                names.image_tags = image(first).1;
            }
        }
        Ok(Some(names))
    }

    async fn follow(&self, seen: &mpsc::Sender<Seen>) -> Result<(), CatalogError> {
        let mut client = self.client();
        client.ready().await.map_err(|why| CatalogError::Unreachable(super::docker::chain(&why)))?;
        let path = http::uri::PathAndQuery::from_static("/runtime.v1.RuntimeService/GetContainerEvents");
        let codec = ProstCodec::<cri::GetEventsRequest, cri::ContainerEventResponse>::default();
        let answer = client.server_streaming(Request::new(cri::GetEventsRequest {}), path, codec).await;
        let mut events = match answer {
            Ok(events) => events.into_inner(),
            // offered by few: lookups do
            Err(_) => return Err(CatalogError::NoEvents),
        };
        loop {
            let event = match events.message().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(status) if status.code() == Code::Unimplemented => return Err(CatalogError::NoEvents),
                Err(status) => return Err(failure(&status)),
            };
            let of_sandbox =
                event.sandbox.iter().map(|status| (status.id.as_str().into(), self.names_of_sandbox(status)));
            let of_containers =
                event.containers.iter().map(|status| (status.id.as_str().into(), self.names_of(status)));
            for one in of_sandbox.chain(of_containers).collect::<Vec<Seen>>() {
                if seen.send(one).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// A status as an error: what is about the connection, and what is about one question.
fn failure(status: &Status) -> CatalogError {
    let message: String = status.message().chars().take(200).collect();
    let text = format!("{:?}: {message}", status.code());
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Unimplemented => CatalogError::Unreachable(text),
        _ => CatalogError::Answer(text),
    }
}
