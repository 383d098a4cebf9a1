//! Pure: the part of CRI's `runtime.v1` messages that names need, declared by hand so that no `protoc` is
//! needed where this is built. Unknown fields are passed over, as protobuf has it.

use std::collections::HashMap;

use prost::Message;

/// `VersionRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

/// `VersionResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(super) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(super) runtime_version: String,
}

/// `ContainerStatusRequest` and `PodSandboxStatusRequest`, which are alike.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

/// `ContainerStatusResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<ContainerStatus>,
}

/// `ContainerStatus`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "8")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(super) image_ref: String,
    #[prost(map = "string, string", tag = "12")]
    pub(super) labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "13")]
    pub(super) annotations: HashMap<String, String>,
}

/// `ContainerMetadata`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint32, tag = "2")]
    pub(super) attempt: u32,
}

/// `ImageSpec`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
    #[prost(string, tag = "18")]
    pub(super) user_specified_image: String,
}

/// `PodSandboxStatusResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<PodSandboxStatus>,
}

/// `PodSandboxStatus`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(map = "string, string", tag = "7")]
    pub(super) labels: HashMap<String, String>,
}

/// `PodSandboxMetadata`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
}

/// `ImageStatusRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
}

/// `ImageStatusResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<Image>,
}

/// `Image`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) repo_digests: Vec<String>,
}

/// `GetEventsRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetEventsRequest {}

/// `ContainerEventResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
    #[prost(message, optional, tag = "4")]
    pub(super) sandbox: Option<PodSandboxStatus>,
    #[prost(message, repeated, tag = "5")]
    pub(super) containers: Vec<ContainerStatus>,
}
