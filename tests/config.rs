//! Configs as files: what is refused and in which words, what is accepted and what it amounts to; the shipped
//! default, the reference and the schema; and that no input whatever ends in a panic.
//!
//! `UPDATE=1 cargo test --test config` rewrites the expected texts and `config/reference.md`: read the diff.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own data fails")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use schedscope::cli::components::{components, schema};
use schedscope::cli::print_config::{Format, PrintOptions, print_config};
use schedscope::cli::reference::reference;
use schedscope::cli::validate::validate;
use schedscope::components::COMPONENTS;
use schedscope::config::{Environment, ProcessEnvironment};

/// The variables of a test; files are the real ones.
struct Variables(BTreeMap<&'static str, &'static str>);

impl Variables {
    fn new(variables: &[(&'static str, &'static str)]) -> Self {
        Self(variables.iter().copied().collect())
    }
}

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        ProcessEnvironment.read(path)
    }
}

fn world() -> Variables {
    Variables::new(&[
        ("EU", "eu.example"),
        ("TOKEN", "s3cr3t"),
        ("EXPORTERS", "[otlp/eu, otlp/us]"),
        ("WORDS", "soon"),
        ("LOOP", "${env:LOOP}"),
    ])
}

fn documents(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new("tests/data/config").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Compares with the text in a file, or writes it.
fn expect(path: &Path, got: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, got).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(got, expected, "{} differs; UPDATE=1 rewrites it", path.display());
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn wrong_configs_are_refused_in_these_words() {
    for path in documents("invalid") {
        let refused = validate(&[text(&path)], &[], &world(), &COMPONENTS);
        assert_eq!((refused.code, refused.output.as_str()), (1, ""), "{}", path.display());
        assert!(!refused.messages.contains("s3cr3t"), "{}", refused.messages);
        expect(&path.with_extension("txt"), &refused.messages);
    }
}

#[test]
fn right_configs_amount_to_this() {
    for path in documents("valid") {
        let sources = [text(&path)];
        let checked = validate(&sources, &[], &world(), &COMPONENTS);
        assert_eq!(checked.code, 0, "{}", checked.messages);
        assert_eq!(checked.output, "");
        let printed = print_config(&sources, &[], PrintOptions::default(), &world(), &COMPONENTS);
        assert!(!printed.output.contains("s3cr3t"));
        expect(&path.with_extension("txt"), &format!("{}{}", printed.messages, printed.output));

        // what is printed means the same again
        let open = PrintOptions { unredacted: true, ..PrintOptions::default() };
        let again = print_config(&sources, &[], open, &world(), &COMPONENTS).output;
        let once_more = print_config(&[format!("yaml:{}", again.replace('$', "$$"))], &[], open, &world(), &COMPONENTS);
        assert_eq!(once_more.output, again, "{}", once_more.messages);
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    for (source, told) in [
        ("tests/data/config", "tests/data/config: a directory; name a file in it"),
        ("no/such.yaml", "no/such.yaml: no such file"),
        ("file:no/such.yaml", "no/such.yaml: no such file"),
        ("", "a config file without a name"),
        (
            "https://example.test/a.yaml",
            "--config https:...: `https:` is not supported; fetch the document and name the file",
        ),
        ("vault:x", "--config vault:...: unknown scheme `vault`; there are env, file and yaml"),
        ("env:NOT_SET", "env:NOT_SET: empty configuration file"),
        (
            "env:NO-NAME",
            "`NO-NAME` cannot be the name of an environment variable (letters, digits and `_`, no digit first); for a literal `${` write `$${`",
        ),
    ] {
        let refused = validate(&[source.to_owned()], &[], &world(), &COMPONENTS);
        assert_eq!(refused.messages, format!("{told}\n1 error, nothing was started\n"));
    }
    let both = validate(&["a".into(), "b".into()], &["x".into(), ".y=1".into()], &world(), &COMPONENTS);
    assert!(both.messages.ends_with("4 errors, nothing was started\n"), "{}", both.messages);
}

#[test]
fn documents_and_set_lay_over_each_other() {
    let variables = Variables::new(&[("OVER", "processors: {batch: {timeout: 2s}}"), ("N", "0x20")]);
    let sources = [
        "tests/data/config/valid/design.yaml".to_owned(),
        "env:OVER".to_owned(),
        "yaml:processors::batch::send_batch_size: ${env:N}".to_owned(),
        "yaml:processors::sched_spans: {}".to_owned(),
    ];
    let sets = [
        "processors.batch.send_batch_max_size=100".to_owned(),
        "exporters::otlp_grpc::headers={a: 1, b: s3cr3t}".to_owned(),
    ];
    let print = |options| {
        let printed = print_config(&sources, &sets, options, &variables, &COMPONENTS);
        serde_json::from_str::<serde_json::Value>(&printed.output).unwrap_or_else(|_| panic!("{}", printed.messages))
    };
    let json = PrintOptions { format: Format::Json, ..PrintOptions::default() };
    let written = print(json);
    assert_eq!(
        written["processors"]["batch"],
        serde_json::json!({"timeout": "2s", "send_batch_size": 32, "send_batch_max_size": 100})
    );
    assert_eq!(written["exporters"]["otlp_grpc"]["headers"], serde_json::json!({"a": "[REDACTED]", "b": "[REDACTED]"}));
    let effective = print(PrintOptions { defaults: true, unredacted: true, ..json });
    assert_eq!(effective["exporters"]["otlp_grpc"]["headers"]["b"], "s3cr3t");
    assert_eq!(effective["exporters"]["otlp_grpc"]["tls"]["insecure"], true);
    assert_eq!(effective["receivers"]["sched"]["collection_interval"], "10s");
    assert_eq!(effective["service"]["shutdown_timeout"], "10s");
    let erased = validate(&[sources[0].clone(), "yaml:processors:".into()], &[], &variables, &COMPONENTS);
    assert!(erased.messages.contains("processor `container` is not defined under processors"), "{}", erased.messages);
}

#[test]
fn the_embedded_default_is_right_with_and_without_variables() {
    for variables in [
        vec![],
        vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=s3cr3t")],
        vec![
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://example.test/v1/traces"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ],
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
            ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram"),
        ],
    ] {
        let checked = print_config(&[], &[], PrintOptions::default(), &Variables::new(&variables), &COMPONENTS);
        assert_eq!((checked.code, checked.messages.as_str()), (0, ""), "{variables:?}");
        assert!(!checked.output.contains("s3cr3t"));
        assert_eq!(checked.output.contains("\n  otlp_"), !variables.is_empty(), "{}", checked.output);
    }
}

#[test]
fn the_reference_is_what_the_settings_say() {
    expect(Path::new("config/reference.md"), &reference(&COMPONENTS));
}

#[test]
fn components_are_listed_as_a_collector_does() {
    let listed = components("1.2.3", &COMPONENTS).output;
    assert!(listed.starts_with("buildinfo:\n  command: schedscope\n"), "{listed}");
    assert!(listed.contains("- name: batch\n  module: schedscope 1.2.3\n  stability:\n    logs: "), "{listed}");
    let schema: serde_json::Value = serde_json::from_str(&schema(&COMPONENTS).output).unwrap();
    let receivers = &schema["properties"]["receivers"];
    assert_eq!(receivers["additionalProperties"], false);
    assert_eq!(receivers["properties"]["sched"], receivers["patternProperties"]["^sched/.+$"]);
    assert_eq!(schema["properties"]["exporters"]["properties"]["otlp"]["deprecated"], true);
    // every reference leads somewhere
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(schema.pointer(&pointer.replace("~1", "/")).is_some(), "{pointer}");
    }
}

/// Runs everything that reads a document; whatever it is, the answer is a code and a text.
fn survive(bytes: &[u8]) {
    struct OneFile<'a>(&'a [u8]);
    impl Environment for OneFile<'_> {
        fn variable(&self, name: &str) -> Option<OsString> {
            (name.len() < 6).then(|| String::from_utf8_lossy(self.0).replace('\0', "").into())
        }
        fn read(&self, _path: &str) -> io::Result<Vec<u8>> {
            Ok(self.0.to_vec())
        }
    }
    let sources = ["a.yaml".to_owned()];
    let checked = validate(&sources, &[], &OneFile(bytes), &COMPONENTS);
    assert!(checked.code <= 1);
    assert!(checked.code == 0 || checked.messages.ends_with("nothing was started\n"));
    let printed = print_config(
        &sources,
        &[],
        PrintOptions { defaults: true, ..Default::default() },
        &OneFile(bytes),
        &COMPONENTS,
    );
    assert_eq!(printed.code, checked.code);
    let text = String::from_utf8_lossy(bytes);
    validate(
        &["a.yaml".into(), format!("yaml:{text}")],
        &[format!("a={text}"), text.into_owned()],
        &OneFile(bytes),
        &COMPONENTS,
    );
}

