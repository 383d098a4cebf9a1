//! Applications that send to the agent and remember what it has acknowledged.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use tonic::transport::{Channel, Endpoint};

/// How many send at the same time.
const CLIENTS: u64 = 4;
/// Spans in a request.
const BATCH: u64 = 25;
/// Between two requests of one client.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the clients saw.
#[derive(Default)]
pub(super) struct Sent {
    /// Span ids.
    pub(super) acknowledged: HashSet<u64>,
    pub(super) failed_calls: u64,
}

/// Running clients, on a thread of their own.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sent>>,
}

impl Clients {
    pub(super) fn start(agent: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let clients = (0..CLIENTS).map(|number| send(agent, number, &stopped));
                let mut all = Sent::default();
                for sent in futures_util::future::join_all(clients).await {
                    let sent = sent?;
                    all.acknowledged.extend(sent.acknowledged);
                    all.failed_calls += sent.failed_calls;
                }
                Ok(all)
            })
        });
        Self { stop, thread }
    }

    /// No request follows; what was under way is answered or not.
    pub(super) fn stop(self) -> Result<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a client panicked"))?
    }
}

/// Sends until told to stop; a request without an acknowledgement is sent again, as every OTLP sender does.
async fn send(agent: SocketAddr, number: u64, stopped: &AtomicBool) -> Result<Sent> {
    let channel: Channel = Endpoint::from_shared(format!("http://{agent}"))?.connect_lazy();
    let mut client = TraceServiceClient::new(channel);
    let mut sent = Sent::default();
    let mut first = (number << 32) + 1;
    while !stopped.load(Ordering::Relaxed) {
        let ids = first..first + BATCH;
        let answer = tokio::time::timeout(PATIENCE, client.export(request(ids.clone()))).await;
        if matches!(answer, Ok(Ok(_))) {
            sent.acknowledged.extend(ids);
            first += BATCH;
        } else {
            sent.failed_calls += 1;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(sent)
}

fn request(ids: std::ops::Range<u64>) -> ExportTraceServiceRequest {
    let span = |id: u64| Span {
        trace_id: vec![7; 16],
        span_id: id.to_be_bytes().to_vec(),
        name: "work".to_owned(),
        start_time_unix_nano: 1_767_225_600_000_000_000,
        end_time_unix_nano: 1_767_225_600_000_000_100,
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: ids.map(span).collect(), ..ScopeSpans::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
}
