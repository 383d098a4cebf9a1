//! Requests signed by an extension: over gRPC and HTTP, and with a token that is renewed meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::pipeline::{BuildContext, Extension, Host};
use schedscope::telemetry::Telemetry;

use crate::endpoint::Endpoint;
use crate::raw::{answer, listen, request};
use crate::sender::Sender;

const SOON: Duration = Duration::from_secs(5);

/// A host on which this extension runs under its type.
fn host(kind: &str, yaml: &str) -> Host {
    let factory = COMPONENTS.extensions.iter().find(|factory| factory.name == kind).unwrap();
    let body = Body::from_yaml(format!("extensions::{kind}"), yaml).unwrap();
    let context = BuildContext::new(kind.into(), Telemetry::default(), "0");
    let extension: Arc<dyn Extension> = (factory.build)(&body, &context).unwrap_or_else(|told| panic!("{told}")).into();
    Host::new(HashMap::from([(kind.into(), extension)]))
}

#[tokio::test]
async fn grpc_requests_carry_the_token_of_the_moment() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\n").unwrap();
    let host = host("bearertokenauth", &format!("{{filename: '{}'}}", file.path().display()));
    let endpoint = Endpoint::default();
    let (address, _serving) = endpoint.serve("127.0.0.1:0").await;
    let yaml = format!(
        "{{endpoint: '{address}', tls: {{insecure: true}}, headers: {{authorization: overridden}}, auth: {{authenticator: \
         bearertokenauth}}}}"
    );
    let sender = Sender::start_with("otlp_grpc", &yaml, &host).await.unwrap();
    sender.offer(1).await;
    sender.until("sent", |account| account.sent == 1).await;
    std::fs::write(file.path(), "two\n").unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    sender.offer(1).await;
    sender.until("sent", |account| account.sent == 2).await;
    sender.end(SOON).await;
    let seen = endpoint.seen.lock().unwrap();
    let tokens: Vec<_> = seen.iter().map(|seen| seen.metadata["authorization"].to_str().unwrap().to_owned()).collect();
    assert_eq!(tokens, ["Bearer one", "Bearer two"]);
}

#[tokio::test]
async fn http_requests_carry_name_and_password() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = heads.clone();
    let port = listen(move |mut stream, _| {
        if let Some((head, _)) = request(&mut stream) {
            kept.lock().unwrap().push(head);
            answer(&mut stream, "200 OK", "", b"");
        }
    });
    let host = host("basicauth", "{client_auth: {username: Aladdin, password: open sesame}}");
    let yaml = format!("{{endpoint: 'http://localhost:{port}', auth: {{authenticator: basicauth}}}}");
    let sender = Sender::start_with("otlp_http", &yaml, &host).await.unwrap();
    sender.offer(1).await;
    sender.end(SOON).await;
    let heads = heads.lock().unwrap();
    assert!(heads[0].contains("authorization: basic qwxhzgrpbjpvcgvuihnlc2ftzq=="), "{}", heads[0]);
}

#[tokio::test]
async fn who_signs_must_run_and_be_able_to() {
    let yaml = "{endpoint: 'localhost:1', auth: {authenticator: bearertokenauth}}";
    let told = Sender::start_with("otlp_grpc", yaml, &Host::default()).await.err().unwrap();
    assert!(told.contains("`bearertokenauth` is not running") && told.contains("service::extensions"), "{told}");
    let yaml = "{endpoint: 'http://localhost:1', auth: {authenticator: health_check}}";
    let told = Sender::start_with("otlp_http", yaml, &host("health_check", "{}")).await.err().unwrap();
    assert!(told.contains("offers no credentials"), "{told}");
}
