use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use super::*;
use crate::config::parse::parse;

struct World(BTreeMap<&'static str, &'static str>);

impl Environment for World {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }

    fn read(&self, _path: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn laid_over(variables: &[(&'static str, &'static str)]) -> Result<(String, Vec<String>), String> {
    let overlay = overlay(&World(variables.iter().copied().collect())).map_err(|problems| problems.to_string())?;
    let text = overlay.document.map(|document| document.text).unwrap_or_default();
    assert!(parse(&"t".into(), &text).is_ok());
    let json: Json = serde_json::from_str(&text).unwrap_or_default();
    Ok((json["exporters"].to_string(), overlay.notes))
}

#[test]
fn nothing_set_is_nothing_laid_over() {
    assert_eq!(laid_over(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]).unwrap(), ("null".into(), vec![]));
    assert_eq!(laid_over(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap(), ("null".into(), vec![]));
    let resolved = resolve_or_default(&[], &[], &World(BTreeMap::new())).unwrap();
    assert!(resolved.root.get("exporters").unwrap().get("table").unwrap().is_null());
}

#[test]
fn the_port_or_the_variable_chooses_the_protocol() {
    for (endpoint, protocol, exporters) in [
        ("http://c:4317", "", r#"{"otlp_grpc":{"endpoint":"http://c:4317","timeout":"10s"}}"#),
        ("c:4317", "", r#"{"otlp_grpc":{"endpoint":"c:4317","timeout":"10s"}}"#),
        ("http://c:4318", "", r#"{"otlp_http":{"endpoint":"http://c:4318","timeout":"10s"}}"#),
        ("https://x.example/otlp", "", r#"{"otlp_http":{"endpoint":"https://x.example/otlp","timeout":"10s"}}"#),
        ("http://c:4318", "grpc", r#"{"otlp_grpc":{"endpoint":"http://c:4318","timeout":"10s"}}"#),
        (
            "http://c:4317",
            "http/json",
            r#"{"otlp_http":{"endpoint":"http://c:4317","encoding":"json","timeout":"10s"}}"#,
        ),
    ] {
        let got = laid_over(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        assert_eq!(got.unwrap().0, exporters);
    }
}

#[test]
fn all_the_variables_count() {
    let (exporters, notes) = laid_over(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:pw@t.example/v1/traces?k=s"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "m.example:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20a%24b, x-k = v=w ,"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "only=this"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/c.pem"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "TRUE"),
    ])
    .unwrap();
    let json: Json = serde_json::from_str(&exporters).unwrap();
    assert_eq!(
        json,
        json!({
            "otlp_http": {
                "traces_endpoint": "https://u:pw@t.example/v1/traces?k=s",
                "headers": {"authorization": "Bearer a$$b", "x-k": "v=w"},
                "compression": "gzip",
                "timeout": "2500ms",
                "tls": {"ca_file": "/ca.pem", "cert_file": "/c.pem", "key_file": "/k.pem"},
            },
            "otlp_grpc": {
                "endpoint": "m.example:4317",
                "headers": {"only": "this"},
                "compression": "gzip",
                "timeout": "2500ms",
                "tls": {"ca_file": "/ca.pem", "cert_file": "/c.pem", "key_file": "/k.pem", "insecure": true},
            },
        })
    );
    assert_eq!(
        notes,
        [
            "traces go to https://t.example/v1/traces by http/protobuf (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)",
            "metrics go to m.example:4317 by grpc (OTEL_EXPORTER_OTLP_METRICS_ENDPOINT)"
        ]
    );
}

#[test]
fn two_exporters_of_one_type_get_names() {
    let (exporters, _) =
        laid_over(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")])
            .unwrap();
    assert!(exporters.contains(r#""otlp_grpc/metrics":{"endpoint":"http://c:4317","timeout":"1ms"}"#), "{exporters}");
    let (exporters, notes) =
        laid_over(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_TRACES_EXPORTER", "none")]).unwrap();
    assert_eq!((exporters.matches("otlp_grpc").count(), notes.len()), (1, 1));
}

#[test]
fn mistakes_name_the_variable_and_show_no_header() {
    let told = laid_over(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4317"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cr3t,a=%ff"),
    ])
    .unwrap_err();
    assert_eq!(
        told,
        "environment variable OTEL_EXPORTER_OTLP_HEADERS: pair 1 has no `=`; write key=value,key=value\n\
         environment variable OTEL_EXPORTER_OTLP_HEADERS: pair 2 cannot be decoded\n\
         environment variable OTEL_EXPORTER_OTLP_TIMEOUT: `10s` is no number of milliseconds"
    );
    let told = laid_over(&[
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift"),
    ]);
    assert!(told.unwrap_err().contains("OTEL_EXPORTER_OTLP_PROTOCOL: `thrift` is none of"));
}
