use std::io::Write;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::sync::mpsc;
use tonic::Code;
use tonic_types::StatusExt;

use super::*;
use crate::model::Wants;
use crate::pipeline::component::Branch;
use crate::pipeline::receipt::Parcel;

/// A started receiver whose only pipeline takes traces, with room for `room` batches.
struct Started {
    receiver: Box<dyn Receiver>,
    pipeline: mpsc::Receiver<Parcel>,
    telemetry: Telemetry,
    grpc: u16,
    http: u16,
}

async fn free_port() -> u16 {
    listen("localhost:0", "").await.unwrap().local_addr().unwrap().port()
}

async fn started(room: usize) -> Started {
    let (grpc, http) = (free_port().await, free_port().await);
    let yaml = format!(
        "protocols: {{grpc: {{endpoint: 'localhost:{grpc}'}}, http: {{endpoint: 'localhost:{http}', \
         max_request_body_size: 10kB}}}}"
    );
    let telemetry = Telemetry::default();
    let context = BuildContext::new("otlp".into(), telemetry.clone(), "0");
    let mut receiver = build(&Body::from_yaml("receivers::otlp", &yaml).unwrap(), &context).unwrap();
    receiver.shutdown().await;
    let mut receiver = {
        drop(receiver);
        build(&Body::from_yaml("receivers::otlp", &yaml).unwrap(), &context).unwrap()
    };
    let (input, pipeline) = mpsc::channel(room);
    let branch = Branch { signal: Signal::Traces, input, gates: Vec::new(), wants: Wants::default() };
    receiver.start(Outlet::new(vec![branch])).await.unwrap();
    Started { receiver, pipeline, telemetry, grpc, http }
}

/// A pipeline that takes so many batches and has no room for more; the items of all that came.
async fn take(mut pipeline: mpsc::Receiver<Parcel>, batches: usize) -> Vec<usize> {
    let mut items = Vec::new();
    while let Some(Parcel { data, receipt }) = pipeline.recv().await {
        items.push(data.items());
        if items.len() <= batches { receipt.taken() } else { receipt.refuse("the queue is full") }
    }
    items
}

fn request(spans: usize) -> ExportTraceServiceRequest {
    let spans = (0..spans).map(|at| Span { name: format!("span {at}"), ..Span::default() }).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
}

/// reqwest wants a crypto provider even for plain HTTP.
fn client() -> reqwest::Client {
    // An error says that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

async fn post(
    port: u16,
    content_type: &'static str,
    encoding: Option<&'static str>,
    body: Vec<u8>,
) -> reqwest::Response {
    let mut post =
        client().post(format!("http://localhost:{port}/v1/traces")).header("content-type", content_type).body(body);
    if let Some(encoding) = encoding {
        post = post.header("content-encoding", encoding);
    }
    post.send().await.unwrap()
}

#[tokio::test]
async fn grpc_takes_what_a_pipeline_takes_and_pushes_back() {
    let mut started = started(1).await;
    let url = format!("http://localhost:{}", started.grpc);
    let mut traces = TraceServiceClient::connect(url.clone()).await.unwrap();
    let mut beside = traces.clone();
    let first = tokio::spawn(async move { beside.export(request(3)).await });
    while started.pipeline.is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let refused = traces.export(request(2)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(refused.get_details_retry_info().unwrap().retry_delay, Some(RETRY_AFTER));
    assert_eq!(started.telemetry.sum("otelcol_receiver_refused_spans"), 2);
    assert!(!first.is_finished(), "nobody answers for it yet");
    let parcel = started.pipeline.recv().await.unwrap();
    assert_eq!((parcel.data.items(), started.telemetry.sum("otelcol_receiver_accepted_spans")), (3, 0));
    parcel.receipt.taken();
    drop(parcel);
    first.await.unwrap().unwrap();
    assert_eq!(started.telemetry.sum("otelcol_receiver_accepted_spans"), 3);
    let mut metrics = MetricsServiceClient::connect(url).await.unwrap();
    let none = metrics.export(ExportMetricsServiceRequest::default()).await.unwrap_err();
    assert_eq!(none.code(), Code::Unimplemented);
    let mut large = request(1);
    large.resource_spans[0].scope_spans[0].spans[0].name = "x".repeat(5 << 20);
    assert_eq!(traces.export(large).await.unwrap_err().code(), Code::OutOfRange);
    started.receiver.shutdown().await;
    started.receiver.shutdown().await;
    assert!(traces.export(request(1)).await.is_err());
}

#[tokio::test]
async fn http_takes_protobuf_json_and_gzip_and_pushes_back() {
    let mut started = started(3).await;
    let taking = tokio::spawn(take(started.pipeline, 3));
    let protobuf = request(1).encode_to_vec();
    let answer = post(started.http, "application/x-protobuf", None, protobuf.clone()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/x-protobuf".parse().unwrap())
    );
    let json = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a"},{"name":"b"}]}]}]}"#.to_vec();
    let answer = post(started.http, "application/json", None, json).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text().await.unwrap(), r#"{"partialSuccess":{}}"#);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&protobuf).unwrap();
    let answer = post(started.http, "application/x-protobuf", Some("gzip"), packer.finish().unwrap()).await;
    assert_eq!(answer.status(), 200);
    let answer = post(
        started.http,
        "application/json",
        None,
        br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}"#.to_vec(),
    )
    .await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    let told = answer.text().await.unwrap();
    assert!(told.contains(r#""code":14"#) && told.contains("the queue is full"), "{told}");
    started.receiver.shutdown().await;
    drop(started.receiver);
    assert_eq!(taking.await.unwrap(), [1, 2, 1, 1]);
}

#[tokio::test]
async fn http_says_what_is_wrong() {
    let started = started(3).await;
    for (content_type, body, code) in [
        ("text/plain", Vec::new(), 415),
        ("application/json", b"{".to_vec(), 400),
        ("application/x-protobuf", vec![0xff; 10], 400),
        ("application/json", vec![b' '; 10_001], 413),
        ("application/json", b"{}".to_vec(), 200),
    ] {
        let answer = post(started.http, content_type, None, body).await;
        assert_eq!(answer.status(), code, "{content_type}");
    }
    let client = client();
    let get = client.get(format!("http://localhost:{}/v1/traces", started.http)).send().await.unwrap();
    assert_eq!(get.status(), 405);
    let metrics = client.post(format!("http://localhost:{}/v1/metrics", started.http)).send().await.unwrap();
    assert_eq!(metrics.status(), 404, "no pipeline takes metrics");
}

#[test]
fn settings_tell_what_is_missing() {
    let told = |yaml: &str| (FACTORY.settings.check)(&Body::from_yaml("receivers::otlp", yaml).unwrap()).to_string();
    assert!(told("{}").starts_with("receivers::otlp::protocols: must name"), "{}", told("{}"));
    assert_eq!(told("{protocols: {grpc: , http: }}"), "");
    assert!(told("{protocols: {http: {traces_url_path: x}}}").contains("must begin with /"));
    assert!(told("{protocols: {http: {traces_url_path: /v1/logs}}}").contains("same path"));
    let effective = (FACTORY.settings.effective)(&Body::from_yaml("r", "{protocols: {grpc: }}").unwrap());
    assert_eq!(effective["protocols"]["grpc"]["endpoint"], "localhost:4317");
    assert_eq!(effective["protocols"].get("http"), None);
}
