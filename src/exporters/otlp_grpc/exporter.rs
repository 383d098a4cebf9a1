//! One attempt over gRPC.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes};
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::client::proxy::matcher::Matcher;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::StatusExt;

use super::compressed::{self, Told};
use super::connect::Connector;
use super::endpoint::{self, Endpoint};
use super::proxy::Proxy;
use super::settings::OtlpGrpcSettings;
use super::status::{classify, name};
use crate::pipeline::client::{
    MAX_RESPONSE_BYTES, deflate, failure, headers, is_this_host, payload, tls::Tls, user_agent,
};
use crate::pipeline::{Authenticator, Data, ExportError, Exported, Exporter, Host, Signal, StartError};

/// How long an attempt with `wait_for_ready` rests between two tries to connect.
const READY_PAUSE: Duration = Duration::from_millis(250);

pub(super) struct OtlpGrpc {
    settings: OtlpGrpcSettings,
    path: PathAndQuery,
    user_agent: String,
    target: String,
    ready: OnceLock<Ready>,
}

/// What `start` makes.
struct Ready {
    grpc: Grpc<Told>,
    metadata: MetadataMap,
    authenticator: Option<Arc<dyn Authenticator>>,
}

impl OtlpGrpc {
    pub(super) fn new(settings: OtlpGrpcSettings, signal: Signal, version: &str) -> Self {
        let path = PathAndQuery::from_static(match signal {
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Signal::Traces | Signal::Sched => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        });
        let target = endpoint::parse(&settings.endpoint, settings.tls.insecure)
            .map_or_else(|_| settings.endpoint.clone(), |endpoint| endpoint.to_string());
        let user_agent = if settings.user_agent.is_empty() { user_agent(version) } else { settings.user_agent.clone() };
        Self { settings, path, user_agent, target, ready: OnceLock::new() }
    }

    fn make_ready(&self, host: &Host) -> Result<Ready, String> {
        let endpoint = endpoint::parse(&self.settings.endpoint, self.settings.tls.insecure)?;
        let tls = endpoint.tls().then(|| Tls::load(&self.settings.tls, &["h2"])).transpose()?;
        let metadata = headers::prepare(&self.settings.headers)
            .map_err(|wrong| wrong.into_iter().map(|(name, why)| format!("header {name} {why}")).collect::<String>())?;
        let authenticator = self.settings.auth.as_ref().map(|auth| host.authenticator(&auth.authenticator));
        let authenticator = authenticator.transpose().map_err(|error| error.message)?;
        let is_open = matches!(&endpoint, Endpoint::Tcp { host, tls: false, .. } if !is_this_host(host));
        if authenticator.is_some() && is_open {
            tracing::warn!("otlp_grpc: the credentials of `auth` go to {endpoint} in plaintext; use https://");
        }
        let channel = compressed::told(self.channel(endpoint, tls)?, self.is_gzip());
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        if self.settings.compression == "zstd" {
            grpc = grpc.send_compressed(CompressionEncoding::Zstd);
        }
        grpc = grpc.accept_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Zstd);
        Ok(Ready { grpc, metadata: MetadataMap::from_headers(metadata), authenticator })
    }

    fn is_gzip(&self) -> bool {
        self.settings.compression == "gzip"
    }

    /// The message of a request. zstd is left to tonic, whose level of it is the method's own.
    fn message(&self, encoded: Bytes) -> Result<Bytes, ExportError> {
        if !self.is_gzip() {
            return Ok(encoded);
        }
        deflate::gzip(&encoded, deflate::OURS)
            .map_err(|error| ExportError::Permanent(format!("the request cannot be compressed: {error}")))
    }

    /// A channel that connects when it is first used, and again whenever it has to.
    fn channel(&self, endpoint: Endpoint, tls: Option<Tls>) -> Result<Channel, String> {
        let authority =
            if self.settings.authority.is_empty() { endpoint.authority() } else { self.settings.authority.clone() };
        let scheme = if endpoint.tls() { "https" } else { "http" };
        let uri =
            |scheme| format!("{scheme}://{authority}").parse::<Uri>().map_err(|error| format!("endpoint: {error}"));
        // Our connector does TLS itself, so the channel must not see the scheme; the requests show it.
        let mut channel = Channel::builder(uri("http")?)
            .origin(uri(scheme)?)
            .user_agent(self.user_agent.clone())
            .map_err(|error| format!("user_agent: {}", failure::chain(&error)))?;
        if let Some(keepalive) = &self.settings.keepalive {
            channel = channel
                .http2_keep_alive_interval(keepalive.time.0)
                .keep_alive_timeout(keepalive.timeout.0)
                .keep_alive_while_idle(keepalive.permit_without_stream);
        }
        if !self.settings.timeout.0.is_zero() {
            channel = channel.connect_timeout(self.settings.timeout.0);
        }
        let turn = (self.settings.balancer_name != "pick_first").then(AtomicUsize::default);
        let proxy = Proxy::of(&endpoint, &Matcher::from_env())?;
        let connector = Arc::new(Connector { endpoint, tls, proxy, turn });
        Ok(channel.connect_with_connector_lazy(tower::service_fn(move |_: Uri| connector.clone().connect())))
    }

    /// What became of a call, in full.
    fn failed(&self, status: &Status, items: usize, bytes: usize) -> ExportError {
        let what = format!("{items} items, {bytes} bytes");
        let no_answer = std::error::Error::source(status);
        let message = match no_answer {
            Some(cause) => format!("{} ({what})", failure::describe(&self.target, cause)),
            None => {
                let said = failure::excerpt(status.message(), 512);
                format!("{} answered {}: {said} ({what})", self.target, name(status.code()))
            }
        };
        // A connection that broke while it was used ends in UNKNOWN or INTERNAL here; there was no answer.
        if no_answer.is_some_and(lost_on_the_way) {
            return ExportError::Retry { message, after: None };
        }
        // Status 0 came, and with it more than is read of an answer: sending again would only double the data.
        if status.code() == tonic::Code::OutOfRange && status.message().contains("decoded message length") {
            return ExportError::Permanent(message);
        }
        let delay = status.get_details_retry_info().map(|info| info.retry_delay.unwrap_or_default());
        classify(status.code(), delay, message)
    }
}

