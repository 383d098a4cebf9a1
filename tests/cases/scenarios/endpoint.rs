//! An OTLP/gRPC endpoint inside the test: keeps what it gets, answers as slowly as told, is gone when dropped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use tokio::runtime::Runtime;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

/// Attributes as text.
pub(super) type Attributes = BTreeMap<String, String>;

/// One point of a sum or gauge.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) metric: String,
    pub(super) resource: Attributes,
    pub(super) attributes: Attributes,
    pub(super) start_ns: u64,
    pub(super) time_ns: u64,
    /// `None`: a point that says that the series has ended.
    pub(super) value: Option<f64>,
}

impl Point {
    /// An attribute of its Resource, or nothing.
    pub(super) fn of(&self, key: &str) -> &str {
        self.resource.get(key).map_or("", String::as_str)
    }

    /// An own attribute, or nothing.
    pub(super) fn with(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Seen {
    points: Vec<Point>,
    /// Resources of spans, and how many spans each had.
    spans: Vec<(Attributes, usize)>,
}

#[derive(Clone, Default)]
struct Service {
    seen: Arc<Mutex<Seen>>,
    delay: Duration,
}

impl Service {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The endpoint.
pub(super) struct Endpoint {
    service: Service,
    pub(super) address: SocketAddr,
    _runtime: Runtime,
}

impl Endpoint {
    /// Serves at an address, port 0 for any.
    pub(super) fn start(at: &str, delay: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let service = Service { delay, ..Service::default() };
        let listener = runtime.block_on(tokio::net::TcpListener::bind(at))?;
        let address = listener.local_addr()?;
        let zipped = [CompressionEncoding::Gzip, CompressionEncoding::Zstd];
        let mut traces = TraceServiceServer::new(service.clone());
        let mut metrics = MetricsServiceServer::new(service.clone()).max_decoding_message_size(64 << 20);
        for encoding in zipped {
            traces = traces.accept_compressed(encoding);
            metrics = metrics.accept_compressed(encoding);
        }
        let router = tonic::service::Routes::new(traces).add_service(metrics).prepare().into_axum_router();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { service, address, _runtime: runtime })
    }

    /// Every point so far.
    pub(super) fn points(&self) -> Vec<Point> {
        self.service.seen().points.clone()
    }

    /// The newest points of one metric that fit.
    pub(super) fn last(&self, metric: &str, fits: impl Fn(&Point) -> bool) -> Vec<Point> {
        let mut newest: BTreeMap<(Attributes, Attributes), Point> = BTreeMap::new();
        for point in self.service.seen().points.iter().filter(|point| point.metric == metric && fits(point)) {
            newest.insert((point.resource.clone(), point.attributes.clone()), point.clone());
        }
        newest.into_values().collect()
    }

    /// The sum of the newest points of one metric that fit.
    pub(super) fn sum(&self, metric: &str, fits: impl Fn(&Point) -> bool) -> f64 {
        self.last(metric, fits).iter().filter_map(|point| point.value).sum()
    }

    /// Resources of all spans so far.
    pub(super) fn span_resources(&self) -> Vec<Attributes> {
        self.service.seen().spans.iter().map(|(resource, _)| resource.clone()).collect()
    }

    /// Spans so far.
    pub(super) fn spans(&self) -> usize {
        self.service.seen().spans.iter().map(|(_, count)| count).sum()
    }
}

#[async_trait::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        tokio::time::sleep(self.delay).await;
        for resource in request.into_inner().resource_spans {
            let count = resource.scope_spans.iter().map(|scope| scope.spans.len()).sum();
            self.seen().spans.push((attributes(resource.resource.map(|it| it.attributes).unwrap_or_default()), count));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[async_trait::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        tokio::time::sleep(self.delay).await;
        let mut points = Vec::new();
        for of in request.into_inner().resource_metrics {
            let resource = attributes(of.resource.map(|it| it.attributes).unwrap_or_default());
            for metric in of.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                points.extend(points_of(&resource, metric));
            }
        }
        self.seen().points.extend(points);
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn points_of(resource: &Attributes, metric: Metric) -> Vec<Point> {
    let data = match metric.data {
        Some(metric::Data::Sum(sum)) => sum.data_points,
        Some(metric::Data::Gauge(gauge)) => gauge.data_points,
        _ => return Vec::new(),
    };
    let point = |point: opentelemetry_proto::tonic::metrics::v1::NumberDataPoint| Point {
        metric: metric.name.clone(),
        resource: resource.clone(),
        start_ns: point.start_time_unix_nano,
        time_ns: point.time_unix_nano,
        value: point.value.map(|value| match value {
            number_data_point::Value::AsDouble(value) => value,
            number_data_point::Value::AsInt(value) => value as f64,
        }),
        attributes: attributes(point.attributes),
    };
    data.into_iter().map(point).collect()
}

fn attributes(pairs: Vec<KeyValue>) -> Attributes {
    let text = |pair: KeyValue| {
        let value = match pair.value.and_then(|value| value.value) {
            Some(any_value::Value::StringValue(text)) => text,
            Some(any_value::Value::IntValue(number)) => number.to_string(),
            Some(any_value::Value::BoolValue(truth)) => truth.to_string(),
            other => format!("{other:?}"),
        };
        (pair.key, value)
    };
    pairs.into_iter().map(text).collect()
}

/// A program with an SDK: sends spans to the agent's own receiver.
pub(super) struct Application {
    runtime: Runtime,
    client: TraceServiceClient<tonic::transport::Channel>,
}

impl Application {
    /// Connects to the agent.
    pub(super) fn connect(to: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(TraceServiceClient::connect(format!("http://{to}")))?;
        Ok(Self { runtime, client })
    }

    /// One request of so many spans; returns when the agent has taken it.
    pub(super) fn send(&mut self, spans: usize) -> Result<()> {
        let scope =
            ScopeSpans { spans: vec![Span { name: "s".into(), ..Span::default() }; spans], ..ScopeSpans::default() };
        let resource_spans = vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }];
        self.runtime.block_on(self.client.export(ExportTraceServiceRequest { resource_spans }))?;
        Ok(())
    }
}
