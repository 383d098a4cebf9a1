//! A real Jaeger: takes OTLP over gRPC and HTTP, asked by the query API that its page uses.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::http;
use super::span::Span;
use crate::needs::part;
use crate::program::{Program, free_address};

/// A running Jaeger.
pub(crate) struct Jaeger {
    program: Program,
    /// Where it takes OTLP over gRPC.
    pub(crate) grpc: SocketAddr,
    /// Where it takes OTLP over HTTP.
    pub(crate) http: SocketAddr,
    query: SocketAddr,
}

impl Jaeger {
    /// Starts one with its store in memory; ready when it listens.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let binary = part("jaeger").map_err(anyhow::Error::msg)?;
        let mut command = Command::new(binary);
        command.args(["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/parts/jaeger/config.yaml")]);
        let (grpc, http, query) = (free_address()?, free_address()?, free_address()?);
        let ports = [("OTLP_GRPC_PORT", grpc), ("OTLP_HTTP_PORT", http), ("QUERY_PORT", query)];
        command.envs(ports.map(|(name, address)| (name, address.port().to_string())));
        for name in ["QUERY_GRPC_PORT", "HEALTH_PORT"] {
            command.env(name, free_address()?.port().to_string());
        }
        let mut program = Program::start("jaeger", &mut command, folder)?;
        for address in [grpc, http, query] {
            program.listens(address)?;
        }
        Ok(Self { program, grpc, http, query })
    }

    /// Every service that it lists.
    pub(crate) fn services(&mut self) -> Result<Vec<String>> {
        let answer = self.ask("/api/services")?;
        Ok(answer["data"].as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect())
    }

    /// Every span of the service's traces, as its page would show them.
    pub(crate) fn spans(&mut self, service: &str) -> Result<Vec<Span>> {
        let answer = self.ask(&format!("/api/traces?service={}&lookback=1h&limit=1000", encode(service)))?;
        let traces = answer["data"].as_array().cloned().unwrap_or_default();
        Ok(traces.iter().flat_map(spans).collect())
    }

    /// Warnings that it attached to the service's spans (clock skew, duplicate ids).
    pub(crate) fn warnings(&mut self, service: &str) -> Result<Vec<String>> {
        let answer = self.ask(&format!("/api/traces?service={}&lookback=1h&limit=1000", encode(service)))?;
        let spans =
            answer["data"].as_array().into_iter().flatten().flat_map(|trace| trace["spans"].as_array()).flatten();
        let warnings = spans.filter_map(|span| span["warnings"].as_array()).flatten();
        Ok(warnings.filter_map(|warning| Some(warning.as_str()?.to_owned())).collect())
    }

    /// Whether its search finds a trace.
    pub(crate) fn finds(&mut self, path: &str) -> Result<bool> {
        Ok(self.ask(path)?["data"].as_array().is_some_and(|traces| !traces.is_empty()))
    }

    fn ask(&mut self, path: &str) -> Result<Value> {
        self.program.is_alive()?;
        let body = http::ask(self.query, "GET", path, "")?;
        serde_json::from_str(&body).with_context(|| format!("{path}: not JSON: {body}"))
    }
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn spans(trace: &Value) -> Vec<Span> {
    let found = trace["spans"].as_array().into_iter().flatten();
    let read = |span: &Value| {
        let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
        let start_us = span["startTime"].as_u64().unwrap_or_default();
        let parent = span["references"].as_array().into_iter().flatten().find(|r| r["refType"] == "CHILD_OF");
        Span {
            trace_id: text("traceID"),
            span_id: text("spanID"),
            parent_id: parent.and_then(|parent| parent["spanID"].as_str()).unwrap_or_default().to_owned(),
            name: text("operationName"),
            start_ns: start_us * 1000,
            end_ns: (start_us + span["duration"].as_u64().unwrap_or_default()) * 1000,
            attributes: tags(&span["tags"]),
            resource: resource(&trace["processes"][span["processID"].as_str().unwrap_or_default()]),
        }
    };
    found.map(read).collect()
}

fn resource(process: &Value) -> Map<String, Value> {
    let mut resource = tags(&process["tags"]);
    resource.insert("service.name".into(), process["serviceName"].clone());
    resource
}

fn tags(tags: &Value) -> Map<String, Value> {
    let pairs = tags.as_array().into_iter().flatten();
    pairs.map(|tag| (tag["key"].as_str().unwrap_or_default().to_owned(), tag["value"].clone())).collect()
}
