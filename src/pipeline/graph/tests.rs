use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::config::{Document, ProcessEnvironment, Section, resolve_documents};
use crate::pipeline::data::Signal;
use crate::pipeline::factory::{ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory, Settings};
use crate::pipeline::plan::{Fork, Input};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    window: u32,
    endpoint: String,
}

impl Section for Keys {}

const fn receiver(name: &'static str, emits: &'static [Signal]) -> ReceiverFactory {
    ReceiverFactory {
        name,
        aliases: &[],
        about: "",
        stability: "alpha",
        emits,
        settings: Settings::of::<Keys>(),
        build: |_, _| Err(Problems::default()),
    }
}

const fn processor(name: &'static str, converts: &'static [(Signal, Signal)]) -> ProcessorFactory {
    ProcessorFactory {
        name,
        aliases: &[],
        about: "",
        stability: "alpha",
        converts,
        needs_receiver: None,
        settings: Settings::of::<Keys>(),
        build: |_, _| Err(Problems::default()),
    }
}

const fn exporter(name: &'static str, aliases: &'static [&'static str], accepts: &'static [Signal]) -> ExporterFactory {
    ExporterFactory {
        name,
        aliases,
        about: "",
        stability: "alpha",
        accepts,
        settings: Settings::of::<Keys>(),
        build: |_, _, _| Err(Problems::default()),
    }
}

use Signal::{Logs, Metrics, Sched, Traces};

static SCHED: ReceiverFactory = receiver("sched", &[Sched]);
static OTLP: ReceiverFactory = receiver("otlp", &[Traces, Metrics, Logs]);
static CONTAINER: ProcessorFactory = processor("container", &[(Sched, Sched)]);
static SPANS: ProcessorFactory = processor("sched_spans", &[(Sched, Traces)]);
static COUNTS: ProcessorFactory = processor("sched_metrics", &[(Sched, Metrics)]);
static BATCH: ProcessorFactory = processor("batch", &[(Traces, Traces), (Metrics, Metrics), (Logs, Logs)]);
static LOOKUP: ProcessorFactory =
    ProcessorFactory { needs_receiver: Some("sched"), ..processor("lookup", &[(Traces, Traces)]) };
static GRPC: ExporterFactory = exporter("otlp_grpc", &["otlp"], &[Traces, Metrics]);
static DEBUG: ExporterFactory = exporter("debug", &[], &[Traces, Metrics, Logs]);
static TABLE: ExporterFactory = exporter("table", &[], &[Sched]);
static HEALTH: ExtensionFactory = ExtensionFactory {
    name: "health_check",
    aliases: &[],
    about: "",
    stability: "beta",
    settings: Settings::of::<Keys>(),
    build: |_, _| Err(Problems::default()),
};

const KNOWN: Components = Components {
    receivers: &[&SCHED, &OTLP],
    processors: &[&CONTAINER, &SPANS, &COUNTS, &BATCH, &LOOKUP],
    exporters: &[&GRPC, &DEBUG, &TABLE],
    extensions: &[&HEALTH],
};

fn planned(text: &str) -> Result<Plan, Problems> {
    let document = Document { name: "agent.yaml".into(), text: text.into() };
    plan(&resolve_documents(&[document], &[], &ProcessEnvironment)?.root, &KNOWN)
}

fn refused(text: &str) -> String {
    planned(text).unwrap_err().to_string()
}

/// A config with one pipeline.
fn config(pipeline: &str, receivers: &str, processors: &str, exporters: &str) -> String {
    format!(
        "receivers: {{sched: , otlp: }}\n\
         processors: {{container: , sched_spans: , sched_metrics: , batch: }}\n\
         exporters: {{otlp_grpc: , debug: , table: }}\n\
         service:\n  pipelines:\n    {pipeline}:\n      receivers: [{receivers}]\n      processors: [{processors}]\n      exporters: [{exporters}]\n"
    )
}

fn drawn(fork: &Fork, indent: usize, out: &mut String) {
    for stage in &fork.stages {
        out.push_str(&format!(
            "{:indent$}{} {:?}->{:?} {}\n",
            "",
            stage.processor.id,
            stage.takes,
            stage.gives,
            stage.pipelines.join(" ")
        ));
        drawn(&stage.next, indent + 2, out);
    }
    for exit in &fork.exits {
        out.push_str(&format!("{:indent$}=> {} {:?} {}\n", "", exit.exporter, exit.signal, exit.pipeline));
    }
}

#[test]
fn pipelines_share_their_beginnings() {
    let plan = planned(
        "receivers: {sched: , otlp/in: }
processors: {container: , sched_spans: , sched_metrics: , batch: {window: 0x10}}
exporters: {otlp/eu: , debug: }
extensions: {health_check: , health_check/2: }
service:
  extensions: [health_check]
  shutdown_timeout: 5s
  pipelines:
    traces: {receivers: [sched], processors: [container, sched_spans, batch], exporters: [otlp/eu, debug]}
    traces/app: {receivers: [otlp/in], exporters: [otlp/eu]}
    metrics: {receivers: [sched], processors: [container, sched_metrics, batch], exporters: [otlp/eu]}
    traces/b: {receivers: [sched], processors: [container, sched_spans], exporters: [debug]}
",
    )
    .unwrap();
    assert_eq!(plan.trees.len(), 2);
    assert_eq!(plan.trees[0].inputs, [Input { receiver: "sched".into(), signal: Sched }]);
    assert_eq!(plan.trees[1].inputs, [Input { receiver: "otlp/in".into(), signal: Traces }]);
    let mut out = String::new();
    drawn(&plan.trees[0].fork, 0, &mut out);
    let expected = "\
container [Sched]->[Sched] traces metrics traces/b
  sched_spans [Sched]->[Traces] traces traces/b
    batch [Traces]->[Traces] traces
      => otlp/eu Traces traces
      => debug Traces traces
    => debug Traces traces/b
  sched_metrics [Sched]->[Metrics] metrics
    batch [Metrics]->[Metrics] metrics
      => otlp/eu Metrics metrics
";
    assert_eq!(out, expected);
    assert_eq!(
        format!("{:?} {:?} {:?}", plan.extensions, plan.receivers, plan.exporters),
        "[health_check] [sched, otlp/in] [otlp/eu, debug]"
    );
    assert_eq!(plan.service.shutdown_timeout.to_string(), "5s");
    let warnings: Vec<_> = plan.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "agent.yaml:3:13: exporters::otlp/eu: `otlp` is an old spelling of `otlp_grpc`; it still works",
            "agent.yaml:4:30: extensions::health_check/2: this extension is used nowhere and does not start",
        ]
    );
}

