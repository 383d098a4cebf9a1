//! Daemons that answer well, badly, endlessly and never.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::*;

const ID: &str = "77d1bce211829e5fb707a3bccfd886f670c04bfebcd5dbdb61517631c9cf735a";

/// A daemon that answers every request by what `answer` makes of its first line; `None`: never.
fn daemon(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> (tempfile::TempDir, DockerApi) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let read = peer.read(&mut request).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..read]).into_owned();
                match answer(text.lines().next().unwrap_or_default()) {
                    Some(response) => {
                        let _ = peer.write_all(response.as_bytes()).await;
                    }
                    None => tokio::time::sleep(Duration::from_secs(60)).await,
                }
            });
        }
    });
    let labels: Arc<[String]> = vec!["team".to_owned()].into();
    let api = DockerApi::new(&path, Runtime::Docker, labels).unwrap();
    (folder, api)
}

fn ok(body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

fn status(code: u16) -> Option<String> {
    let body = r#"{"message":"no"}"#;
    Some(format!("HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

#[tokio::test]
async fn a_container_is_named_with_its_image() {
    let (_folder, api) = daemon(|line| {
        if line.contains("/containers/") {
            ok(&format!(
                r#"{{"Id":"{ID}","Name":"/api9","Image":"sha256:25","RestartCount":3,
                    "Config":{{"Image":"shop/api:2.0","Labels":{{"team":"a","secret":"s"}}}}}}"#
            ))
        } else {
            ok(r#"{"Id":"sha256:25","RepoTags":["shop/api:2.0"],"RepoDigests":["shop/api@sha256:99"]}"#)
        }
    });
    let names = api.find(ID).await.unwrap().unwrap();
    assert_eq!((names.name.as_deref(), names.image_name.as_deref()), (Some("api9"), Some("shop/api")));
    assert_eq!(names.image_tags, vec!["2.0".into()]);
    assert_eq!(names.image_repo_digests, vec!["shop/api@sha256:99".into()]);
    assert_eq!(names.labels, vec![("team".into(), "a".into())]);
    assert_eq!(names.restart_count, Some(3));
}

#[tokio::test]
async fn an_unknown_container_is_no_failure_and_a_wrong_one_is_not_taken() {
    let (_folder, api) = daemon(|_| status(404));
    assert_eq!(api.find(ID).await, Ok(None));
    let (_folder, api) = daemon(|_| ok(r#"{"Id":"other","Name":"/x"}"#));
    assert!(matches!(api.find(ID).await, Err(CatalogError::Answer(_))));
    let (_folder, api) = daemon(|_| status(500));
    assert!(matches!(api.find(ID).await, Err(CatalogError::Answer(_))));
}

#[tokio::test]
async fn garbage_does_no_harm() {
    for garbage in ["\0\0\0", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{{{{{", "HTTP/1.1 200 OK\r\n\r\n[1]", ""] {
        let (_folder, api) = daemon(move |_| Some(garbage.to_owned()));
        assert!(api.find(ID).await.is_err(), "{garbage:?}");
        assert!(api.greet().await.is_err(), "{garbage:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let (_folder, api) = daemon(|_| {
        let body = format!(r#"{{"Id":"{}"}}"#, "x".repeat(20 << 20));
        ok(&body)
    });
    assert!(api.find(ID).await.is_err());
}

#[tokio::test]
async fn events_name_a_container_that_is_gone_before_it_can_be_asked_for() {
    let (_folder, api) = daemon(|_| {
        ok(&format!(
            "{}\n",
            format_args!(
                r#"{{"Type":"container","Action":"start","Actor":{{"ID":"{ID}","Attributes":{{"name":"short","image":"shop/job:1","team":"b"}}}}}}"#
            )
        ))
    });
    let (tell, mut seen) = mpsc::channel(4);
    let _ = api.follow(&tell).await;
    let (id, names) = seen.recv().await.unwrap();
    assert_eq!((id.as_ref(), names.name.as_deref()), (ID, Some("short")));
    assert_eq!(names.image_name.as_deref(), Some("shop/job"));
}
