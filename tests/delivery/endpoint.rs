//! A gRPC trace endpoint that answers as told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::net::TcpListener;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

type Answer = Result<ExportTraceServiceResponse, Status>;

/// What it saw.
#[derive(Clone, Default)]
pub struct Endpoint {
    pub answers: Arc<Mutex<VecDeque<Answer>>>,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    pub delay: Duration,
}

pub struct Seen {
    pub spans: usize,
    #[allow(dead_code, reason = "the storage test alone compares ids")]
    pub ids: Vec<Vec<u8>>,
    pub metadata: http::HeaderMap,
    pub at: std::time::Instant,
}

impl Endpoint {
    pub fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    pub fn spans(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.spans).sum()
    }

    pub fn service(&self) -> TraceServiceServer<Self> {
        TraceServiceServer::new(self.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
    }

    /// Serves on this address until the task is aborted.
    pub async fn serve(&self, at: &str) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = tonic::service::Routes::new(self.service()).prepare().into_axum_router();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (address, task)
    }

    pub async fn serve_unix(&self, path: &std::path::Path) {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let router = tonic::service::Routes::new(self.service()).prepare().into_axum_router();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    }
}

#[async_trait::async_trait]
impl TraceService for Endpoint {
    async fn export(&self, request: Request<ExportTraceServiceRequest>) -> Answer1 {
        let metadata = request.metadata().clone().into_headers();
        let request = request.into_inner();
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        let ids: Vec<_> = scopes.flat_map(|scope| &scope.spans).map(|span| span.span_id.clone()).collect();
        let seen = Seen { spans: ids.len(), ids, metadata, at: std::time::Instant::now() };
        self.seen.lock().unwrap().push(seen);
        tokio::time::sleep(self.delay).await;
        let answer = self.answers.lock().unwrap().pop_front();
        answer.unwrap_or_else(|| Ok(ExportTraceServiceResponse::default())).map(Response::new)
    }
}

type Answer1 = Result<Response<ExportTraceServiceResponse>, Status>;
