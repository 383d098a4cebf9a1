//! The `otlp_http` exporter against servers of every temper.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::raw::{answer, hold, listen, request};
use crate::sender::{Sender, by_cause};

const SOON: Duration = Duration::from_secs(5);

fn to(port: u16, more: &str) -> String {
    format!(
        "{{endpoint: 'http://localhost:{port}', retry_on_failure: {{initial_interval: 20ms, max_interval: 40ms}}, {more}}}"
    )
}

/// Answers `answers` in turn, the last one for ever; each is status, headers and body.
type Answers = Vec<(&'static str, &'static str, Vec<u8>)>;
type Seen = Arc<Mutex<Vec<(String, Vec<u8>, Instant)>>>;

fn answering(answers: Answers) -> (u16, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let port = listen(move |mut stream, _| {
        while let Some((head, body)) = request(&mut stream) {
            let at = {
                let mut kept = kept.lock().unwrap();
                kept.push((head, body, Instant::now()));
                kept.len() - 1
            };
            let (status, headers, body) = &answers[at.min(answers.len() - 1)];
            answer(&mut stream, status, headers, body);
        }
    });
    (port, seen)
}

#[tokio::test]
async fn json_and_protobuf_arrive_with_their_headers() {
    for (more, content_type, encoding) in [
        ("encoding: json, compression: gzip", "application/json", "gzip"),
        ("encoding: proto, compression: zstd", "application/x-protobuf", "zstd"),
        ("compression: deflate", "application/x-protobuf", "deflate"),
        ("encoding: json, compression: none", "application/json", ""),
    ] {
        let (port, seen) = answering(vec![("200 OK", "content-type: application/json\r\n", b"{}".to_vec())]);
        let sender = Sender::start("otlp_http", &to(port, more)).await;
        sender.offer(10).await;
        let (_, telemetry) = sender.end(SOON).await;
        assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 10);
        let seen = seen.lock().unwrap();
        let (head, body, _) = &seen[0];
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains(&format!("content-type: {content_type}")), "{head}");
        assert_eq!(head.contains("content-encoding"), !encoding.is_empty(), "{head}");
        assert!(head.contains(encoding) && head.contains("user-agent: schedscope/0.0.0 (linux/"), "{head}");
        assert!(!encoding.is_empty() || body.starts_with(b"{\"resourceSpans\":["));
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_and_garbage_is_not() {
    let (port, seen) = answering(vec![
        ("429 Too Many", "retry-after: 1\r\n", Vec::new()),
        ("503 Unavailable", "retry-after: soon\r\n", b"busy".to_vec()),
        ("200 OK", "", Vec::new()),
    ]);
    let sender = Sender::start("otlp_http", &to(port, "")).await;
    sender.offer(1).await;
    sender.until("sent", |account| account.sent == 1).await;
    {
        let seen = seen.lock().unwrap();
        assert!(seen[1].2 - seen[0].2 >= Duration::from_secs(1));
        let own = seen[2].2 - seen[1].2;
        assert!(own >= Duration::from_millis(10) && own < Duration::from_secs(1), "{own:?}");
    }
    sender.end(SOON).await;
}

#[tokio::test]
async fn final_answers_drop_and_413_halves() {
    let html = ("200 OK", "content-type: text/html\r\n", b"<html>ok</html>".to_vec());
    let partial = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"future timestamps"}}"#.to_vec();
    let (port, seen) = answering(vec![
        ("400 Bad", "content-type: application/x-protobuf\r\n", b"\x12\x03bad".to_vec()),
        ("301 Moved", "location: http://elsewhere/\r\n", Vec::new()),
        ("200 OK", "content-type: application/json\r\n", partial),
        ("413 Too Large", "", Vec::new()),
        html.clone(),
        html,
    ]);
    let sender = Sender::start("otlp_http", &to(port, "sending_queue: {num_consumers: 1}")).await;
    for _ in 0..4 {
        sender.offer(4).await;
    }
    let (_, telemetry) = sender.end(SOON).await;
    let failed = |cause| by_cause(&telemetry, "otelcol_exporter_send_failed_spans", cause);
    assert_eq!((failed("permanent"), failed("rejected")), (8, 3));
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 5);
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn silence_garbage_and_broken_answers_are_retried() {
    let port = listen(|mut stream, number| match number {
        0 => hold(stream),
        1 => drop(stream.write_all(b"\x00\xff not http at all\r\n\r\n")),
        2 => {
            request(&mut stream);
        }
        3 => {
            request(&mut stream);
            let _gone = stream.write_all(b"HTTP/1.1 200 O");
        }
        _ => {
            request(&mut stream);
            answer(&mut stream, "200 OK", "", b"");
        }
    });
    let sender = Sender::start("otlp_http", &to(port, "timeout: 300ms")).await;
    sender.offer(6).await;
    sender.until("sent", |account| account.sent == 6).await;
    sender.end(SOON).await;
}

#[tokio::test]
async fn a_huge_body_is_read_to_the_limit_only() {
    let port = listen(|mut stream, _| {
        request(&mut stream);
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4294967296\r\ncontent-type: application/json\r\n\r\n";
        let mut sent = stream.write_all(head).is_ok();
        let chunk = vec![b' '; 1 << 20];
        let mut written = 0u64;
        while sent && written < 1 << 32 {
            sent = stream.write_all(&chunk).is_ok();
            written += chunk.len() as u64;
        }
        assert!(written < 64 << 20, "the client read on");
    });
    let sender = Sender::start("otlp_http", &to(port, "")).await;
    sender.offer(6).await;
    sender.until("sent", |account| account.sent == 6).await;
    sender.end(SOON).await;
}

#[tokio::test]
async fn an_endpoint_that_never_answers_does_not_hold_up_the_shutdown() {
    let port = listen(|stream, _| hold(stream));
    let sender = Sender::start("otlp_http", &to(port, "timeout: 0s")).await;
    sender.offer(6).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    let (left, telemetry) = sender.end(Duration::from_millis(500)).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(left.lost_items, 6);
    assert_eq!(by_cause(&telemetry, "otelcol_exporter_send_failed_spans", "shutdown"), 6);
}
