//! `health_check`: an HTTP page for liveness and readiness probes.
//!
//! 200 when every component runs and none is degraded, 503 while starting, stopping or degraded, with the
//! reasons. It refuses to know the components: they report to the telemetry handle, which it reads.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::config::{Body, Checker, Section};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Extension, ExtensionFactory, Settings, StartError, listen};
use crate::telemetry::{Health, Phase};

/// `health_check`.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    name: "health_check",
    aliases: &[],
    about: "An HTTP page for liveness and readiness probes",
    stability: "beta",
    settings: Settings::of::<HealthCheckSettings>(),
    build,
};

/// Keys of `health_check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HealthCheckSettings {
    /// Where to listen, host:port.
    pub endpoint: String,
    /// The path that is answered; others are not found.
    pub path: String,
    /// Fixed answers instead of the JSON document.
    pub response_body: Option<ResponseBody>,
}

/// Bodies of the two answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseBody {
    /// With 200.
    pub healthy: String,
    /// With 503.
    pub unhealthy: String,
}

impl Default for HealthCheckSettings {
    fn default() -> Self {
        Self { endpoint: "localhost:13133".into(), path: "/".into(), response_body: None }
    }
}

impl Section for HealthCheckSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if !self.path.starts_with('/') {
            at.problem("path", "must begin with /");
        }
        if self.endpoint.is_empty() {
            at.problem("endpoint", "must not be empty; write host:port, such as localhost:13133");
        }
    }
}

fn build(body: &Body, context: &BuildContext) -> Built<dyn Extension> {
    Ok(Box::new(HealthCheck {
        key: format!("{}::endpoint", body.path),
        settings: body.decode()?,
        health: context.telemetry.health().clone(),
        server: Mutex::new(None),
    }))
}

struct HealthCheck {
    key: String,
    settings: HealthCheckSettings,
    health: Health,
    server: Mutex<Option<JoinHandle<()>>>,
}

struct Page {
    health: Health,
    bodies: Option<ResponseBody>,
    since: (Instant, String),
}

#[async_trait]
impl Extension for HealthCheck {
    async fn start(&self) -> Result<(), StartError> {
        let listener = listen(&self.settings.endpoint, &self.key).await?;
        let now = jiff::Timestamp::try_from(SystemTime::now()).map_or_else(|_| String::new(), |now| now.to_string());
        let page = Arc::new(Page {
            health: self.health.clone(),
            bodies: self.settings.response_body.clone(),
            since: (Instant::now(), now),
        });
        let router = Router::new().route(&self.settings.path, get(answer)).with_state(page);
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the health page is no longer served");
            }
        });
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }

    async fn shutdown(&self) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.abort();
            // Aborted is what it should be; the port is free after this.
            let _aborted = server.await;
        }
    }
}

async fn answer(State(page): State<Arc<Page>>) -> impl IntoResponse {
    let well = page.health.is_well();
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let Page { bodies, since, .. } = page.as_ref();
    let (kind, body) = match bodies {
        Some(bodies) => ("text/plain", if well { bodies.healthy.clone() } else { bodies.unhealthy.clone() }),
        None => ("application/json", document(&page.health, since)),
    };
    (status, [(header::CONTENT_TYPE, kind)], body)
}

/// The Collector's document, with what is degraded beside it.
fn document(health: &Health, (since, since_text): &(Instant, String)) -> String {
    let status = match (health.phase(), health.is_well()) {
        (_, true) => "Server available",
        (Phase::Starting, _) => "Server not available: starting",
        (Phase::Stopping, _) => "Server not available: stopping",
        (Phase::Ready, _) => "Server not available: degraded",
    };
    let mut uptime = String::new();
    // Writing to a String cannot fail.
    let _ = write!(uptime, "{:?}", since.elapsed());
    let mut document = serde_json::json!({"status": status, "upSince": since_text, "uptime": uptime});
    let degraded = health.degraded();
    if !degraded.is_empty() {
        document["degraded"] = degraded.into_iter().collect::<std::collections::BTreeMap<_, _>>().into_iter().collect();
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::telemetry::Telemetry;

    async fn get_page(address: &str, path: &str) -> String {
        let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn free_port() -> u16 {
        listen("localhost:0", "").await.unwrap().local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn follows_the_agents_condition() {
        let telemetry = Telemetry::default();
        let address = format!("127.0.0.1:{}", free_port().await);
        let yaml = format!("{{endpoint: '{address}', path: /ready}}");
        let body = Body::from_yaml("extensions::health_check", &yaml).unwrap();
        let context = BuildContext::new("health_check".into(), telemetry.clone(), "0");
        let extension = build(&body, &context).unwrap();
        extension.shutdown().await;
        extension.start().await.unwrap();
        assert!(get_page(&address, "/ready").await.starts_with("HTTP/1.1 503"));
        telemetry.health().enter(Phase::Ready);
        let well = get_page(&address, "/ready").await;
        assert!(well.starts_with("HTTP/1.1 200") && well.contains("Server available"), "{well}");
        telemetry.health().degrade("sched", "no BPF here");
        let degraded = get_page(&address, "/ready").await;
        assert!(degraded.starts_with("HTTP/1.1 503") && degraded.contains("no BPF here"), "{degraded}");
        assert!(get_page(&address, "/").await.starts_with("HTTP/1.1 404"));
        let error = build(&body, &context).unwrap().start().await.unwrap_err();
        assert!(error.message.contains("extensions::health_check::endpoint"), "{error}");
        extension.shutdown().await;
        extension.shutdown().await;
    }
}
