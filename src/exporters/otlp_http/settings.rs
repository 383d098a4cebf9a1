//! The keys of `otlp_http`, as the Collector has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint;
use crate::config::{ByteSize, Checker, Opaque, Period, Section};
use crate::pipeline::Signal;
use crate::pipeline::client::Auth;
use crate::pipeline::client::headers::{self, Headers};
use crate::pipeline::client::tls::TlsSettings;
use crate::pipeline::delivery::{DEFAULT_MAX_REQUEST_BYTES, DeliverySettings, RetryOnFailure, SendingQueue};

/// Where to post, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpHttpSettings {
    /// Base URL, such as `http://localhost:4318`; `/v1/traces`, `/v1/metrics`, `/v1/logs` are added. Required, unless each signal has its own.
    pub endpoint: String,
    /// URL for traces, used as it is.
    pub traces_endpoint: String,
    /// URL for metrics, used as it is.
    pub metrics_endpoint: String,
    /// URL for logs, used as it is.
    pub logs_endpoint: String,
    /// `proto` or `json`.
    #[schemars(extend("examples" = ["proto", "json"]))]
    pub encoding: String,
    /// `gzip`, `zstd`, `zlib`, `deflate` or `none`.
    #[schemars(extend("examples" = ["gzip", "zstd", "zlib", "deflate", "none"]))]
    pub compression: String,
    /// How hard to compress.
    pub compression_params: CompressionParams,
    /// Sent with each request.
    pub headers: Headers,
    /// TLS of https endpoints.
    pub tls: TlsSettings,
    /// Which extension signs the requests.
    pub auth: Option<Auth>,
    /// Proxy for all requests; empty: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say.
    pub proxy_url: Opaque,
    /// Idle connections kept; 0 for no limit.
    pub max_idle_conns: usize,
    /// An idle connection is closed after this long; 0 for never.
    pub idle_conn_timeout: Period,
    /// A new connection for each request.
    pub disable_keep_alives: bool,
    /// On HTTP/2, a ping after this long without anything received; 0 for none.
    pub http2_read_idle_timeout: Period,
    /// On HTTP/2, the connection is closed when a ping has no answer for this long; 0: 15s.
    pub http2_ping_timeout: Period,
    /// Taken for the Collector's sake: buffers here grow with what is read, up to the largest answer.
    pub read_buffer_size: ByteSize,
    /// Taken for the Collector's sake: buffers here grow with what is sent.
    pub write_buffer_size: ByteSize,
    /// Bound of one attempt.
    pub timeout: Period,
    /// The queue before the exporter.
    pub sending_queue: SendingQueue,
    /// What happens after a failure that another attempt may mend.
    pub retry_on_failure: RetryOnFailure,
    /// Requests are split below this many bytes, as uncompressed protobuf; 0 for no limit.
    pub max_request_bytes: ByteSize,
}

impl Default for OtlpHttpSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            traces_endpoint: String::new(),
            metrics_endpoint: String::new(),
            logs_endpoint: String::new(),
            encoding: "proto".to_owned(),
            compression: "gzip".to_owned(),
            compression_params: CompressionParams::default(),
            headers: Headers::new(),
            tls: TlsSettings::default(),
            auth: None,
            proxy_url: Opaque::default(),
            max_idle_conns: 100,
            idle_conn_timeout: Period::secs(90),
            disable_keep_alives: false,
            http2_read_idle_timeout: Period::default(),
            http2_ping_timeout: Period::default(),
            read_buffer_size: ByteSize::default(),
            write_buffer_size: ByteSize::new(524_288),
            timeout: Period::secs(30),
            sending_queue: SendingQueue::default(),
            retry_on_failure: RetryOnFailure::default(),
            max_request_bytes: ByteSize::new(DEFAULT_MAX_REQUEST_BYTES),
        }
    }
}

