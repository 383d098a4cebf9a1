//! HTTP with a kubelet or an API server: bounded in time and size, errors that name the remedy.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Client, Response, StatusCode};

use super::access::{Access, Token};

/// Longest wait for one whole answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Bytes of one list of pods.
const LIST_MAX_BYTES: usize = 64 << 20;
/// Bytes of one event of a watch.
const EVENT_MAX_BYTES: usize = 4 << 20;
/// Characters of an answer's text that are shown.
const SHOWN_CHARS: usize = 200;

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiError {
    /// The server refuses: the token, or a rule that is missing.
    #[error("{0}")]
    Forbidden(String),
    /// A watch is too old: the list must be read anew.
    #[error("the watch is too old")]
    Gone,
    /// Everything else.
    #[error("{0}")]
    Failed(String),
}

/// A client of one server.
pub(super) struct ApiClient {
    access: Access,
    client: Client,
}

impl ApiClient {
    /// A client; reads the certificates.
    pub(super) fn new(access: Access) -> Result<Self, ApiError> {
        let tls = access.tls.load(&["http/1.1"]).map_err(ApiError::Failed)?;
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WAIT)
            .tls_backend_preconfigured((*tls).clone())
            .build();
        let client = client.map_err(|why| ApiError::Failed(chain(&why)))?;
        Ok(Self { access, client })
    }

    /// Where it is.
    pub(super) fn base_url(&self) -> &str {
        &self.access.base_url
    }

    /// One whole answer.
    pub(super) async fn get(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        let whole = async {
            let response = self.send(path).await?;
            let mut bytes = Vec::new();
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                bytes.extend_from_slice(&chunk.map_err(|why| ApiError::Failed(chain(&why)))?);
                if bytes.len() > LIST_MAX_BYTES {
                    return Err(ApiError::Failed(format!("the answer is longer than {} MiB", LIST_MAX_BYTES >> 20)));
                }
            }
            Ok(bytes)
        };
        let late = || ApiError::Failed(format!("no answer within {} s", ANSWER_WAIT.as_secs()));
        tokio::time::timeout(ANSWER_WAIT, whole).await.unwrap_or_else(|_| Err(late()))
    }

    /// Lines of an answer that goes on; `each` is given one at a time and may end it by an error.
    pub(super) async fn lines(
        &self,
        path: &str,
        mut each: impl FnMut(&[u8]) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let response = self.send(path).await?;
        let mut chunks = response.bytes_stream();
        let mut held = Vec::new();
        while let Some(chunk) = chunks.next().await {
            held.extend_from_slice(&chunk.map_err(|why| ApiError::Failed(chain(&why)))?);
            while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = held.drain(..=end).collect();
                each(line.trim_ascii())?;
            }
            if held.len() > EVENT_MAX_BYTES {
                return Err(ApiError::Failed(format!("an event is longer than {} MiB", EVENT_MAX_BYTES >> 20)));
            }
        }
        Ok(())
    }

    async fn send(&self, path: &str) -> Result<Response, ApiError> {
        let mut request = self.client.get(format!("{}{path}", self.access.base_url));
        match &self.access.token {
            Token::Absent => {}
            Token::Text(token) => request = request.bearer_auth(token.reveal()),
            Token::File(file) => {
                let token = tokio::fs::read_to_string(file).await;
                let token = token.map_err(|why| {
                    ApiError::Failed(format!("cannot read the token {}: {why}; see kubernetes::auth", file.display()))
                })?;
                request = request.bearer_auth(token.trim());
            }
        }
        let sent = tokio::time::timeout(ANSWER_WAIT, request.send()).await;
        let sent = sent.map_err(|_| ApiError::Failed(format!("no answer within {} s", ANSWER_WAIT.as_secs())))?;
        let response = sent.map_err(|why| ApiError::Failed(with_remedy(chain(&why))))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::GONE => Err(ApiError::Gone),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(ApiError::Forbidden(format!("{status}: {}", shown(response).await)))
            }
            status => Err(ApiError::Failed(format!("{status}: {}", shown(response).await))),
        }
    }
}

/// The beginning of an answer's text, in one line.
async fn shown(mut response: Response) -> String {
    let first = tokio::time::timeout(Duration::from_secs(1), response.chunk()).await;
    let bytes = first.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let message = serde_json::from_str::<serde_json::Value>(&text).ok();
    let message = message.as_ref().and_then(|status| status.get("message")?.as_str()).unwrap_or(&text);
    message.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Certificates that nobody signed are the usual case of a kubelet.
fn with_remedy(text: String) -> String {
    if text.contains("UnknownIssuer") || text.contains("invalid peer certificate") {
        format!(
            "{text}; kubelets often serve a self-signed certificate: set kubernetes::ca_file or kubernetes::insecure_skip_verify"
        )
    } else {
        text
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
