//! The keys of `otlp_grpc`, as the Collector has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint;
use crate::config::{ByteSize, Checker, Period, Section};
use crate::pipeline::client::Auth;
use crate::pipeline::client::headers::{self, Headers};
use crate::pipeline::client::tls::TlsSettings;
use crate::pipeline::delivery::{DEFAULT_MAX_REQUEST_BYTES, DeliverySettings, RetryOnFailure, SendingQueue};

/// Where to send, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpGrpcSettings {
    /// `host:port`, or with `http://` for plaintext, `https://` for TLS, or `unix:///path`. Required.
    pub endpoint: String,
    /// TLS; on, unless `insecure` or `http://` say otherwise.
    pub tls: TlsSettings,
    /// Sent with each request; names become lower case.
    pub headers: Headers,
    /// `gzip`, `zstd` or `none`.
    #[schemars(extend("examples" = ["gzip", "zstd", "none"]))]
    pub compression: String,
    /// Pings on the connection; absent: none.
    pub keepalive: Option<Keepalive>,
    /// Which extension signs the requests.
    pub auth: Option<Auth>,
    /// The `:authority` to send, where it is not the endpoint.
    pub authority: String,
    /// Overrides the `User-Agent`.
    pub user_agent: String,
    /// `round_robin` or `pick_first`: where each new connection begins among a name's addresses.
    #[schemars(extend("examples" = ["round_robin", "pick_first"]))]
    pub balancer_name: String,
    /// While no connection can be made, an attempt waits up to `timeout` instead of failing at once.
    pub wait_for_ready: bool,
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
    /// Requests are split below this many bytes, uncompressed; 0 for no limit.
    pub max_request_bytes: ByteSize,
}

impl Default for OtlpGrpcSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            tls: TlsSettings::default(),
            headers: Headers::new(),
            compression: "gzip".to_owned(),
            keepalive: None,
            auth: None,
            authority: String::new(),
            user_agent: String::new(),
            balancer_name: "round_robin".to_owned(),
            wait_for_ready: false,
            read_buffer_size: ByteSize::default(),
            write_buffer_size: ByteSize::new(524_288),
            timeout: Period::secs(5),
            sending_queue: SendingQueue::default(),
            retry_on_failure: RetryOnFailure::default(),
            max_request_bytes: ByteSize::new(DEFAULT_MAX_REQUEST_BYTES),
        }
    }
}

/// HTTP/2 pings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keepalive {
    /// A ping after this long without anything received.
    pub time: Period,
    /// The connection is closed when a ping has no answer for this long.
    pub timeout: Period,
    /// Ping also while no request is under way.
    pub permit_without_stream: bool,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { time: Period::secs(10), timeout: Period::secs(10), permit_without_stream: false }
    }
}

impl OtlpGrpcSettings {
    /// The keys that the delivery layers take.
    pub fn delivery(&self) -> DeliverySettings {
        DeliverySettings {
            timeout: self.timeout,
            sending_queue: self.sending_queue.clone(),
            retry_on_failure: self.retry_on_failure.clone(),
            max_request_bytes: self.max_request_bytes.get(),
        }
    }
}

impl Section for OtlpGrpcSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if let Err(message) = endpoint::parse(&self.endpoint, self.tls.insecure) {
            at.problem("endpoint", message);
        }
        self.tls.validate(at);
        headers::validate(&self.headers, at);
        match self.compression.as_str() {
            "gzip" | "zstd" | "none" | "" => {}
            "snappy" => at.problem("compression", "`snappy` is not supported; use gzip, zstd or none"),
            other => at.problem("compression", format!("`{other}` is unknown; use gzip, zstd or none")),
        }
        if !matches!(self.balancer_name.as_str(), "round_robin" | "pick_first" | "") {
            at.problem("balancer_name", "is unknown; use round_robin or pick_first");
        }
        if self.auth.as_ref().is_some_and(|auth| auth.authenticator.is_empty()) {
            at.problem("auth::authenticator", "is required: the id of an authentication extension");
        }
        if http::HeaderValue::from_str(&self.user_agent).is_err() {
            at.problem("user_agent", "holds a character that no header can hold");
        }
        if !self.authority.is_empty() && self.authority.parse::<http::uri::Authority>().is_err() {
            at.problem("authority", "is no host or host:port");
        }
        if self.keepalive.as_ref().is_some_and(|keepalive| keepalive.time == Period::default()) {
            at.problem("keepalive::time", "must be longer than 0, such as 10s");
        }
        self.delivery().validate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Body;

    #[test]
    fn every_mistake_is_told_and_no_secret() {
        let yaml = "{endpoint: collector, compression: snappy, headers: {authorization: \"s3cr\\n3t\"}, \
                    tls: {cert_file: a, min_version: '1.0'}, auth: {}, timeout: 1s}";
        let body = Body::from_yaml("exporters::otlp", yaml).unwrap();
        let told = body.decode::<OtlpGrpcSettings>().unwrap_err().to_string();
        for key in ["endpoint", "compression", "headers::authorization", "tls::cert_file", "tls::min_version", "auth"] {
            assert!(told.contains(&format!("exporters::otlp::{key}")), "{key} is missing in:\n{told}");
        }
        assert!(!told.contains("s3cr"));
    }
}
