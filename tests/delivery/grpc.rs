//! The `otlp_grpc` exporter against endpoints of every temper.

use std::time::Duration;

use std::net::TcpListener;

use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::endpoint::Endpoint;
use crate::sender::{Sender, by_cause};

const SOON: Duration = Duration::from_secs(5);

fn plain(port: u16, more: &str) -> String {
    format!(
        "{{endpoint: 'localhost:{port}', tls: {{insecure: true}}, retry_on_failure: {{initial_interval: 50ms, max_interval: 100ms}}, {more}}}"
    )
}

#[tokio::test]
async fn headers_and_compression_reach_the_endpoint() {
    for compression in ["gzip", "zstd", "none"] {
        let endpoint = Endpoint::default();
        let (address, _task) = endpoint.serve("127.0.0.1:0").await;
        let yaml =
            plain(address.port(), &format!("compression: {compression}, headers: {{X-Scope-OrgID: \"team-a\\n\"}}"));
        let sender = Sender::start("otlp_grpc", &yaml).await;
        sender.offer(100).await;
        sender.end(SOON).await;
        assert_eq!(endpoint.spans(), 100, "{compression}");
        let seen = endpoint.seen.lock().unwrap();
        let told = seen[0].metadata.get("grpc-encoding").map(|told| told.to_str().unwrap());
        assert_eq!(told.unwrap_or("none"), compression);
        assert_eq!(seen[0].metadata.get("x-scope-orgid").unwrap(), "team-a");
        let agent = seen[0].metadata.get("user-agent").unwrap().to_str().unwrap();
        assert!(agent.starts_with("schedscope/0.0.0 (linux/"), "{agent}");
    }
}

#[tokio::test]
async fn a_closed_port_is_retried_until_it_opens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sender = Sender::start("otlp_grpc", &plain(port, "")).await;
    sender.offer(10).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(sender.counted("otelcol_exporter_sent_spans"), 0);
    let endpoint = Endpoint::default();
    let (_, task) = endpoint.serve(&format!("127.0.0.1:{port}")).await;
    sender.until("sent", |account| account.sent == 10).await;
    // It goes away and comes back: the channel connects again.
    task.abort();
    tokio::time::sleep(Duration::from_millis(50)).await;
    sender.offer(5).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (_, _task) = endpoint.serve(&format!("127.0.0.1:{port}")).await;
    sender.until("sent", |account| account.sent == 15).await;
    sender.end(SOON).await;
}

#[tokio::test]
async fn a_unix_socket_is_told_localhost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp.sock");
    let endpoint = Endpoint::default();
    endpoint.serve_unix(&path).await;
    let sender = Sender::start("otlp_grpc", &format!("{{endpoint: 'unix://{}'}}", path.display())).await;
    sender.offer(3).await;
    sender.end(SOON).await;
    assert_eq!(endpoint.spans(), 3);
}

#[tokio::test]
async fn throttled_with_retry_info_waits_as_told() {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(700)));
    let busy = Status::with_error_details(Code::ResourceExhausted, "slow down", details);
    let endpoint = Endpoint::answering([Err(busy)]);
    let (address, _task) = endpoint.serve("127.0.0.1:0").await;
    let sender = Sender::start("otlp_grpc", &plain(address.port(), "")).await;
    sender.offer(2).await;
    sender.until("sent", |account| account.sent == 2).await;
    {
        let seen = endpoint.seen.lock().unwrap();
        assert!(seen.len() == 2 && seen[1].at - seen[0].at >= Duration::from_millis(700));
    }
    sender.end(SOON).await;
}

#[tokio::test]
async fn too_large_is_never_sent_again_as_it_was() {
    let full = || Err(Status::resource_exhausted("received message larger than max (6100417 vs. 4194304)"));
    let endpoint = Endpoint::answering([full(), full(), Ok(ExportTraceServiceResponse::default())]);
    let (address, _task) = endpoint.serve("127.0.0.1:0").await;
    let sender = Sender::start("otlp_grpc", &plain(address.port(), "")).await;
    sender.offer(8).await;
    sender.until("sent", |account| account.sent == 8).await;
    sender.end(SOON).await;
    let sizes: Vec<_> = endpoint.seen.lock().unwrap().iter().map(|seen| seen.spans).collect();
    assert_eq!(sizes, [8, 4, 2, 2, 4]);
}

#[tokio::test]
async fn final_answers_and_partial_success_are_counted_by_cause() {
    let partial = ExportTracePartialSuccess { rejected_spans: 3, error_message: "future timestamps".into() };
    let endpoint = Endpoint::answering([
        Err(Status::unauthenticated("who are you")),
        Err(Status::unimplemented("no such service")),
        Ok(ExportTraceServiceResponse { partial_success: Some(partial) }),
    ]);
    let (address, _task) = endpoint.serve("127.0.0.1:0").await;
    let sender = Sender::start("otlp_grpc", &plain(address.port(), "sending_queue: {num_consumers: 1}")).await;
    for _ in 0..3 {
        sender.offer(5).await;
    }
    let (_, telemetry) = sender.end(SOON).await;
    let failed = |cause| by_cause(&telemetry, "otelcol_exporter_send_failed_spans", cause);
    assert_eq!((failed("permanent"), failed("rejected")), (10, 3));
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 2);
    assert_eq!(endpoint.seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn large_batches_are_sent_in_parts_that_the_endpoint_takes() {
    let endpoint = Endpoint::default();
    let (address, _task) = endpoint.serve("127.0.0.1:0").await;
    let sender = Sender::start("otlp_grpc", &plain(address.port(), "compression: none, timeout: 20s")).await;
    sender.offer(60_000).await;
    sender.until("sent", |account| account.sent == 60_000).await;
    sender.end(SOON).await;
    assert!(endpoint.seen.lock().unwrap().len() >= 3, "tonic's own limit of 4 MiB refuses larger ones");
}
