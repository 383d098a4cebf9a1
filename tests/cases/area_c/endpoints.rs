//! Where requests go and what they carry, from the exporter's section as a user writes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use schedscope::components::COMPONENTS;
use schedscope::config::{Body, Environment, Node, resolve_or_default, to_yaml};
use schedscope::exporters::otlp_grpc::OtlpGrpcSettings;
use schedscope::exporters::otlp_grpc::endpoint::{self as grpc, Endpoint};
use schedscope::exporters::otlp_http::OtlpHttpSettings;
use schedscope::exporters::otlp_http::endpoint as http;
use schedscope::pipeline::Signal;
use schedscope::pipeline::client::headers;
use serde_json::{Map, Value, json};

use super::{check, holds, text};

pub fn endpoint(case: &Value, expect: &Value) -> Result<(), String> {
    let got = match case.get("env").and_then(Value::as_object) {
        Some(variables) => from_variables(variables),
        None => from_section(case),
    };
    judge(expect, &got)
}

/// What a section gives: its facts, or the text of its mistakes.
type Outcome = Result<Value, String>;

fn judge(expect: &Value, got: &Outcome) -> Result<(), String> {
    if let Some(choices) = expect.get("any_of").and_then(Value::as_array) {
        let failed: Vec<_> = choices.iter().filter_map(|choice| judge(choice, got).err()).collect();
        return if failed.len() < choices.len() { Ok(()) } else { Err(failed.join("\nor ")) };
    }
    match (expect.get("config_error").and_then(Value::as_array), got) {
        (Some(words), Err(told)) => has_words(words, told),
        (Some(words), Ok(got)) => Err(format!("expected a config error with {words:?}, got {got}")),
        (None, Err(told)) => Err(format!("expected {expect}, got the config error {told}")),
        (None, Ok(got)) => {
            let mut expect = expect.clone();
            let warning = expect.as_object_mut().and_then(|expect| expect.remove("warning"));
            if let Some(words) = warning.as_ref().and_then(Value::as_array) {
                has_words(words, text(got, "warning"))?;
            }
            check(&expect, got)
        }
    }
}

fn has_words(words: &[Value], told: &str) -> Result<(), String> {
    match words.iter().filter_map(Value::as_str).find(|word| !told.contains(word)) {
        Some(word) => Err(format!("`{word}` is not in: {told}")),
        None => Ok(()),
    }
}

/// The exporter's section with the keys that the case names.
fn section(case: &Value) -> Value {
    let keys = [
        "endpoint",
        "tls",
        "headers",
        "traces_endpoint",
        "metrics_endpoint",
        "logs_endpoint",
        "compression",
        "encoding",
    ];
    let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), case.get(*key)?.clone())));
    Value::Object(given.collect())
}

fn body(kind: &str, section: &Value) -> Result<Body, String> {
    let factory = COMPONENTS.exporters.iter().find(|factory| factory.name == kind || factory.aliases.contains(&kind));
    let factory = factory.ok_or_else(|| format!("no exporter `{kind}`"))?;
    let body =
        Body::from_yaml(format!("exporters::{kind}"), &section.to_string()).map_err(|error| error.to_string())?;
    let problems = (factory.settings.check)(&body);
    if problems.is_empty() { Ok(body) } else { Err(problems.to_string()) }
}

fn from_section(case: &Value) -> Outcome {
    let kind = case.get("exporter").and_then(Value::as_str).unwrap_or("otlp");
    let body = body(kind, &section(case))?;
    if kind.contains("http") {
        return urls(&body.decode::<OtlpHttpSettings>().map_err(|error| error.to_string())?);
    }
    let settings: OtlpGrpcSettings = body.decode().map_err(|error| error.to_string())?;
    let endpoint = grpc::parse(&settings.endpoint, settings.tls.insecure)?;
    let authority = endpoint.authority();
    Ok(match endpoint {
        Endpoint::Tcp { host, port, tls } => {
            json!({"transport": "tcp", "host": host, "port": port, "tls": tls, "authority": authority})
        }
        Endpoint::Unix { path } => json!({"transport": "unix", "path": path, "tls": false, "authority": authority}),
    })
}

