//! One attempt over HTTP.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName};
use prost::Message;
use reqwest::{Client, Response};
use rustls::ClientConfig;

use super::body::{self, Body};
use super::endpoint::{self, Target};
use super::settings::OtlpHttpSettings;
use super::status::{Verdict, classify};
use crate::pipeline::client::{MAX_RESPONSE_BYTES, failure, headers, payload, tls::Tls, user_agent};
use crate::pipeline::{Authenticator, Data, ExportError, Exported, Exporter, Host, StartError, json};

/// What is quoted of an answer, in characters.
const EXCERPT: usize = 512;

pub(super) struct OtlpHttp {
    settings: OtlpHttpSettings,
    target: Target,
    name: String,
    user_agent: String,
    ready: OnceLock<Ready>,
}

/// What `start` makes.
struct Ready {
    tls: Tls,
    headers: HeaderMap,
    authenticator: Option<Arc<dyn Authenticator>>,
    /// The client, and the TLS configuration it was made with.
    client: Mutex<(Arc<ClientConfig>, Client)>,
}

/// An answer, its body read to the limit.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Why the body is not whole.
    cut: Option<String>,
}

impl OtlpHttp {
    pub(super) fn new(settings: OtlpHttpSettings, target: Target, version: &str) -> Self {
        Self { name: target.name(), user_agent: user_agent(version), settings, target, ready: OnceLock::new() }
    }

    fn make_ready(&self, host: &Host) -> Result<Ready, String> {
        // Without TLS no authorities are needed, and a system may have none.
        let plain = crate::pipeline::client::tls::TlsSettings { insecure_skip_verify: true, ..Default::default() };
        let tls = if self.target.tls() { &self.settings.tls } else { &plain };
        let tls = Tls::load(tls, &["h2", "http/1.1"])?;
        let mut headers = headers::prepare(&self.settings.headers)
            .map_err(|wrong| wrong.into_iter().map(|(name, why)| format!("header {name} {why}")).collect::<String>())?;
        if !headers.contains_key(http::header::USER_AGENT) {
            headers.insert(http::header::USER_AGENT, self.user_agent.parse().map_err(|_| "no legal User-Agent")?);
        }
        let authenticator = self.settings.auth.as_ref().map(|auth| host.authenticator(&auth.authenticator));
        let authenticator = authenticator.transpose().map_err(|error| error.message)?;
        if authenticator.is_some() && !self.target.tls() && !self.target.is_here() {
            tracing::warn!("otlp_http: the credentials of `auth` go to {} in plaintext; use https://", self.name);
        }
        let config = tls.current();
        let client = self.client(&config)?;
        Ok(Ready { tls, headers, authenticator, client: Mutex::new((config, client)) })
    }

    fn client(&self, tls: &Arc<ClientConfig>) -> Result<Client, String> {
        let settings = &self.settings;
        let positive = |period: crate::config::Period| Some(period.0).filter(|duration| !duration.is_zero());
        let idle = if settings.disable_keep_alives {
            0
        } else if settings.max_idle_conns == 0 {
            usize::MAX
        } else {
            settings.max_idle_conns
        };
        // A redirected POST would become a GET, or leave with its headers for another host.
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(ClientConfig::clone(tls))
            .pool_max_idle_per_host(idle)
            .pool_idle_timeout(positive(settings.idle_conn_timeout))
            .http2_keep_alive_interval(positive(settings.http2_read_idle_timeout))
            .tcp_nodelay(true);
        if let Some(limit) = positive(settings.http2_ping_timeout) {
            builder = builder.http2_keep_alive_timeout(limit);
        }
        if let Some(limit) = positive(settings.timeout) {
            builder = builder.connect_timeout(limit);
        }
        if let Some(path) = &self.target.socket {
            builder = builder.unix_socket(path.as_str()).no_proxy();
        } else if !settings.proxy_url.reveal().is_empty() {
            let proxy = reqwest::Proxy::all(settings.proxy_url.reveal());
            builder = builder.proxy(proxy.map_err(|_| "proxy_url is no URL of a proxy")?);
        } else if self.target.is_here() {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| failure::chain(&error))
    }

