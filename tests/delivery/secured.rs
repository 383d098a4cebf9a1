//! TLS against a real handshake: whom we trust, under which name, and who we are.

use std::time::Duration;

use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::endpoint::Endpoint;
use crate::sender::{Sender, by_cause};

const SOON: Duration = Duration::from_secs(5);

fn file(name: &str) -> String {
    format!("{}/tests/delivery/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A gRPC endpoint with a certificate for `localhost` from the tests' own authority.
async fn secured(ask_client: bool) -> (Endpoint, u16) {
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let mut tls = ServerTlsConfig::new().identity(Identity::from_pem(read("server.pem"), read("server.key")));
    if ask_client {
        tls = tls.client_ca_root(Certificate::from_pem(read("ca.pem")));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint::default();
    let server = Server::builder().tls_config(tls).unwrap().add_service(endpoint.service());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    (endpoint, port)
}

/// What arrives of five spans with these `tls` keys; all are accounted for either way.
async fn arrives(ask_client: bool, host: &str, tls: &str) -> usize {
    let (endpoint, port) = secured(ask_client).await;
    let yaml = format!(
        "{{endpoint: '{host}:{port}', tls: {{{tls}}}, timeout: 2s, retry_on_failure: {{initial_interval: 20ms, \
         max_interval: 50ms}}}}"
    );
    let sender = Sender::start("otlp_grpc", &yaml).await;
    sender.offer(5).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (left, telemetry) = sender.end(SOON).await;
    let lost = by_cause(&telemetry, "otelcol_exporter_send_failed_spans", "shutdown");
    assert_eq!(left.lost_items, lost);
    assert_eq!(endpoint.spans() as u64 + lost, 5);
    endpoint.spans()
}

#[tokio::test]
async fn the_certificate_must_be_trusted_and_for_the_host() {
    let ours = format!("ca_file: '{}'", file("ca.pem"));
    assert_eq!(arrives(false, "localhost", &ours).await, 5);
    assert_eq!(arrives(false, "localhost", "").await, 0, "not an authority of the system");
    assert_eq!(arrives(false, "127.0.0.1", &ours).await, 0, "a certificate for another name");
    assert_eq!(arrives(false, "127.0.0.1", &format!("{ours}, server_name_override: localhost")).await, 5);
    assert_eq!(arrives(false, "127.0.0.1", "insecure_skip_verify: true").await, 5);
    assert_eq!(arrives(false, "localhost", &format!("{ours}, min_version: '1.3'")).await, 5);
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_one_is_asked_for() {
    let ours = format!("ca_file: '{}'", file("ca.pem"));
    assert_eq!(arrives(true, "localhost", &ours).await, 0);
    let own = format!("{ours}, cert_file: '{}', key_file: '{}'", file("client.pem"), file("client.key"));
    assert_eq!(arrives(true, "localhost", &own).await, 5);
}

#[tokio::test]
async fn files_that_cannot_be_read_end_the_start() {
    let host = schedscope::pipeline::Host::default();
    let yaml = "{endpoint: 'localhost:1', tls: {ca_file: /nowhere}}";
    let told = Sender::start_with("otlp_grpc", yaml, &host).await.err().unwrap();
    assert!(told.contains("tls::ca_file") && told.contains("/nowhere"), "{told}");
}