/// How hard to compress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompressionParams {
    /// 1 to 9 (zstd: 22), 0 and -1 for our own choice: 3, with zstd its default.
    pub level: i32,
}

impl OtlpHttpSettings {
    /// The keys that the delivery layers take.
    pub fn delivery(&self) -> DeliverySettings {
        DeliverySettings {
            timeout: self.timeout,
            sending_queue: self.sending_queue.clone(),
            retry_on_failure: self.retry_on_failure.clone(),
            max_request_bytes: self.max_request_bytes.get(),
        }
    }

    fn validate_endpoints(&self, at: &mut Checker<'_>) {
        let own = [
            (&self.traces_endpoint, Signal::Traces),
            (&self.metrics_endpoint, Signal::Metrics),
            (&self.logs_endpoint, Signal::Logs),
        ];
        let mut told = Vec::new();
        let nothing_else = own.iter().all(|(url, _)| url.is_empty());
        for (url, signal) in own {
            // Without a base, a signal of its own is all there need be.
            if url.is_empty() && self.endpoint.is_empty() && !nothing_else {
                continue;
            }
            if let Err((key, message)) = endpoint::url(self, signal)
                && !told.contains(&key)
            {
                at.problem(key, message);
                told.push(key);
            }
        }
    }

    fn validate_compression(&self, at: &mut Checker<'_>) {
        let highest = match self.compression.as_str() {
            "gzip" | "zlib" | "deflate" => 9,
            "zstd" => 22,
            "none" | "" => return,
            "snappy" | "x-snappy-framed" | "lz4" => {
                let message = format!("`{}` is not supported; use gzip, zstd, zlib, deflate or none", self.compression);
                return at.problem("compression", message);
            }
            other => {
                return at
                    .problem("compression", format!("`{other}` is unknown; use gzip, zstd, zlib, deflate or none"));
            }
        };
        if !(-1..=highest).contains(&self.compression_params.level) {
            at.problem("compression_params::level", format!("must be between -1 and {highest}"));
        }
    }
}

impl Section for OtlpHttpSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        self.validate_endpoints(at);
        self.validate_compression(at);
        self.tls.validate(at);
        headers::validate(&self.headers, at);
        if !matches!(self.encoding.as_str(), "proto" | "json") {
            at.problem("encoding", format!("`{}` is unknown; use proto or json", self.encoding));
        }
        if self.auth.as_ref().is_some_and(|auth| auth.authenticator.is_empty()) {
            at.problem("auth::authenticator", "is required: the id of an authentication extension");
        }
        let proxy = self.proxy_url.reveal();
        if !proxy.is_empty() && reqwest::Proxy::all(proxy).is_err() {
            at.problem("proxy_url", "is no URL of a proxy, such as http://proxy:3128");
        }
        self.delivery().validate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Body;

    fn told(yaml: &str) -> String {
        let body = Body::from_yaml("exporters::otlp_http", yaml).unwrap();
        body.decode::<OtlpHttpSettings>().err().map(|problems| problems.to_string()).unwrap_or_default()
    }

    #[test]
    fn mistakes_are_told_at_their_keys() {
        assert!(told("{}").contains("exporters::otlp_http::endpoint: is required"));
        assert_eq!(told("{traces_endpoint: 'http://c/x'}"), "");
        assert!(told("{endpoint: 'http://c', metrics_endpoint: c}").contains("metrics_endpoint: has no scheme"));
        assert!(told("{endpoint: 'http://c', compression: snappy}").contains("not supported"));
        assert!(told("{endpoint: 'http://c', compression_params: {level: 10}}").contains("compression_params::level"));
        assert!(told("{endpoint: 'http://c', encoding: yaml}").contains("encoding"));
        let proxy = told("{endpoint: 'http://c', proxy_url: 'http://u:s3cret@:x'}");
        assert!(proxy.contains("proxy_url") && !proxy.contains("s3cret"), "{proxy}");
    }
}
