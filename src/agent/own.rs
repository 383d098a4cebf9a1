//! The readers of the agent's own counters that `service::telemetry::metrics` asks for.
//!
//! `pull` is a page for Prometheus, `periodic` sends OTLP over gRPC. A page that cannot be served is a warning, not the end: an agent that measures without a page of its own
//! counters is worth more than none. (The Collector does not start then.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::task::JoinHandle;

use crate::pipeline::listen;
use crate::pipeline::service::{MetricLevel, OwnProtocol, PeriodicReader, PrometheusSettings, TelemetrySettings};
use crate::telemetry::Telemetry;
use crate::telemetry::otlp::{OtlpReader, OtlpTarget};
use crate::telemetry::process::ProcessUse;
use crate::telemetry::prometheus::{self, Naming};

/// The readers of one run.
#[derive(Default)]
pub(super) struct OwnReaders {
    pages: Vec<JoinHandle<()>>,
    senders: Vec<Sender>,
}

/// A reader that sends, and the task that shows it new counters.
struct Sender {
    reader: OtlpReader,
    following: JoinHandle<()>,
}

/// How often new counters are looked for.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);
/// What the last report may take.
const LAST_REPORT: Duration = Duration::from_secs(2);

/// What all readers show.
#[derive(Clone)]
struct Shown {
    telemetry: Telemetry,
    resource: BTreeMap<String, String>,
    since: Instant,
}

/// What one page shows.
struct Page {
    shown: Shown,
    naming: Naming,
}

impl OwnReaders {
    /// Starts what the settings ask for.
    pub(super) async fn start(
        settings: &TelemetrySettings,
        telemetry: &Telemetry,
        version: &'static str,
        since: Instant,
    ) -> Self {
        let mut readers = Self::default();
        if settings.metrics.level == MetricLevel::None {
            return readers;
        }
        let shown = Shown { telemetry: telemetry.clone(), resource: resource(settings, version), since };
        for (at, reader) in settings.metrics.readers.iter().enumerate() {
            if let Some(pull) = &reader.pull {
                let key = format!("service::telemetry::metrics::readers::{at}::pull::exporter::prometheus::port");
                readers.page(&pull.exporter.prometheus, &key, &shown).await;
            }
            if let Some(periodic) = &reader.periodic {
                let key = format!("service::telemetry::metrics::readers::{at}::periodic::exporter::otlp");
                readers.sender(periodic, &key, &shown);
            }
        }
        readers
    }

    async fn page(&mut self, settings: &PrometheusSettings, key: &str, shown: &Shown) {
        let listener = match listen(&format!("{}:{}", settings.host, settings.port), key).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!("the page of own metrics is not served: {error}");
                return;
            }
        };
        let naming = Naming { type_suffix: !settings.without_type_suffix, unit_suffix: !settings.without_units };
        let page = Arc::new(Page { shown: shown.clone(), naming });
        let router = Router::new().route("/metrics", get(show)).with_state(page);
        self.pages.push(tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the page of own metrics is no longer served");
            }
        }));
    }

    fn sender(&mut self, settings: &PeriodicReader, key: &str, shown: &Shown) {
        let otlp = &settings.exporter.otlp;
        if otlp.protocol != OwnProtocol::Grpc {
            tracing::warn!("own metrics are not sent: {key}::protocol: only `grpc` is supported here");
            return;
        }
        let target = OtlpTarget {
            endpoint: otlp.endpoint.clone(),
            headers: otlp.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect(),
            interval: Duration::from_millis(settings.interval),
            timeout: Duration::from_millis(settings.timeout),
        };
        match OtlpReader::start(&shown.telemetry, shown.since, &shown.resource, &target) {
            Ok(reader) => {
                let follower = reader.clone();
                let following = tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(FOLLOW_INTERVAL).await;
                        follower.follow();
                    }
                });
                self.senders.push(Sender { reader, following });
            }
            Err(error) => tracing::warn!("own metrics are not sent: {key}: {error}"),
        }
    }

    /// Ends all of them; those that send send once more.
    pub(super) async fn stop(&mut self) {
        for Sender { reader, following } in self.senders.drain(..) {
            following.abort();
            // The SDK blocks while it sends, and the connection lives on this runtime: not on this thread.
            let _ended = tokio::task::spawn_blocking(move || reader.stop(LAST_REPORT)).await;
        }
        for page in self.pages.drain(..) {
            page.abort();
            // Aborted is what it should be; the port is free after this.
            let _aborted = page.await;
        }
    }
}

async fn show(State(page): State<Arc<Page>>) -> impl IntoResponse {
    let Shown { telemetry, resource, since } = &page.shown;
    let body = prometheus::render(&telemetry.snapshot(), &ProcessUse::read(*since), resource, page.naming);
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], body)
}

/// The agent's own Resource: its defaults, with what the config lays over them.
fn resource(settings: &TelemetrySettings, version: &str) -> BTreeMap<String, String> {
    let mut resource = BTreeMap::from([
        ("service.name".to_owned(), "schedscope".to_owned()),
        ("service.version".to_owned(), version.to_owned()),
        ("service.instance.id".to_owned(), uuid::Uuid::new_v4().to_string()),
    ]);
    for (key, value) in &settings.resource {
        match value {
            Some(value) => resource.insert(key.clone(), value.clone()),
            None => resource.remove(key),
        };
    }
    resource
}
