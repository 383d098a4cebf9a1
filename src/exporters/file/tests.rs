use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::*;
use crate::config::Body;
use crate::pipeline::BuildContext;
use crate::telemetry::Telemetry;

async fn started(yaml: &str) -> Box<dyn Exporter> {
    let body = Body::from_yaml("exporters::file", yaml).unwrap();
    let context = BuildContext::new("file".into(), Telemetry::default(), "0");
    let exporter = (FACTORY.build)(&body, Signal::Traces, &context).map_err(|problems| problems.to_string()).unwrap();
    exporter.exporter.start(&Host::default()).await.unwrap();
    exporter.exporter
}

fn data(name_bytes: usize) -> Data {
    let span = Span { name: "x".repeat(name_bytes), span_id: vec![1; 8], ..Span::default() };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    Data::Traces(vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }])
}

#[tokio::test]
async fn lines_are_otlp_json_and_two_exporters_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/out.jsonl");
    let yaml = format!("{{path: {}, create_directory: true}}", path.display());
    let (first, second) = (started(&yaml).await, started(&yaml).await);
    for _ in 0..10 {
        first.export(&data(3)).await.unwrap();
        second.export(&data(5)).await.unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 20);
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"], "0101010101010101");
    }
}

#[tokio::test]
async fn records_have_a_length_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.bin");
    let exporter = started(&format!("{{path: {}, format: proto, compression: zstd}}", path.display())).await;
    exporter.export(&data(1000)).await.unwrap();
    exporter.export(&data(1000)).await.unwrap();
    let mut rest = std::fs::read(&path).unwrap();
    let mut records = 0;
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let request = zstd::bulk::decompress(&rest[4..4 + length], 1 << 20).unwrap();
        assert_eq!(request, payload::encode(&data(1000)));
        rest.drain(..4 + length);
        records += 1;
    }
    assert_eq!(records, 2);
}

#[tokio::test]
async fn rotation_keeps_so_many_and_loses_no_line_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let yaml = format!("{{path: {}, rotation: {{max_megabytes: 1, max_backups: 2}}}}", path.display());
    let (first, second) = (started(&yaml).await, started(&yaml).await);
    for _ in 0..6 {
        first.export(&data(700_000)).await.unwrap();
        second.export(&data(10)).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 2);
    }
}

#[test]
fn mistakes_are_told() {
    let told =
        |yaml| Body::from_yaml("exporters::file", yaml).unwrap().decode::<FileSettings>().unwrap_err().to_string();
    assert!(told("{}").contains("exporters::file::path"));
    assert!(told("{path: a, append: true, rotation: {}}").contains("rotation"));
    assert!(told("{path: a, format: xml, compression: gzip}").contains("compression"));
}
