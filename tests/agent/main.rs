//! The agent's life with components in memory: start, back-pressure, isolation, reload, drain, deadline.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod fakes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use schedscope::agent::{Agent, Command, Ended, RunError};
use schedscope::config::{Document, Problems, ProcessEnvironment, resolve_documents};
use schedscope::pipeline::{Data, Plan, graph};
use schedscope::telemetry::Telemetry;
use tokio::sync::mpsc;

use fakes::{COMPONENTS, Probe, probe};

fn planned(yaml: &str) -> Result<Plan, Problems> {
    let document = Document { name: "test.yaml".into(), text: yaml.to_owned() };
    let resolved = resolve_documents(&[document], &[], &ProcessEnvironment)?;
    graph::plan(&resolved.root, &COMPONENTS)
}

/// Fills in what every config of these tests has: the probe's name, and no page on a port.
fn yaml(name: &str, text: &str) -> String {
    text.replace("PROBE", &format!("probe: {name}")) + "\n  telemetry: {metrics: {level: none}}\n"
}

fn spans(count: usize) -> Data {
    let scope = ScopeSpans { spans: vec![Span::default(); count], ..ScopeSpans::default() };
    Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }])
}

/// An agent that runs in a task of its own.
struct Ran {
    commands: mpsc::Sender<Command>,
    telemetry: Telemetry,
    probe: Arc<Probe>,
    ended: tokio::task::JoinHandle<Result<Ended, RunError>>,
}

/// Starts an agent; every reload takes the next of `later`, the last one again and again.
fn run(name: &str, first: &str, later: &[&str]) -> Ran {
    let (commands, received) = mpsc::channel(8);
    let telemetry = Telemetry::default();
    let plan = planned(&yaml(name, first)).unwrap();
    let later: Vec<String> = later.iter().map(|text| yaml(name, text)).collect();
    let ours = telemetry.clone();
    let ended = tokio::spawn(async move {
        let reloads = std::sync::atomic::AtomicUsize::new(0);
        let load = || {
            let at = reloads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            planned(&later[at.min(later.len() - 1)])
        };
        let agent = Agent { version: "0", since: Instant::now(), telemetry: ours, load: &load, on_plan: &|_| () };
        agent.run(plan, received).await
    });
    Ran { commands, telemetry, probe: probe(name), ended }
}

async fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happens() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what} never happened");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl Ran {
    async fn ready(&self) {
        until("ready", || self.telemetry.health().is_well()).await;
    }

    async fn stop(self) -> Result<Ended, RunError> {
        self.commands.send(Command::Stop).await.unwrap();
        self.ended.await.unwrap()
    }
}

const ONE: &str = "
receivers: {source: {PROBE}}
processors: {batch: {timeout: 10s}}
exporters: {store: {PROBE}}
extensions: {note: {PROBE}}
service:
  extensions: [note]
  pipelines: {traces: {receivers: [source], processors: [batch], exporters: [store]}}";

#[tokio::test]
async fn starts_back_to_front_and_ends_front_to_back() {
    let ran = run("order", ONE, &[]);
    ran.ready().await;
    ran.probe.outlet("source").try_send(&spans(3)).unwrap();
    let (probe, telemetry) = (ran.probe.clone(), ran.telemetry.clone());
    let ended = ran.stop().await.unwrap();
    assert_eq!(ended, Ended::default());
    assert_eq!(probe.calls(), ["start note", "start store", "start source", "stop source", "stop store", "stop note"]);
    assert_eq!(probe.stored("store"), 3, "the batch is flushed at the end");
    for (name, value) in [
        ("otelcol_receiver_accepted_spans", 3),
        ("otelcol_processor_incoming_items", 3),
        ("otelcol_processor_outgoing_items", 3),
        ("otelcol_exporter_sent_spans", 3),
    ] {
        assert_eq!(telemetry.sum(name), value, "{name}");
    }
    assert!(!telemetry.health().is_well());
}

#[tokio::test]
async fn a_failed_start_names_the_component_and_ends_the_others() {
    let text = ONE.replace("{source: {PROBE}}", "{source: {PROBE, fail: no such kernel}}");
    let ran = run("failure", &text, &[]);
    let probe = ran.probe.clone();
    let error = ran.ended.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "receiver `source` cannot start: no such kernel");
    let calls = probe.calls();
    assert_eq!(calls[3..], ["stop source", "stop store", "stop note"], "{calls:?}");
}

#[tokio::test]
async fn a_lone_exporter_that_hangs_is_felt_at_the_source() {
    let text = ONE.replace("{store: {PROBE}}", "{store: {PROBE, stuck: true}}").replace("[batch]", "[]")
        + "\n  shutdown_timeout: 200ms";
    let ran = run("pressure", &text, &[]);
    ran.ready().await;
    let outlet = ran.probe.outlet("source");
    let mut sent = 0;
    while outlet.send(spans(1), Duration::from_millis(50)).await.is_ok() {
        sent += 1;
        assert!(sent < 1000, "it takes without end");
    }
    assert!(sent > 0);
    assert_eq!(ran.telemetry.sum("otelcol_receiver_accepted_spans"), sent);
    assert_eq!(ran.telemetry.sum("otelcol_receiver_refused_spans"), 1);
    let begin = Instant::now();
    let ended = ran.stop().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "the deadline holds");
    assert_eq!(ended.drained.left_items() as u64, sent, "all that was accepted is told as left");
}

