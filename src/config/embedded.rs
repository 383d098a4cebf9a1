//! The config of a run without `--config`: the embedded document, and what `OTEL_EXPORTER_OTLP_*` lay over it.
//!
//! Only here do these variables count, as nowhere in a Collector: a config file says `${env:...}` itself.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value as Json, json};

use super::problem::Problems;
use super::resolve::{Resolved, resolve, resolve_documents};
use super::source::{Document, Environment, plain_problem, variable_text};

/// The embedded document.
pub const DEFAULT: &str = include_str!("../../config/default.yaml");

/// The name of the embedded document in messages.
const DEFAULT_NAME: &str = "embedded default.yaml";

/// The config that the command line asks for: the named sources, else the embedded default with the variables.
///
/// # Errors
/// As [`resolve`]; and every variable that cannot be understood.
pub fn resolve_or_default(
    sources: &[String],
    sets: &[String],
    environment: &dyn Environment,
) -> Result<Resolved, Problems> {
    if !sources.is_empty() {
        return resolve(sources, sets, environment);
    }
    let mut documents = vec![Document { name: DEFAULT_NAME.into(), text: DEFAULT.to_owned() }];
    let overlay = overlay(environment)?;
    let notes = overlay.notes;
    documents.extend(overlay.document);
    Ok(Resolved { notes, ..resolve_documents(&documents, sets, environment)? })
}

/// What the variables ask for.
#[derive(Default)]
struct Overlay {
    document: Option<Document>,
    notes: Vec<String>,
}

/// One signal's way out.
#[derive(Clone, Copy)]
struct Target {
    /// Its pipeline and the word in per-signal keys.
    word: &'static str,
    /// The part of the variables' names.
    infix: &'static str,
    /// What makes it of scheduling data.
    processor: &'static str,
}

const TARGETS: [Target; 2] = [
    Target { word: "traces", infix: "TRACES_", processor: "sched_spans" },
    Target { word: "metrics", infix: "METRICS_", processor: "sched_metrics" },
];

fn overlay(environment: &dyn Environment) -> Result<Overlay, Problems> {
    let mut reader = Reader { environment, problems: Problems::default() };
    let mut exporters = Map::new();
    let mut pipelines = Map::new();
    let mut processors = Map::new();
    let mut notes = Vec::new();
    for target in TARGETS {
        let Some(exporter) = reader.exporter(target) else { continue };
        notes.push(exporter.note);
        // both signals share an exporter where nothing differs
        let shared = exporters
            .iter()
            .find(|(_, settings)| **settings == exporter.settings)
            .map(|(id, _): (&String, _)| id.clone());
        let id = shared.unwrap_or_else(|| match exporters.contains_key(exporter.component) {
            true => format!("{}/{}", exporter.component, target.word),
            false => exporter.component.to_owned(),
        });
        exporters.insert(id.clone(), exporter.settings);
        processors.insert(target.processor.to_owned(), Json::Null);
        processors.insert("batch".to_owned(), Json::Null);
        let way =
            json!({"receivers": ["sched"], "processors": ["container", target.processor, "batch"], "exporters": [id]});
        pipelines.insert(target.word.to_owned(), way);
    }
    if pipelines.is_empty() {
        return reader.problems.or(Overlay::default());
    }
    if pipelines.contains_key("metrics") {
        processors.insert("sched_metrics".to_owned(), reader.metric_settings());
    }
    let mut document = json!({"processors": processors, "exporters": exporters, "service": {"pipelines": pipelines}});
    if let Some(interval) = reader.milliseconds("OTEL_METRIC_EXPORT_INTERVAL") {
        document["receivers"] = json!({"sched": {"collection_interval": interval}});
    }
    escape(&mut document);
    let document = Document { name: "OTEL_* variables".into(), text: format!("{document:#}") };
    reader.problems.or(Overlay { document: Some(document), notes })
}

/// What the variables hold is text: no reference in it is expanded.
fn escape(value: &mut Json) {
    match value {
        Json::String(text) => *text = text.replace('$', "$$"),
        Json::Array(items) => items.iter_mut().for_each(escape),
        Json::Object(map) => map.values_mut().for_each(escape),
        _ => {}
    }
}

/// An exporter as the variables describe it.
struct Described {
    component: &'static str,
    settings: Json,
    note: String,
}

struct Reader<'a> {
    environment: &'a dyn Environment,
    problems: Problems,
}

