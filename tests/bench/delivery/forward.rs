//! Spans forwarded through the otlp receiver, by the agent and by a real Collector with the same config: CPU time
//! of the process for each span, in interleaved rounds.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use schedscope::pipeline::Data;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::encode;
use crate::needs::part;
use crate::program::{Program, free_address};

const SPANS_A_SECOND: u64 = 50_000;
const SPANS_A_REQUEST: usize = 500;
const ROUNDS: usize = 3;
/// Not measured: connections, pools and caches come to be.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(15);

pub(crate) fn beside_the_collector(folder: &Path) -> Result<String> {
    let collector = part("collector").map_err(anyhow::Error::msg)?;
    let sink = Sink::start()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(forward(folder, env!("CARGO_BIN_EXE_schedscope"), &sink)?);
        theirs.push(forward(folder, &collector, &sink)?);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    Ok(format!(
        "| 50,000 spans a second forwarded, gRPC in and out, gzip out | {ours:.0} ns of CPU a span; the Collector {theirs:.0} \
         ({:.2} x) |\n",
        ours / theirs
    ))
}

/// Nanoseconds of CPU for each span that came through.
fn forward(folder: &Path, program: &str, sink: &Sink) -> Result<f64> {
    let at = free_address()?;
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}
exporters: {{otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_grpc]}}}}
",
        sink.address
    );
    let config = folder.join("forward.yaml");
    fs::write(&config, text)?;
    let mut running = Program::start("forwarder", Command::new(program).arg("--config").arg(config), folder)?;
    running.listens(at)?;
    let load = Load::start(at, SPANS_A_SECOND, SPANS_A_REQUEST)?;
    std::thread::sleep(WARM_UP);
    let begin = (cpu_time(running.pid().as_raw_nonzero().get())?, sink.spans.load(Ordering::Relaxed));
    std::thread::sleep(MEASURED);
    let end = (cpu_time(running.pid().as_raw_nonzero().get())?, sink.spans.load(Ordering::Relaxed));
    load.stop()?;
    let spans = end.1 - begin.1;
    let wanted = SPANS_A_SECOND * MEASURED.as_secs();
    ensure!(spans * 10 > wanted * 9, "{spans} spans came through of {wanted}: this machine is too busy");
    Ok((end.0 - begin.0).as_nanos() as f64 / spans as f64)
}

/// User and system time of a process, in ticks of 10 ms.
fn cpu_time(pid: i32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

/// An application that sends spans at a steady rate.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Load {
    pub(crate) fn start(at: SocketAddr, spans_a_second: u64, spans_a_request: usize) -> Result<Self> {
        let request = request(spans_a_request)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let every = Duration::from_secs_f64(spans_a_request as f64 / spans_a_second as f64);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(send(at, request, every, &stopped))
        });
        Ok(Self { stop, thread })
    }

    /// How many spans were acknowledged.
    pub(crate) fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the load panicked"))?
    }
}

async fn send(
    at: SocketAddr,
    request: ExportTraceServiceRequest,
    every: Duration,
    stopped: &AtomicBool,
) -> Result<u64> {
    let channel = Endpoint::from_shared(format!("http://{at}"))?.connect().await?;
    let client = TraceServiceClient::new(channel);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let items = Data::Traces(request.resource_spans.clone()).items() as u64;
    let mut ticks = tokio::time::interval(every);
    let mut calls = tokio::task::JoinSet::new();
    while !stopped.load(Ordering::Relaxed) {
        ticks.tick().await;
        let (mut client, request, counted) = (client.clone(), request.clone(), acknowledged.clone());
        calls.spawn(async move {
            if client.export(request).await.is_ok() {
                counted.fetch_add(items, Ordering::Relaxed);
            }
        });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
    Ok(acknowledged.load(Ordering::Relaxed))
}

/// A request of real spans, so many or the few more that their grouping gives.
fn request(spans: usize) -> Result<ExportTraceServiceRequest> {
    let Data::Traces(mut resource_spans) = encode::sample()? else { return Err(anyhow!("no traces")) };
    let mut left = spans;
    for scope in resource_spans.iter_mut().flat_map(|resource| &mut resource.scope_spans) {
        scope.spans.truncate(left);
        left -= scope.spans.len();
    }
    resource_spans.retain(|resource| resource.scope_spans.iter().any(|scope| !scope.spans.is_empty()));
    Ok(ExportTraceServiceRequest { resource_spans })
}

/// Takes spans and counts them.
struct Sink {
    address: SocketAddr,
    spans: Arc<AtomicU64>,
}

struct Counting(Arc<AtomicU64>);

#[tonic::async_trait]
impl TraceService for Counting {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.fetch_add(Data::Traces(request.into_inner().resource_spans).items() as u64, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Sink {
    fn start() -> Result<Self> {
        let (address, spans) = (free_address()?, Arc::new(AtomicU64::new(0)));
        let service = TraceServiceServer::new(Counting(spans.clone())).accept_compressed(CompressionEncoding::Gzip);
        std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(Server::builder().add_service(service).serve(address))?)
        });
        let begin = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(begin.elapsed() < Duration::from_secs(5), "the sink does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { address, spans })
    }
}
