//! OTLP over HTTP, as protobuf or JSON, with the answer in the same encoding.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use prost::Message;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::body::{Encoding, Unreadable, decode, unpack};
use super::settings::HttpSettings;
use super::{Entry, RETRY_AFTER};
use crate::pipeline::Signal;
use crate::pipeline::listen::{Secured, ServerTls};

/// What a request meets.
#[derive(Clone)]
struct Way {
    entry: Entry,
    signal: Signal,
    max_bytes: usize,
}

/// Serves until told to stop; requests under way are answered.
pub(super) fn serve(
    listener: TcpListener,
    tls: Option<ServerTls>,
    settings: &HttpSettings,
    entry: &Entry,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let mut router = Router::new();
    let paths = [
        (Signal::Traces, &settings.traces_url_path),
        (Signal::Metrics, &settings.metrics_url_path),
        (Signal::Logs, &settings.logs_url_path),
    ];
    for (signal, path) in paths {
        if entry.outlet.takes(signal) {
            let max_bytes = usize::try_from(settings.max_request_body_size.get()).unwrap_or(usize::MAX);
            let way = Way { entry: entry.clone(), signal, max_bytes };
            router = router.route(path, post(take).with_state(Arc::new(way)));
        }
    }
    async move {
        let stopped = stop.cancelled_owned();
        let served = match tls {
            None => axum::serve(listener, router).with_graceful_shutdown(stopped).await,
            Some(tls) => axum::serve(Secured::new(listener, tls), router).with_graceful_shutdown(stopped).await,
        };
        if let Err(error) = served {
            tracing::error!(%error, "OTLP over HTTP is no longer served");
        }
    }
}

async fn take(State(way): State<Arc<Way>>, headers: HeaderMap, body: Body) -> Response {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let Some(encoding) = Encoding::of(text(header::CONTENT_TYPE)) else {
        let supported = "415 unsupported media type, supported: [application/json, application/x-protobuf]";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, supported).into_response();
    };
    let too_large = || {
        let message = format!("the body is larger than max_request_body_size ({} bytes)", way.max_bytes);
        answer(StatusCode::PAYLOAD_TOO_LARGE, encoding, status(Code::ResourceExhausted, message, encoding))
    };
    let malformed = |why| answer(StatusCode::BAD_REQUEST, encoding, status(Code::InvalidArgument, why, encoding));
    let Ok(body) = to_bytes(body, way.max_bytes).await else {
        return too_large();
    };
    let data =
        unpack(body, text(header::CONTENT_ENCODING), way.max_bytes).and_then(|body| decode(body, encoding, way.signal));
    let data = match data {
        Ok(data) => data,
        Err(Unreadable::TooLarge) => return too_large(),
        Err(Unreadable::Malformed(why)) => return malformed(why),
    };
    match way.entry.take(data).await {
        Ok(()) => answer(StatusCode::OK, encoding, accepted(encoding)),
        Err(refused) => {
            let body = status(Code::Unavailable, refused.reason, encoding);
            let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, encoding, body);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
            response
        }
    }
}

fn answer(code: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    (code, [(header::CONTENT_TYPE, encoding.content_type())], body).into_response()
}

/// An empty partial success: all was accepted. Its protobuf form is an empty message.
fn accepted(encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => Vec::new(),
        Encoding::Json => br#"{"partialSuccess":{}}"#.to_vec(),
    }
}

/// A google.rpc.Status, as OTLP wants it for errors.
fn status(code: Code, message: String, encoding: Encoding) -> Vec<u8> {
    let code = code as i32;
    match encoding {
        Encoding::Protobuf => tonic_types::Status { code, message, details: Vec::new() }.encode_to_vec(),
        Encoding::Json => serde_json::json!({"code": code, "message": message}).to_string().into_bytes(),
    }
}