impl Reader<'_> {
    /// A variable that is set and not empty: an empty one counts as not set.
    fn variable(&mut self, name: &str) -> Option<String> {
        match variable_text(name, self.environment) {
            Ok(text) => text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
            Err(message) => {
                self.problem(name, message);
                None
            }
        }
    }

    /// The signal's own variable, else the general one; with the name of the one that counts.
    fn either(&mut self, target: Target, name: &str) -> Option<(String, String)> {
        [format!("OTEL_EXPORTER_OTLP_{}{name}", target.infix), format!("OTEL_EXPORTER_OTLP_{name}")]
            .into_iter()
            .find_map(|variable| self.variable(&variable).map(|value| (variable, value)))
    }

    fn problem(&mut self, name: &str, message: impl AsRef<str>) {
        self.problems.push(plain_problem(format!("environment variable {name}: {}", message.as_ref())));
    }

    fn milliseconds(&mut self, name: &str) -> Option<String> {
        let text = self.variable(name)?;
        if text.parse::<u64>().is_err() {
            self.problem(name, format!("`{text}` is no number of milliseconds"));
            return None;
        }
        Some(format!("{text}ms"))
    }

    fn exporter(&mut self, target: Target) -> Option<Described> {
        let switch = format!("OTEL_{}EXPORTER", target.infix);
        if self.variable(&switch).as_deref() == Some("none") {
            return None;
        }
        let (source, endpoint) = self.either(target, "ENDPOINT")?;
        let is_own = source.contains(target.infix);
        let protocol = self.protocol(target, &endpoint)?;
        let mut settings = Map::new();
        let component = if protocol == "grpc" {
            settings.insert("endpoint".into(), endpoint.as_str().into());
            "otlp_grpc"
        } else {
            let key = if is_own { format!("{}_endpoint", target.word) } else { "endpoint".into() };
            settings.insert(key, endpoint.as_str().into());
            if protocol == "http/json" {
                settings.insert("encoding".into(), "json".into());
            }
            "otlp_http"
        };
        let headers = self.headers(target);
        if !headers.is_empty() {
            settings.insert("headers".into(), headers.into());
        }
        if let Some((_, compression)) = self.either(target, "COMPRESSION") {
            settings.insert("compression".into(), compression.into());
        }
        let timeout = match self.either(target, "TIMEOUT") {
            Some((name, _)) => self.milliseconds(&name),
            None => Some("10s".into()),
        };
        settings.insert("timeout".into(), timeout.into());
        let tls = self.tls(target, protocol == "grpc" && !endpoint.contains("://"));
        if !tls.is_empty() {
            settings.insert("tls".into(), tls.into());
        }
        let note = format!("{} go to {} by {protocol} ({source})", target.word, without_credentials(&endpoint));
        Some(Described { component, settings: settings.into(), note })
    }

    /// The protocol that is named, else gRPC on its port, else HTTP.
    fn protocol(&mut self, target: Target, endpoint: &str) -> Option<&'static str> {
        let Some((name, protocol)) = self.either(target, "PROTOCOL") else {
            let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
            let authority = authority.split('/').next().unwrap_or_default();
            return Some(if authority.ends_with(":4317") { "grpc" } else { "http/protobuf" });
        };
        let known = ["grpc", "http/protobuf", "http/json"].into_iter().find(|known| *known == protocol);
        if known.is_none() {
            self.problem(&name, format!("`{protocol}` is none of grpc, http/protobuf, http/json"));
        }
        known
    }

    /// `key=value,key=value`, values percent-encoded. Messages show no value.
    fn headers(&mut self, target: Target) -> Map<String, Json> {
        let mut headers = Map::new();
        let Some((name, text)) = self.either(target, "HEADERS") else { return headers };
        for (index, pair) in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).enumerate() {
            let number = index + 1;
            let Some((key, value)) = pair.split_once('=') else {
                self.problem(&name, format!("pair {number} has no `=`; write key=value,key=value"));
                continue;
            };
            let decoded = |part: &str| percent_decode_str(part.trim()).decode_utf8().map(|text| text.into_owned());
            match (decoded(key), decoded(value)) {
                (Ok(key), Ok(value)) if !key.is_empty() => {
                    headers.insert(key.to_lowercase(), value.into());
                }
                _ => self.problem(&name, format!("pair {number} cannot be decoded")),
            }
        }
        headers
    }

    fn tls(&mut self, target: Target, may_be_insecure: bool) -> Map<String, Json> {
        let mut tls = Map::new();
        for (variable, key) in
            [("CERTIFICATE", "ca_file"), ("CLIENT_CERTIFICATE", "cert_file"), ("CLIENT_KEY", "key_file")]
        {
            if let Some((_, path)) = self.either(target, variable) {
                tls.insert(key.to_owned(), path.into());
            }
        }
        if let Some((name, text)) = self.either(target, "INSECURE").filter(|_| may_be_insecure) {
            match text.to_lowercase().as_str() {
                "true" => drop(tls.insert("insecure".into(), true.into())),
                "false" => {}
                _ => self.problem(&name, format!("`{text}` is not true or false")),
            }
        }
        tls
    }

    fn metric_settings(&mut self) -> Json {
        let mut settings = Map::new();
        let name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        if let Some(preference) = self.variable(name) {
            match preference.to_lowercase().as_str() {
                "cumulative" => drop(settings.insert("temporality".into(), "cumulative".into())),
                "delta" | "lowmemory" => drop(settings.insert("temporality".into(), "delta".into())),
                _ => self.problem(name, format!("`{preference}` is none of cumulative, delta, lowmemory")),
            }
        }
        let name = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
        if let Some(preference) = self.variable(name) {
            match preference.to_lowercase().as_str() {
                "explicit_bucket_histogram" => drop(settings.insert("histogram".into(), "explicit".into())),
                "base2_exponential_bucket_histogram" => drop(settings.insert("histogram".into(), "exponential".into())),
                _ => self.problem(
                    name,
                    format!("`{preference}` is none of explicit_bucket_histogram, base2_exponential_bucket_histogram"),
                ),
            }
        }
        if settings.is_empty() { Json::Null } else { settings.into() }
    }
}

/// An endpoint without user and password.
fn without_credentials(endpoint: &str) -> String {
    let (scheme, rest) = endpoint.split_once("://").map_or(("", endpoint), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = path.split('?').next().unwrap_or_default();
    let mark = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{mark}{host}{path}")
}

#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;
