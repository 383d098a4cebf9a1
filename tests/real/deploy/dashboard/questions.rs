//! The queries of `config/questions.md`, asked of the same data.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Places, encode, has_data};
use crate::program::eventually;
use crate::support::http;
use crate::support::jaeger::Jaeger;

pub(super) fn are_answered(places: &Places, jaeger: &mut Jaeger, service: SocketAddr) -> Result<()> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // a service that has nothing to do is throttled for 0 of 0 seconds
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // one that fails shows in the answers
                let _ = http::ask(service, "GET", "/checkout?cpu_ms=60&sleep_ms=12", "");
            }
        });
        let answered = ask_all(places, jaeger);
        is_over.store(true, Ordering::Relaxed);
        answered
    })
}

fn ask_all(places: &Places, jaeger: &mut Jaeger) -> Result<()> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/questions.md"))?;
    let (metrics, traces) = (lines(&text, "promql"), lines(&text, "jaeger"));
    ensure!(metrics.len() > 10 && traces.len() > 5, "{} and {} queries", metrics.len(), traces.len());
    for query in &metrics {
        has_data(places, query)?;
    }
    for query in &traces {
        let path = search(query)?;
        eventually(query, Duration::from_secs(20), || Ok(jaeger.finds(&path)?.then_some(())))?;
    }
    println!("  {} metric and {} trace queries of the questions answered", metrics.len(), traces.len());
    Ok(())
}

/// Lines of the fenced blocks of one language.
fn lines<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = text.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).collect()
}

/// What Jaeger's search page asks its server; tags are `key=value` there and an object here.
fn search(line: &str) -> Result<String> {
    let mut path = "/api/traces?lookback=1h&limit=20".to_owned();
    for field in line.split(' ') {
        let (key, value) = field.split_once('=').with_context(|| format!("{field} in {line}"))?;
        let value = match (key, value.split_once('=')) {
            ("tags", Some((tag, value))) => serde_json::json!({tag: value}).to_string(),
            _ => value.replace('+', " "),
        };
        path += &format!("&{key}={}", encode(&value));
    }
    Ok(path)
}
