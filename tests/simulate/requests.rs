//! Damaged requests to the `otlp` receiver, by its own decoding: protobuf and JSON, plain and packed. Any bytes give
//! data or a reason, never more than the bound; what is taken is passed on as it came.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use prost::bytes::Bytes;
use schedscope::pipeline::{Data, Signal};
use schedscope::receivers::otlp::{Encoding, Unreadable, decode, unpack};

use super::mutate::{rounds, scratch};

/// Of an unpacked body.
const MAX_BYTES: usize = 16_384;

const TRACES: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},
{"key":"process.pid","value":{"intValue":"7"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[{"traceId":
"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"GET /","kind":2,
"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"thread.id","value":
{"intValue":"8"}},{"key":"list","value":{"arrayValue":{"values":[{"boolValue":true},{"doubleValue":1.5},{"kvlistValue":
{"values":[{"key":"k","value":{"bytesValue":"AAEC"}}]}}]}}}],"events":[{"timeUnixNano":"1","name":"e"}],"links":[{"traceId":
"5b8efff798038103d269b633813fc60d","spanId":"eee19b7ec3c1b175"}],"status":{"code":2,"message":"no"}}]}]}]}"#;
const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","unit":"s","sum":{"isMonotonic":true,
"aggregationTemporality":2,"dataPoints":[{"asInt":"5","timeUnixNano":"9","exemplars":[{"asDouble":1,"spanId":
"eee19b7ec3c1b174"}]}]}},{"name":"h","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"3","sum":1.5,
"bucketCounts":["1","2"],"explicitBounds":[1]}]}},{"name":"g","gauge":{"dataPoints":[{"asDouble":1.5}]}}]}]}]}"#;
const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","severityNumber":9,"body":
{"stringValue":"hello"},"traceId":"5b8efff798038103d269b633813fc60c","attributes":[]}]}]}]}"#;

/// The data as the receiver's own encoding has it.
fn encoded(data: Data) -> Vec<u8> {
    match data {
        Data::Traces(resource_spans) => ExportTraceServiceRequest { resource_spans }.encode_to_vec(),
        Data::Metrics(resource_metrics) => ExportMetricsServiceRequest { resource_metrics }.encode_to_vec(),
        _ => Vec::new(),
    }
}

fn packed(bytes: &[u8], encoding: &str) -> Vec<u8> {
    use std::io::Write;
    match encoding {
        "gzip" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(bytes).unwrap();
            packer.finish().unwrap()
        }
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

/// How many bodies were taken, and why the others were not.
#[derive(Debug, Default)]
struct Told {
    taken: u64,
    malformed: u64,
    too_large: u64,
}

fn take(body: Vec<u8>, packing: &str, encoding: Encoding, signal: Signal, told: &mut Told) -> Result<(), String> {
    let unpacked = match unpack(Bytes::from(body), packing, MAX_BYTES) {
        Ok(bytes) if !packing.is_empty() && bytes.len() > MAX_BYTES => return Err(format!("{} bytes", bytes.len())),
        other => other,
    };
    match unpacked.and_then(|bytes| decode(bytes, encoding, signal)) {
        Ok(data) => {
            told.taken += 1;
            let once = encoded(data);
            let again = decode(Bytes::from(once.clone()), Encoding::Protobuf, signal);
            let again = again.map(encoded).map_err(|why| format!("not taken again: {why:?}"))?;
            if once != again { Err("another thing at the second time".to_owned()) } else { Ok(()) }
        }
        Err(Unreadable::TooLarge) => {
            told.too_large += 1;
            Ok(())
        }
        Err(Unreadable::Malformed(why)) => {
            told.malformed += 1;
            if why.is_empty() { Err("refused without a reason".to_owned()) } else { Ok(()) }
        }
    }
}

#[test]
fn damaged_requests_are_taken_or_refused() {
    let mut random = fastrand::Rng::with_seed(9);
    let texts = [(TRACES, Signal::Traces), (METRICS, Signal::Metrics), (LOGS, Signal::Logs)];
    let mut told = Told::default();
    let seeds: Vec<(Vec<u8>, Encoding, Signal)> = texts
        .into_iter()
        .flat_map(|(text, signal)| {
            let data = decode(Bytes::from(text), Encoding::Json, signal).unwrap();
            let json = (text.as_bytes().to_vec(), Encoding::Json, signal);
            [json, (encoded(data), Encoding::Protobuf, signal)]
        })
        .filter(|(bytes, _, _)| !bytes.is_empty())
        .collect();
    let packings = ["", "", "", "gzip", "zstd"];
    for round in 0..rounds() {
        let (bytes, encoding, signal) = seeds[round % seeds.len()].clone();
        let packing = packings[random.usize(0..packings.len())];
        // the bytes or their package, and at times a body of the other encoding
        let mut body = if random.bool() { bytes } else { packed(&bytes, packing) };
        scratch(&mut body, &mut random);
        if random.bool() && !packing.is_empty() {
            body = packed(&body, packing);
        }
        let encoding = match random.u8(0..20) {
            0 => Encoding::Json,
            1 => Encoding::Protobuf,
            _ => encoding,
        };
        if let Err(why) = take(body.clone(), packing, encoding, signal, &mut told) {
            panic!("round {round}: {why}\n{:?}", String::from_utf8_lossy(&body));
        }
    }
    println!("{told:?}");
    assert!(told.taken > 0 && told.malformed > 0, "{told:?}");
}

/// Bodies that nest or repeat without end: a reason, and no stack that overflows.
#[test]
fn bottomless_requests_are_refused() {
    let mut told = Told::default();
    let nest = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let attribute = |value: String| {
        format!(r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"a","value":{value}}}]}}}}]}}"#)
    };
    for depth in [10, 100, 1_000, 100_000] {
        let array = attribute(nest(r#"{"arrayValue":{"values":["#, "]}}", depth));
        take(array.into_bytes(), "", Encoding::Json, Signal::Traces, &mut told).unwrap();
        take(nest("[", "]", depth).into_bytes(), "", Encoding::Json, Signal::Traces, &mut told).unwrap();
        // AnyValue.array_value.values, over and over, each as long as what is in it
        let mut message = Vec::new();
        for _ in 0..depth.min(20_000) {
            let mut outer = vec![0x0a];
            prost::encoding::encode_varint(message.len() as u64, &mut outer);
            message.splice(0..0, outer);
        }
        take(message, "", Encoding::Protobuf, Signal::Traces, &mut told).unwrap();
    }
    let bomb = packed(&vec![b' '; 50 << 20], "zstd");
    take(bomb, "zstd", Encoding::Json, Signal::Traces, &mut told).unwrap();
    println!("{told:?}");
    assert!(told.malformed >= 6 && told.too_large == 1, "{told:?}");
}
