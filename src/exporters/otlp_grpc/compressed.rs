//! Requests whose message is gzip before tonic sees it: tonic compresses at level 6, and nothing sets another. Refuses
//! to know: what a message says.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderValue, Request};
use tonic::body::Body;
use tonic::transport::Channel;
use tower::util::MapRequest;

/// A channel with what is done to its requests.
pub(super) type Told = MapRequest<Channel, fn(Request<Body>) -> Request<Body>>;

/// The channel, its requests told to be gzip or left as they are.
pub(super) fn told(channel: Channel, is_gzip: bool) -> Told {
    MapRequest::new(channel, if is_gzip { tell } else { |request| request })
}

/// Says by the header, and by the flag before the message, what tonic took for uncompressed.
fn tell(request: Request<Body>) -> Request<Body> {
    let (mut parts, body) = request.into_parts();
    parts.headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
    let chunks = axum::body::Body::new(body).into_data_stream().enumerate();
    let chunks = chunks.map(|(at, chunk)| chunk.map(|bytes| if at == 0 { flagged(bytes) } else { bytes }));
    Request::from_parts(parts, Body::new(axum::body::Body::from_stream(chunks)))
}

/// The first byte of a request that is one message is its flag (gRPC over HTTP2, "Length-Prefixed-Message").
fn flagged(bytes: Bytes) -> Bytes {
    let mut bytes = BytesMut::from(bytes);
    if let Some(flag) = bytes.first_mut() {
        *flag = 1;
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_flag_and_header_change() {
        let sent: [&'static [u8]; 2] = [&[0, 0, 0, 0, 4, 0x1f], &[0x8b, 8, 0]];
        let chunks = sent.map(|bytes| Ok::<_, std::io::Error>(Bytes::from_static(bytes)));
        let body = Body::new(axum::body::Body::from_stream(futures_util::stream::iter(chunks)));
        let told = tell(Request::new(body));
        assert_eq!(told.headers()["grpc-encoding"], "gzip");
        let bytes = axum::body::to_bytes(axum::body::Body::new(told.into_body()), 100).await.unwrap();
        assert_eq!(bytes, &[1, 0, 0, 0, 4, 0x1f, 0x8b, 8, 0][..]);
    }
}
