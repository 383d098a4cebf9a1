//! Pure: the body of a POST: encoded, then compressed.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::settings::OtlpHttpSettings;
use crate::pipeline::client::payload;
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
    let deflate =
        u32::try_from(level).ok().filter(|level| *level > 0).map_or_else(Compression::default, Compression::new);
    let (bytes, content_encoding) = match settings.compression.as_str() {
        "gzip" => (compressed(GzEncoder::new(Vec::new(), deflate), &encoded, GzEncoder::finish)?, Some("gzip")),
        // Both names mean zlib's frame around deflate, in HTTP and in the Collector.
        "zlib" => (compressed(ZlibEncoder::new(Vec::new(), deflate), &encoded, ZlibEncoder::finish)?, Some("zlib")),
        "deflate" => {
            (compressed(ZlibEncoder::new(Vec::new(), deflate), &encoded, ZlibEncoder::finish)?, Some("deflate"))
        }
        "zstd" => (zstd::bulk::compress(&encoded, level.max(0))?.into(), Some("zstd")),
        _ => (encoded.clone(), None),
    };
    let content_type = if json { "application/json" } else { "application/x-protobuf" };
    Ok(Body { bytes, content_type, content_encoding, encoded_bytes: encoded.len() })
}

fn compressed<W: Write>(mut into: W, bytes: &[u8], finish: fn(W) -> io::Result<Vec<u8>>) -> io::Result<Bytes> {
    into.write_all(bytes)?;
    finish(into).map(Bytes::from)
}