fn not_connected(status: &Status) -> bool {
    std::error::Error::source(status).is_some_and(lost_on_the_way)
}

/// Whether the connection, not the server, gave the status.
fn lost_on_the_way(cause: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(cause), |error| error.source())
        .any(|error| error.is::<tonic::transport::Error>() || error.is::<std::io::Error>())
}

#[async_trait]
impl Exporter for OtlpGrpc {
    fn target(&self) -> &str {
        &self.target
    }

    async fn start(&self, host: &Host) -> Result<(), StartError> {
        let ready = self.make_ready(host).map_err(StartError::new)?;
        // Started twice, the first stays.
        let _twice = self.ready.set(ready);
        Ok(())
    }

    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        let Some(ready) = self.ready.get() else {
            return Err(ExportError::Permanent("the exporter has not been started".to_owned()));
        };
        let encoded = payload::encode(data);
        let bytes = encoded.len();
        let body = self.message(encoded)?;
        loop {
            let mut request = Request::new(body.clone());
            *request.metadata_mut() = ready.metadata.clone();
            if let Some(authenticator) = &ready.authenticator {
                let credentials = authenticator.headers();
                let credentials = credentials.map_err(|message| ExportError::Retry { message, after: None })?;
                let mut all = request.metadata().clone().into_headers();
                for (name, value) in credentials {
                    all.insert(name, value);
                }
                *request.metadata_mut() = MetadataMap::from_headers(all);
            }
            let mut grpc = ready.grpc.clone();
            let connected = grpc.ready().await.map_err(|error| Status::from_error(error.into()));
            let answer = match connected {
                Ok(()) => grpc.unary(request, self.path.clone(), Raw).await,
                Err(status) => Err(status),
            };
            match answer {
                Ok(response) => return Ok(payload::exported(response.get_ref())),
                Err(status) if self.settings.wait_for_ready && not_connected(&status) => {
                    tokio::time::sleep(READY_PAUSE).await;
                }
                Err(status) => return Err(self.failed(&status, data.items(), bytes)),
            }
        }
    }
}

/// Sends bytes that are encoded already: an attempt copies no batch. Reads the response of any signal.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = ExportTraceServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ExportTraceServiceResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        ExportTraceServiceResponse::decode(bytes)
            .map(Some)
            .map_err(|error| Status::internal(format!("the answer is no OTLP response: {error}")))
    }
}