    /// The client for this attempt, made anew after the TLS files changed.
    fn current(&self, ready: &Ready) -> Result<Client, String> {
        let config = ready.tls.current();
        let mut client = ready.client.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&config, &client.0) {
            *client = (config.clone(), self.client(&config)?);
        }
        Ok(client.1.clone())
    }

    async fn post(&self, ready: &Ready, body: &Body) -> Result<Answer, String> {
        let mut headers = ready.headers.clone();
        if let Some(authenticator) = &ready.authenticator {
            for (name, value) in authenticator.headers()? {
                headers.insert(name, value);
            }
        }
        let mut request = self.current(ready)?.post(&self.target.url).headers(headers);
        request = request.header(CONTENT_TYPE, body.content_type);
        if let Some(encoding) = body.content_encoding {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        let sent = request.body(body.bytes.clone()).send().await;
        let response = sent.map_err(|error| failure::describe(&self.name, &error.without_url()))?;
        Ok(read(response).await)
    }

    fn judge(&self, answer: &Answer, what: &str) -> Result<Exported, ExportError> {
        let retry_after = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let verdict = classify(answer.status, retry_after, SystemTime::now());
        if verdict == Verdict::Done {
            return Ok(accepted(answer));
        }
        let said = answer.said();
        let message = format!("{} answered {}{said} ({what})", self.name, answer.status);
        Err(match verdict {
            Verdict::Retry(after) => ExportError::Retry { message, after },
            Verdict::TooLarge => ExportError::TooLarge(message),
            Verdict::Permanent | Verdict::Done => ExportError::Permanent(message),
        })
    }
}

/// Reads a body to its end, its limit, or its failure.
async fn read(mut response: Response) -> Answer {
    let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
    let mut body = Vec::new();
    let cut = loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_RESPONSE_BYTES => body.extend_from_slice(&chunk),
            Ok(Some(_)) => break Some(format!("the answer is longer than {MAX_RESPONSE_BYTES} bytes")),
            Ok(None) => break None,
            Err(error) => break Some(format!("the answer broke off: {}", failure::chain(&error.without_url()))),
        }
    };
    Answer { status, headers, body, cut }
}

/// What an answer that means success says beside that.
fn accepted(answer: &Answer) -> Exported {
    let warn = |message: String| Exported { rejected_items: 0, message: Some(message) };
    if let Some(cut) = &answer.cut {
        return warn(cut.clone());
    }
    match answer.media_type() {
        _ if answer.body.is_empty() => Exported::default(),
        "application/json" => json::decode_response(&answer.body)
            .unwrap_or_else(|error| warn(format!("the answer is no OTLP response: {error}"))),
        "application/x-protobuf" => payload::decode_response(&answer.body)
            .unwrap_or_else(|error| warn(format!("the answer is no OTLP response: {error}"))),
        other => warn(format!("answered with `{other}`, not OTLP; is this an OTLP endpoint?")),
    }
}

impl Answer {
    fn header(&self, name: &HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The content type without its parameters.
    fn media_type(&self) -> &str {
        self.header(&CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
    }

    /// What a refusal says, for a log line.
    fn said(&self) -> String {
        let text = match self.media_type() {
            "application/x-protobuf" => {
                tonic_types::Status::decode(self.body.as_slice()).map(|status| status.message).unwrap_or_default()
            }
            "application/json" => {
                let status: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
                let message = status.get("message").and_then(serde_json::Value::as_str).map(str::to_owned);
                message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned())
            }
            _ => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let place = match self.header(&LOCATION) {
            "" => String::new(),
            place => format!(", it is moved to {}; put that into the config", failure::excerpt(place, EXCERPT)),
        };
        let text = failure::excerpt(&text, EXCERPT);
        if text.is_empty() { place } else { format!(": {text}{place}") }
    }
}

#[async_trait]
impl Exporter for OtlpHttp {
    fn target(&self) -> &str {
        &self.name
    }

    async fn start(&self, host: &Host) -> Result<(), StartError> {
        if let Some(warning) = endpoint::warning(&self.settings) {
            tracing::warn!("otlp_http: {warning}");
        }
        let ready = self.make_ready(host).map_err(StartError::new)?;
        // Started twice, the first stays.
        let _twice = self.ready.set(ready);
        Ok(())
    }

    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        let Some(ready) = self.ready.get() else {
            return Err(ExportError::Permanent("the exporter has not been started".to_owned()));
        };
        let body = body::make(data, &self.settings)
            .map_err(|error| ExportError::Permanent(format!("the request cannot be compressed: {error}")))?;
        let what = format!("{} items, {} bytes", data.items(), body.encoded_bytes);
        match self.post(ready, &body).await {
            Ok(answer) => self.judge(&answer, &what),
            Err(message) => Err(ExportError::Retry { message: format!("{message} ({what})"), after: None }),
        }
    }
}
