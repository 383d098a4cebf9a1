//! `otlp`: takes OTLP from applications and other agents over gRPC and HTTP and passes it on as it came.
//!
//! A sender is told by a retryable code when a pipeline has no room or a gate refuses; data is accepted
//! once an exporter's queue has it, on disk where that is stored, or a processor that holds data back. Only signals that a pipeline takes are served. Refuses to know: what the
//! data says.

mod body;
mod grpc;
mod http;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::body::{Encoding, Unreadable, decode, unpack};
use self::settings::OtlpSettings;
use crate::config::Body;
use crate::pipeline::factory::Built;
use crate::pipeline::listen::{ServerTls, ServerTlsSettings};
use crate::pipeline::{
    BuildContext, Data, Outlet, Receiver, ReceiverFactory, Refused, Settings, Signal, StartError, listen,
};
use crate::telemetry::Telemetry;

/// `otlp`.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    name: "otlp",
    aliases: &[],
    about: "Takes OTLP over gRPC and HTTP",
    stability: "beta",
    emits: &[Signal::Traces, Signal::Metrics, Signal::Logs],
    settings: Settings::of::<OtlpSettings>(),
    build,
};

/// How long a request waits for room in a pipeline before its sender is asked to come again.
const PATIENCE: Duration = Duration::from_secs(1);
/// When a refused sender should come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long requests under way may take once the receiver stops.
const FAREWELL: Duration = Duration::from_secs(1);

fn build(body: &Body, context: &BuildContext) -> Built<dyn Receiver> {
    Ok(Box::new(Otlp {
        settings: body.decode()?,
        path: body.path.clone(),
        id: Arc::clone(&context.id),
        telemetry: context.telemetry.clone(),
        stop: CancellationToken::new(),
        servers: Vec::new(),
    }))
}

struct Otlp {
    settings: OtlpSettings,
    path: String,
    id: Arc<str>,
    telemetry: Telemetry,
    stop: CancellationToken,
    servers: Vec<JoinHandle<()>>,
}

/// One way in: the pipelines behind it, counted under its transport.
#[derive(Clone)]
struct Entry {
    outlet: Outlet,
}

impl Entry {
    /// Accepted once it is in the queue of an exporter, on disk where that is stored, or a processor has it. What holds no items is accepted and goes no further.
    async fn take(&self, data: Data) -> Result<(), Refused> {
        if data.is_empty() {
            return Ok(());
        }
        self.outlet.deliver(data, PATIENCE).await
    }
}

impl Otlp {
    fn entry(&self, outlet: &Outlet, transport: &'static str) -> Entry {
        Entry { outlet: outlet.clone().counted(&self.telemetry, &self.id, transport) }
    }

    fn tls(
        &self,
        protocol: &str,
        settings: Option<&ServerTlsSettings>,
        names: &'static [&'static str],
    ) -> Result<Option<ServerTls>, StartError> {
        let loaded = settings.map(|settings| settings.load(names)).transpose();
        loaded.map_err(|why| StartError::new(format!("{}::protocols::{protocol}::{why}", self.path)))
    }

    fn key(&self, protocol: &str) -> String {
        format!("{}::protocols::{protocol}::endpoint", self.path)
    }
}

#[async_trait]
impl Receiver for Otlp {
    async fn start(&mut self, outlet: Outlet) -> Result<(), StartError> {
        if let Some(settings) = &self.settings.protocols.grpc {
            let tls = self.tls("grpc", settings.tls.as_ref(), &["h2"])?;
            let listener = listen(&settings.endpoint, &self.key("grpc")).await?;
            tracing::info!(otelcol.component.id = %self.id, endpoint = %settings.endpoint, "Starting GRPC server");
            let serving = grpc::serve(listener, tls, settings, &self.entry(&outlet, "grpc"), self.stop.clone());
            self.servers.push(tokio::spawn(serving));
        }
        if let Some(settings) = &self.settings.protocols.http {
            let tls = self.tls("http", settings.tls.as_ref(), &["h2", "http/1.1"])?;
            let listener = listen(&settings.endpoint, &self.key("http")).await?;
            tracing::info!(otelcol.component.id = %self.id, endpoint = %settings.endpoint, "Starting HTTP server");
            let serving = http::serve(listener, tls, settings, &self.entry(&outlet, "http"), self.stop.clone());
            self.servers.push(tokio::spawn(serving));
        }
        Ok(())
    }

    async fn shutdown(&mut self) {
        self.stop.cancel();
        for mut server in self.servers.drain(..) {
            if tokio::time::timeout(FAREWELL, &mut server).await.is_err() {
                server.abort();
                // Aborted is what it should be; the port is free after this.
                let _aborted = server.await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
