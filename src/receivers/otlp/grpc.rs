//! OTLP over gRPC.

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::settings::GrpcSettings;
use super::{Entry, RETRY_AFTER};
use crate::pipeline::listen::{Secured, ServerTls};
use crate::pipeline::{Data, Refused, Signal};

/// Serves until told to stop; requests under way are answered.
pub(super) fn serve(
    listener: TcpListener,
    tls: Option<ServerTls>,
    settings: &GrpcSettings,
    entry: &Entry,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let max_bytes = settings.max_recv_msg_size_mib << 20;
    let streams = (settings.max_concurrent_streams > 0).then_some(settings.max_concurrent_streams);
    let mut routes = Routes::builder();
    macro_rules! serve_where_taken {
        ($signal:expr, $server:ident) => {
            if entry.outlet.takes($signal) {
                routes.add_service(
                    $server::new(entry.clone())
                        .accept_compressed(CompressionEncoding::Gzip)
                        .accept_compressed(CompressionEncoding::Zstd)
                        .max_decoding_message_size(max_bytes),
                );
            }
        };
    }
    serve_where_taken!(Signal::Traces, TraceServiceServer);
    serve_where_taken!(Signal::Metrics, MetricsServiceServer);
    serve_where_taken!(Signal::Logs, LogsServiceServer);
    let server = Server::builder().max_concurrent_streams(streams).add_routes(routes.routes());
    async move {
        let stopped = stop.cancelled_owned();
        let served = match tls {
            None => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                server.serve_with_incoming_shutdown(incoming, stopped).await
            }
            Some(tls) => {
                let incoming = Secured::new(listener, tls).into_stream();
                server.serve_with_incoming_shutdown(incoming, stopped).await
            }
        };
        if let Err(error) = served {
            tracing::error!(%error, "OTLP over gRPC is no longer served");
        }
    }
}

/// UNAVAILABLE with the time to come again: every OTLP sender retries that.
fn unavailable(refused: Refused) -> Status {
    Status::with_error_details(Code::Unavailable, refused.reason, ErrorDetails::with_retry_info(Some(RETRY_AFTER)))
}

#[tonic::async_trait]
impl TraceService for Entry {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.take(Data::Traces(request.into_inner().resource_spans)).await.map_err(unavailable)?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Entry {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.take(Data::Metrics(request.into_inner().resource_metrics)).await.map_err(unavailable)?;
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Entry {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.take(Data::Logs(request.into_inner().resource_logs)).await.map_err(unavailable)?;
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}