#[test]
fn stages_that_do_not_fit_say_what_to_add() {
    for (pipeline, receivers, processors, exporters, told) in [
        (
            "traces",
            "sched",
            "container",
            "otlp_grpc",
            "agent.yaml:9:19: service::pipelines::traces: `otlp_grpc` here gets Sched, it takes Traces or Metrics; put `sched_spans` before it",
        ),
        (
            "metrics",
            "sched",
            "batch",
            "debug",
            "agent.yaml:8:20: service::pipelines::metrics: `batch` here gets Sched, it takes Traces, Metrics or Logs; put `sched_metrics` before it",
        ),
        (
            "traces",
            "otlp",
            "container",
            "debug",
            "agent.yaml:8:20: service::pipelines::traces: `container` here gets Traces, it takes Sched",
        ),
        (
            "traces",
            "sched, otlp",
            "sched_spans",
            "debug",
            "agent.yaml:8:20: service::pipelines::traces: `sched_spans` here gets Traces, it takes Sched",
        ),
        (
            "metrics",
            "sched",
            "sched_spans",
            "debug",
            "agent.yaml:6:5: service::pipelines::metrics: the pipeline ends with Traces; name it `traces` or `traces/...`",
        ),
        (
            "traces",
            "otlp",
            "",
            "table",
            "agent.yaml:9:19: service::pipelines::traces: `table` here gets Traces, it takes Sched",
        ),
        (
            "logs",
            "sched",
            "",
            "debug",
            "agent.yaml:9:19: service::pipelines::logs: `debug` here gets Sched, it takes Traces, Metrics or Logs; put `sched_spans` before it",
        ),
    ] {
        assert_eq!(refused(&config(pipeline, receivers, processors, exporters)), told);
    }
    assert!(planned(&config("metrics", "sched", "container", "table")).is_ok());
    assert!(planned(&config("logs/x", "otlp", "batch", "debug")).is_ok());
}

