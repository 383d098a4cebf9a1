//! Pure: the body of a POST: encoded, then compressed.

use std::io;

use bytes::Bytes;

use super::settings::OtlpHttpSettings;
use crate::pipeline::client::{deflate, payload};
use crate::pipeline::{Data, json};

/// A body with the headers that describe it.
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) content_type: &'static str,
    pub(super) content_encoding: Option<&'static str>,
    /// Bytes before compression.
    pub(super) encoded_bytes: usize,
}

pub(super) fn make(data: &Data, settings: &OtlpHttpSettings) -> io::Result<Body> {
    let json = settings.encoding == "json";
    let encoded = if json { Bytes::from(json::encode(data)) } else { payload::encode(data) };
    let level = settings.compression_params.level;
    let (bytes, content_encoding) = match settings.compression.as_str() {
        "gzip" => (deflate::gzip(&encoded, level)?, Some("gzip")),
        "zlib" => (deflate::zlib(&encoded, level)?, Some("zlib")),
        "deflate" => (deflate::zlib(&encoded, level)?, Some("deflate")),
        "zstd" => (zstd::bulk::compress(&encoded, level.max(0))?.into(), Some("zstd")),
        _ => (encoded.clone(), None),
    };
    let content_type = if json { "application/json" } else { "application/x-protobuf" };
    Ok(Body { bytes, content_type, content_encoding, encoded_bytes: encoded.len() })
}
