//! Pure: the keys of `otlp`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::{ByteSize, Checker, Section};
use crate::pipeline::listen::ServerTlsSettings;

/// Keys of `otlp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OtlpSettings {
    /// What is served; a protocol is served where its key is present, with an empty body by its defaults.
    pub(super) protocols: Protocols,
}

/// The protocols.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Protocols {
    /// OTLP over gRPC.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) grpc: Option<GrpcSettings>,
    /// OTLP over HTTP, as protobuf or JSON.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) http: Option<HttpSettings>,
}

/// A key that is there counts, even with nothing in it.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Some(Option::<T>::deserialize(deserializer)?.unwrap_or_default()))
}

/// Keys of `protocols::grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct GrpcSettings {
    /// Where to listen, host:port.
    pub(super) endpoint: String,
    /// Larger requests are refused, in MiB after decompression.
    pub(super) max_recv_msg_size_mib: usize,
    /// Requests under way on one connection; 0: no limit of our own.
    pub(super) max_concurrent_streams: u32,
    /// TLS; absent: plaintext.
    pub(super) tls: Option<ServerTlsSettings>,
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self { endpoint: "localhost:4317".into(), max_recv_msg_size_mib: 4, max_concurrent_streams: 0, tls: None }
    }
}

/// Keys of `protocols::http`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpSettings {
    /// Where to listen, host:port.
    pub(super) endpoint: String,
    /// The path for traces.
    pub(super) traces_url_path: String,
    /// The path for metrics.
    pub(super) metrics_url_path: String,
    /// The path for logs.
    pub(super) logs_url_path: String,
    /// Larger bodies are refused, in bytes before and after decompression.
    pub(super) max_request_body_size: ByteSize,
    /// TLS; absent: plaintext.
    pub(super) tls: Option<ServerTlsSettings>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            endpoint: "localhost:4318".into(),
            traces_url_path: "/v1/traces".into(),
            metrics_url_path: "/v1/metrics".into(),
            logs_url_path: "/v1/logs".into(),
            max_request_body_size: ByteSize::new(20 << 20),
            tls: None,
        }
    }
}

impl Section for OtlpSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let Protocols { grpc, http } = &self.protocols;
        if grpc.is_none() && http.is_none() {
            at.problem("protocols", "must name `grpc`, `http` or both; an empty key takes the defaults");
        }
        if grpc.as_ref().is_some_and(|grpc| grpc.max_recv_msg_size_mib == 0) {
            at.problem("protocols::grpc::max_recv_msg_size_mib", "must be at least 1");
        }
        let all = [
            ("protocols::grpc", grpc.as_ref().and_then(|grpc| grpc.tls.as_ref())),
            ("protocols::http", http.as_ref().and_then(|http| http.tls.as_ref())),
        ];
        for (prefix, tls) in all {
            if let Some(tls) = tls {
                tls.validate(prefix, at);
            }
        }
        let Some(http) = http else { return };
        if http.max_request_body_size.get() == 0 {
            at.problem("protocols::http::max_request_body_size", "must be at least 1");
        }
        let paths = [
            ("traces_url_path", &http.traces_url_path),
            ("metrics_url_path", &http.metrics_url_path),
            ("logs_url_path", &http.logs_url_path),
        ];
        for (key, path) in paths {
            if !path.starts_with('/') {
                at.problem(&format!("protocols::http::{key}"), "must begin with /");
            }
            if paths.iter().filter(|(_, other)| *other == path).count() > 1 {
                at.problem(&format!("protocols::http::{key}"), "two signals cannot have the same path");
            }
        }
    }
}