fn urls(settings: &OtlpHttpSettings) -> Outcome {
    let mut facts = Map::new();
    for (key, signal) in [("traces_url", Signal::Traces), ("metrics_url", Signal::Metrics), ("logs_url", Signal::Logs)]
    {
        if let Ok(target) = http::url(settings, signal) {
            facts.insert("tls".into(), target.tls().into());
            facts.insert(key.into(), target.url.into());
        }
    }
    facts.insert("warning".into(), http::warning(settings).into());
    Ok(Value::Object(facts))
}

/// An environment of these variables alone.
struct Variables(BTreeMap<String, String>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::NotFound, path.to_owned()))
    }
}

/// The exporters that the embedded config gets from the variables.
fn exporters(variables: &Map<String, Value>) -> Result<Value, String> {
    let variables = variables.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
    let resolved = resolve_or_default(&[], &[], &Variables(variables.collect())).map_err(|error| error.to_string())?;
    let whole = document(&resolved.root)?;
    Ok(whole.get("exporters").cloned().unwrap_or_default())
}

fn document(root: &Node) -> Result<Value, String> {
    let body = Body::new(String::new(), root.at.clone(), root.clone());
    let whole = body.written(&json!({}), false);
    if whole.is_null() { Err(format!("nothing is written in {}", to_yaml(&whole))) } else { Ok(whole) }
}

fn from_variables(variables: &Map<String, Value>) -> Outcome {
    let exporters = exporters(variables)?;
    let mut facts = Map::new();
    for (id, section) in exporters.as_object().into_iter().flatten() {
        let kind = id.split('/').next().unwrap_or_default();
        if kind == "otlp_http" {
            let settings = body(kind, section)?.decode::<OtlpHttpSettings>().map_err(|error| error.to_string())?;
            let found = urls(&settings)?;
            for (key, value) in found.as_object().into_iter().flatten() {
                let own = id.split('/').nth(1).is_none_or(|word| key.starts_with(word));
                if own || !facts.contains_key(key) {
                    facts.insert(key.clone(), value.clone());
                }
            }
        } else if kind == "otlp_grpc" {
            let settings = body(kind, section)?.decode::<OtlpGrpcSettings>().map_err(|error| error.to_string())?;
            facts.insert("grpc".into(), grpc::parse(&settings.endpoint, settings.tls.insecure)?.to_string().into());
        }
    }
    if facts.is_empty() { Err(format!("no OTLP exporter in {exporters}")) } else { Ok(Value::Object(facts)) }
}

pub fn headers_env(case: &Value, expect: &Value) -> Result<(), String> {
    let given = headers::from_variable(text(case, "OTEL_EXPORTER_OTLP_HEADERS"));
    let map = headers::prepare(&given).map_err(|wrong| format!("{wrong:?}"))?;
    let got: Map<_, _> =
        map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").into())).collect();
    check(expect, &Value::Object(got))
}

pub fn headers_yaml(case: &Value, expect: &Value) -> Result<(), String> {
    let http = text(case, "protocol").contains("http");
    let (kind, endpoint) = if http { ("otlp_http", "http://localhost:4318") } else { ("otlp_grpc", "localhost:4317") };
    let mut section = section(case);
    if let Some(section) = section.as_object_mut() {
        section.entry("endpoint").or_insert_with(|| endpoint.into());
    }
    let decoded = body(kind, &section).and_then(|body| {
        let settings = if http {
            body.decode::<OtlpHttpSettings>().map(|settings| settings.headers)
        } else {
            body.decode::<OtlpGrpcSettings>().map(|settings| settings.headers)
        };
        settings.map_err(|error| error.to_string())
    });
    let got = decoded.and_then(|given| {
        let map = headers::prepare(&given).map_err(|wrong| format!("{wrong:?}"))?;
        let secret = format!("{map:?} {given:?}");
        let secrets = expect.get("log_must_not_contain").and_then(Value::as_array).into_iter().flatten();
        match secrets.filter_map(Value::as_str).find(|word| secret.contains(word)) {
            Some(_) => Err("a value is printed".to_owned()),
            None => Ok(Value::Object(
                map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").into())).collect(),
            )),
        }
    });
    let mut expect = expect.clone();
    let secrets = expect.as_object_mut().and_then(|expect| expect.remove("log_must_not_contain"));
    if let (Some(secrets), Err(told)) = (secrets.as_ref().and_then(Value::as_array), &got)
        && secrets.iter().filter_map(Value::as_str).any(|word| told.contains(word))
    {
        return Err("the error holds the secret".to_owned());
    }
    if holds(&expect, &json!({})) { Ok(()) } else { judge(&expect, &got) }
}