#[tokio::test]
async fn an_exporter_that_hangs_holds_up_no_other_pipeline() {
    let text = "
receivers: {source: {PROBE}}
processors: {batch: {send_batch_size: 1}}
exporters: {store/stuck: {PROBE, stuck: true}, store/free: {PROBE}, store/apart: {PROBE}}
service:
  shutdown_timeout: 100ms
  pipelines:
    traces/stuck: {receivers: [source], processors: [batch], exporters: [store/stuck]}
    traces/free: {receivers: [source], processors: [batch], exporters: [store/free]}
    traces/apart: {receivers: [source], exporters: [store/apart]}";
    let ran = run("isolation", text, &[]);
    ran.ready().await;
    let outlet = ran.probe.outlet("source");
    for _ in 0..100 {
        outlet.send(spans(1), Duration::from_secs(5)).await.unwrap();
    }
    until("the free ones get all", || ran.probe.stored("store/free") == 100 && ran.probe.stored("store/apart") == 100)
        .await;
    let (dropped, telemetry) = (ran.telemetry.sum("schedscope_pipeline_dropped_items"), ran.telemetry.clone());
    assert!(dropped > 0 && dropped < 100, "{dropped}");
    let ended = ran.stop().await.unwrap();
    assert_eq!(ended.drained.left_items() as u64 + dropped, 100, "{:?}", telemetry.snapshot());
}

#[tokio::test]
async fn ten_queued_batches_go_out_at_the_end() {
    let text = ONE.replace("{store: {PROBE}}", "{store: {PROBE, delay: 50ms, queue: {num_consumers: 1}}}");
    let ran = run("drain", &text.replace("[batch]", "[]"), &[]);
    ran.ready().await;
    for _ in 0..10 {
        ran.probe.outlet("source").try_send(&spans(2)).unwrap();
    }
    let probe = ran.probe.clone();
    let ended = ran.stop().await.unwrap();
    assert_eq!(ended, Ended::default());
    assert_eq!(probe.stored("store"), 20);
}

#[tokio::test]
async fn told_twice_it_ends_at_once() {
    let text = ONE.replace("{store: {PROBE}}", "{store: {PROBE, stuck: true}}") + "\n  shutdown_timeout: 1h";
    let ran = run("twice", &text, &[]);
    ran.ready().await;
    ran.probe.outlet("source").try_send(&spans(1)).unwrap();
    ran.commands.send(Command::Stop).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!ran.ended.is_finished());
    assert!(ran.stop().await.unwrap().at_once);
}

#[tokio::test]
async fn a_reload_changes_what_runs_and_keeps_the_counters() {
    let other = ONE.replace("store", "store/new").replace("note", "note/new");
    let ran = run("reload", ONE, &[&other]);
    ran.ready().await;
    ran.probe.outlet("source").try_send(&spans(3)).unwrap();
    ran.commands.send(Command::Reload).await.unwrap();
    until("the new config", || ran.probe.calls().contains(&"start note/new".to_owned())).await;
    ran.ready().await;
    assert_eq!(ran.probe.stored("store"), 3, "nothing is lost on the way");
    ran.probe.outlet("source").try_send(&spans(4)).unwrap();
    let (probe, telemetry) = (ran.probe.clone(), ran.telemetry.clone());
    ran.stop().await.unwrap();
    assert_eq!(probe.stored("store/new"), 4);
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 7);
}

#[tokio::test]
async fn a_bad_new_config_changes_nothing() {
    let ran = run("bad", ONE, &[&ONE.replace("[batch]", "[nonsense]")]);
    ran.ready().await;
    let before = ran.probe.calls();
    ran.commands.send(Command::Reload).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ran.probe.calls(), before, "nothing was stopped");
    ran.probe.outlet("source").try_send(&spans(1)).unwrap();
    let probe = ran.probe.clone();
    ran.stop().await.unwrap();
    assert_eq!(probe.stored("store"), 1);
}

#[tokio::test]
async fn a_new_config_that_cannot_start_gives_way_to_the_old_one() {
    let failing = ONE.replace("{source: {PROBE}}", "{source: {PROBE, fail: port in use}}");
    let ran = run("back", ONE, &[&failing]);
    ran.ready().await;
    ran.commands.send(Command::Reload).await.unwrap();
    until("the old one again", || ran.probe.calls().iter().filter(|call| *call == "start source").count() == 3).await;
    ran.ready().await;
    ran.probe.outlet("source").try_send(&spans(2)).unwrap();
    let probe = ran.probe.clone();
    ran.stop().await.unwrap();
    assert_eq!(probe.stored("store"), 2);
}