#[test]
fn references_and_words_are_checked() {
    for (pipeline, receivers, processors, exporters, told) in [
        (
            "metrics",
            "",
            "",
            "debug",
            "agent.yaml:6:5: service::pipelines::metrics: a pipeline needs at least one receiver",
        ),
        (
            "metrics",
            "otlp",
            "",
            "",
            "agent.yaml:6:5: service::pipelines::metrics: a pipeline needs at least one exporter",
        ),
        (
            "metrics",
            "otlp",
            "batch, batch",
            "debug",
            "agent.yaml:8:27: service::pipelines::metrics: processor `batch` is listed twice",
        ),
        (
            "metrics",
            "otlp",
            "batch, memory_limiter",
            "debug",
            "agent.yaml:8:27: service::pipelines::metrics: processor `memory_limiter` is not defined under processors",
        ),
        (
            "metrics",
            "otlp",
            "batch",
            "otlp_grpc/eu",
            "agent.yaml:9:19: service::pipelines::metrics: exporter `otlp_grpc/eu` is not defined under exporters, did you mean `otlp_grpc`?",
        ),
        (
            "metric",
            "otlp",
            "batch",
            "debug",
            "agent.yaml:6:5: service::pipelines::metric: `metric` is no signal, did you mean `metrics`? (traces, metrics or logs, with an optional /name)",
        ),
        (
            "metrics/",
            "otlp",
            "batch",
            "debug",
            "agent.yaml:6:5: service::pipelines::metrics/: the name after `/` is empty",
        ),
    ] {
        assert_eq!(refused(&config(pipeline, receivers, processors, exporters)), told);
    }
}

#[test]
fn every_mistake_of_a_config_is_told() {
    let text = "\
reciever: {}
receivers:
  sched: {windw: 1}
  zipkni:
processors: [batch]
exporters:
  logging:
  otlp/: {}
  debug: {window: x, endpoint: }
connectors:
  spanmetrics:
service:
  extensions: [health_check, health_check]
  telemtry: {}
  pipelines:
    metrics: {receivers: [sched, zipkni], procesors: [], exporters: [debug]}
    traces: {receivers: [zipkni], processors: [batch], exporters: [logging, debug]}
";
    let expected = "\
agent.yaml:1:1: reciever: unknown section, did you mean `receivers`?
agent.yaml:11:3: connectors::spanmetrics: this build has no connectors; pipelines that begin with the same receivers share them
agent.yaml:3:11: receivers::sched::windw: unknown key, did you mean `window`?
agent.yaml:4:3: receivers::zipkni: unknown receiver type `zipkni`: there are `sched`, `otlp`
agent.yaml:5:1: processors: must be a mapping from ids to settings, not a list
agent.yaml:7:3: exporters::logging: unknown exporter type `logging`: it became `debug`; there are `otlp_grpc`, `debug`, `table`
agent.yaml:8:3: exporters::otlp/: the name after `/` is empty; an id is `type` or `type/name`
agent.yaml:9:19: exporters::debug::window: must be a whole number, not `x`
agent.yaml:14:3: service::telemtry: unknown key, did you mean `telemetry`?
agent.yaml:16:43: service::pipelines::metrics::procesors: unknown key, did you mean `processors`?
agent.yaml:17:48: service::pipelines::traces: processor `batch` is not defined under processors
agent.yaml:13:16: service::extensions: extension `health_check` is not defined under extensions
agent.yaml:13:30: service::extensions: extension `health_check` is not defined under extensions";
    assert_eq!(refused(text), expected);
    assert_eq!(
        refused("receivers:\n  sched:\nservice:\n  extensions: [health_chek]"),
        "agent.yaml:3:1: service::pipelines: at least one pipeline is needed, such as `metrics`\n\
         agent.yaml:4:16: service::extensions: extension `health_chek` is not defined under extensions"
    );
    assert_eq!(refused("receivers:\n  sched:\n"), "service: missing; it says which pipelines run");
}

#[test]
fn a_processor_may_need_a_receiver_of_another_pipeline() {
    let text = |more: &str| {
        format!(
            "receivers: {{sched: , otlp: }}\nprocessors:\n  lookup:\n  sched_metrics:\nexporters: {{debug: }}\nservice:\n  pipelines:\n    \
             traces: {{receivers: [otlp], processors: [lookup], exporters: [debug]}}\n{more}"
        )
    };
    let message = "works only beside a `sched` receiver, and no pipeline here begins with one";
    assert!(refused(&text("")).contains(&format!("processors::lookup: {message}")), "{}", refused(&text("")));
    let beside = "    metrics: {receivers: [sched], processors: [sched_metrics], exporters: [debug]}\n";
    assert!(planned(&text(beside)).is_ok());
}
