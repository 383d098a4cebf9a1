//! TLS of the `otlp` receiver: who is let in, over gRPC and HTTP, and what a renewed certificate changes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::model::Wants;
use schedscope::pipeline::component::Branch;
use schedscope::pipeline::{BuildContext, Outlet, Receiver, Signal};
use schedscope::telemetry::Telemetry;

use crate::sender::Sender;

const SOON: Duration = Duration::from_secs(5);

/// An authority of its own, and files signed by it: `NAME.ca`, and for each of `names` `NAME-name.pem` and `.key`.
fn authority(folder: &Path, name: &str, names: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join(format!("{name}.ca")), issuer.pem()).unwrap();
    for of in names {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{name}-{of}.pem")), signed.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}-{of}.key")), key.serialize_pem()).unwrap();
    }
}

/// A started receiver; what comes is taken and counted.
struct Secured {
    receiver: Box<dyn Receiver>,
    spans: Arc<AtomicUsize>,
    grpc: u16,
    http: u16,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn start(tls: &str) -> Result<Secured, String> {
    let (grpc, http) = (free_port(), free_port());
    let yaml = format!(
        "{{protocols: {{grpc: {{endpoint: 'localhost:{grpc}', tls: {{{tls}}}}}, http: {{endpoint: 'localhost:{http}', tls: \
         {{{tls}}}}}}}}}"
    );
    let factory = COMPONENTS.receivers.iter().find(|factory| factory.name == "otlp").unwrap();
    let body = Body::from_yaml("receivers::otlp", &yaml).unwrap();
    let context = BuildContext::new("otlp".into(), Telemetry::default(), "0");
    let mut receiver = (factory.build)(&body, &context).map_err(|problems| problems.to_string())?;
    let (input, mut pipeline) = tokio::sync::mpsc::channel(4);
    let branch = Branch { signal: Signal::Traces, input, gates: Vec::new(), wants: Wants::default() };
    receiver.start(Outlet::new(vec![branch])).await.map_err(|error| error.to_string())?;
    let spans = Arc::new(AtomicUsize::new(0));
    let counted = spans.clone();
    tokio::spawn(async move {
        while let Some(parcel) = pipeline.recv().await {
            counted.fetch_add(parcel.data.items(), Ordering::Relaxed);
            parcel.receipt.taken();
        }
    });
    Ok(Secured { receiver, spans, grpc, http })
}

impl Secured {
    /// Whether spans arrive over gRPC, and over HTTP, with these `tls` keys at the exporter.
    async fn lets_in(&self, scheme: &str, tls: &str) -> (bool, bool) {
        let mut arrived = Vec::new();
        for (kind, port) in [("otlp_grpc", self.grpc), ("otlp_http", self.http)] {
            let before = self.spans.load(Ordering::Relaxed);
            let yaml = format!(
                "{{endpoint: '{scheme}://localhost:{port}', tls: {{{tls}}}, timeout: 3s, retry_on_failure: {{enabled: false}}}}"
            );
            let sender = Sender::start(kind, &yaml).await;
            sender.offer(3).await;
            sender.end(SOON).await;
            arrived.push(self.spans.load(Ordering::Relaxed) - before == 3);
        }
        (arrived[0], arrived[1])
    }
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_authority_are_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    authority(folder.path(), "ours", &["server", "client"]);
    authority(folder.path(), "theirs", &["client"]);
    let mut server = start(&format!(
        "cert_file: '{}', key_file: '{}', client_ca_file: '{}', min_version: '1.3'",
        at("ours-server.pem"),
        at("ours-server.key"),
        at("ours.ca")
    ))
    .await
    .unwrap();
    let trust = format!("ca_file: '{}'", at("ours.ca"));
    let show = |who: &str| {
        format!("{trust}, cert_file: '{}', key_file: '{}'", at(&format!("{who}.pem")), at(&format!("{who}.key")))
    };
    assert_eq!(server.lets_in("https", &show("ours-client")).await, (true, true));
    assert_eq!(server.lets_in("https", &trust).await, (false, false), "no certificate");
    assert_eq!(server.lets_in("https", &show("theirs-client")).await, (false, false), "another authority");
    assert_eq!(server.lets_in("http", "").await, (false, false), "plaintext");
    assert_eq!(
        server.lets_in("https", &format!("{}, max_version: '1.2'", show("ours-client"))).await,
        (false, false),
        "below min_version"
    );
    server.receiver.shutdown().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    authority(folder.path(), "old", &["server"]);
    authority(folder.path(), "new", &["server"]);
    let copy = |from: &str, to: &str| std::fs::copy(at(from), at(to)).unwrap();
    copy("old-server.pem", "cert");
    copy("old-server.key", "key");
    let tls = format!("cert_file: '{}', key_file: '{}', reload_interval: 10ms", at("cert"), at("key"));
    let mut server = start(&tls).await.unwrap();
    let trust = |name: &str| format!("ca_file: '{}'", at(&format!("{name}.ca")));
    assert_eq!(server.lets_in("https", &trust("old")).await, (true, true));
    std::fs::write(at("cert"), "half a certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(server.lets_in("https", &trust("old")).await, (true, true), "the old one stays in use");
    copy("new-server.pem", "cert");
    copy("new-server.key", "key");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(server.lets_in("https", &trust("new")).await, (true, true));
    assert_eq!(server.lets_in("https", &trust("old")).await, (false, false));
    server.receiver.shutdown().await;
}

#[tokio::test]
async fn a_silent_peer_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    authority(folder.path(), "ours", &["server"]);
    let tls = format!("cert_file: '{}', key_file: '{}'", at("ours-server.pem"), at("ours-server.key"));
    let mut server = start(&tls).await.unwrap();
    let silent: Vec<_> = [server.grpc, server.http]
        .map(|port| std::net::TcpStream::connect(("localhost", port)).unwrap())
        .into_iter()
        .collect();
    assert_eq!(server.lets_in("https", &format!("ca_file: '{}'", at("ours.ca"))).await, (true, true));
    drop(silent);
    server.receiver.shutdown().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_files_ends_the_start() {
    let told = start("cert_file: /nowhere/cert, key_file: /nowhere/key").await.err().unwrap();
    assert!(told.starts_with("receivers::otlp::protocols::grpc::tls::cert_file: cannot read /nowhere/cert"), "{told}");
    let told = start("client_ca_file: x, min_version: '1.1'").await.err().unwrap();
    for key in ["grpc::tls::cert_file: is missing", "http::tls::key_file: is missing", "grpc::tls::min_version"] {
        assert!(told.contains(key), "{key} is missing in {told}");
    }
}
