//! Pure: a request body to data: decompression within bounds, protobuf or JSON.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use prost::bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::pipeline::{Data, Signal};

/// How a body is written; the answer is written so too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Binary protobuf.
    Protobuf,
    /// The JSON mapping of OTLP.
    Json,
}

impl Encoding {
    /// By the Content-Type, whose parameters do not matter.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/x-protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// Why a body cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Larger than allowed once unpacked.
    TooLarge,
    /// Not what its headers say.
    Malformed(String),
}

/// The body as it was before `content_encoding`, at most `max_bytes` of it.
///
/// # Errors
/// Where it is none, or larger.
pub fn unpack(body: Bytes, content_encoding: &str, max_bytes: usize) -> Result<Bytes, Unreadable> {
    let unpacked = match content_encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(body),
        "gzip" => read(MultiGzDecoder::new(&body[..]), max_bytes),
        "deflate" | "zlib" => read(ZlibDecoder::new(&body[..]), max_bytes),
        "zstd" => zstd::stream::read::Decoder::new(&body[..])
            .map_err(|error| Unreadable::Malformed(error.to_string()))
            .and_then(|decoder| read(decoder, max_bytes)),
        other => Err(Unreadable::Malformed(format!(
            "unsupported Content-Encoding: {other}; send gzip, zstd, deflate or none"
        ))),
    };
    unpacked.map(Bytes::from)
}

fn read(reader: impl Read, max_bytes: usize) -> Result<Vec<u8>, Unreadable> {
    let mut unpacked = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(&mut unpacked).map_err(|error| Unreadable::Malformed(error.to_string()))?;
    if unpacked.len() > max_bytes { Err(Unreadable::TooLarge) } else { Ok(unpacked) }
}

/// The data in an unpacked body.
///
/// # Errors
/// Where it is no request of that signal.
pub fn decode(body: Bytes, encoding: Encoding, signal: Signal) -> Result<Data, Unreadable> {
    match signal {
        Signal::Metrics => {
            message(body, encoding).map(|request: ExportMetricsServiceRequest| Data::Metrics(request.resource_metrics))
        }
        Signal::Logs => {
            message(body, encoding).map(|request: ExportLogsServiceRequest| Data::Logs(request.resource_logs))
        }
        Signal::Traces | Signal::Sched => {
            message(body, encoding).map(|request: ExportTraceServiceRequest| Data::Traces(request.resource_spans))
        }
    }
}

fn message<T: Message + Default + DeserializeOwned>(body: Bytes, encoding: Encoding) -> Result<T, Unreadable> {
    match encoding {
        Encoding::Protobuf => T::decode(body).map_err(|error| Unreadable::Malformed(error.to_string())),
        Encoding::Json => serde_json::from_slice(&body).map_err(|error| Unreadable::Malformed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_small_body_that_unpacks_to_a_large_one_is_refused() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![0; 1 << 20]).unwrap();
        let packed = Bytes::from(packer.finish().unwrap());
        assert!(packed.len() < 2000);
        assert_eq!(unpack(packed.clone(), "gzip", 1000), Err(Unreadable::TooLarge));
        assert_eq!(unpack(packed, "gzip", 1 << 20).unwrap().len(), 1 << 20);
        assert!(matches!(unpack(Bytes::from_static(b"no gzip"), "gzip", 10), Err(Unreadable::Malformed(_))));
        assert!(matches!(unpack(Bytes::new(), "br", 10), Err(Unreadable::Malformed(_))));
    }

    #[test]
    fn the_content_type_decides() {
        assert_eq!(Encoding::of("application/json; charset=utf-8"), Some(Encoding::Json));
        assert_eq!(Encoding::of("Application/X-Protobuf"), Some(Encoding::Protobuf));
        assert_eq!(Encoding::of("text/plain"), None);
    }

    #[test]
    fn json_follows_the_otlp_mapping() {
        let text = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",
            "spanId":"eee19b7ec3c1b174","name":"a","kind":2,"startTimeUnixNano":"1544712660000000000",
            "endTimeUnixNano":1544712661000000000,"unknownField":1}]}]}]}"#;
        let Ok(Data::Traces(blocks)) = decode(Bytes::from_static(text.as_bytes()), Encoding::Json, Signal::Traces)
        else {
            panic!("not decoded");
        };
        let span = &blocks[0].scope_spans[0].spans[0];
        assert_eq!(span.trace_id[..2], [0x5b, 0x8e]);
        assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1_000_000_000);
        assert_eq!(span.kind, 2);
    }
}