/// Bits of YAML and of our configs.
const TOKENS: [&str; 40] = [
    "receivers",
    "processors",
    "exporters",
    "service",
    "pipelines",
    "metrics",
    "sched",
    "batch",
    "otlp",
    ":",
    ": ",
    "\n",
    "\n  ",
    "\n    ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "\"",
    "'",
    "|",
    ">",
    "#",
    "!!str ",
    "? ",
    "---\n",
    "\t",
    "$",
    "${env:A}",
    "${",
    "$${",
    "::",
    "~",
    "0x",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survive(&bytes);
    }

    #[test]
    fn soups_of_tokens_are_survived(tokens in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 0..120)) {
        survive(tokens.concat().as_bytes());
    }

    #[test]
    fn damaged_configs_are_survived(
        which in 0..12usize,
        damages in proptest::collection::vec((any::<prop::sample::Index>(), 0..4usize, any::<prop::sample::Index>()), 1..6),
    ) {
        let all: Vec<PathBuf> = [documents("valid"), documents("invalid")].concat();
        let mut bytes = std::fs::read(&all[which % all.len()]).unwrap();
        for (place, kind, other) in damages {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match kind {
                0 => drop(bytes.remove(at)),
                1 => drop(bytes.splice(at..at, TOKENS[other.index(TOKENS.len())].bytes())),
                2 => bytes.truncate(at),
                _ => {
                    let piece = bytes[at.min(other.index(bytes.len()))..at].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        survive(&bytes);
    }
}
