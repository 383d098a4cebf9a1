//! An exporter from its factory, started behind its delivery, as a pipeline has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::pipeline::delivery::{Account, Delivery, Left, Place};
use schedscope::pipeline::{BuildContext, Data, Exporter, Host, Signal};
use schedscope::telemetry::Telemetry;

/// How long all tests of a binary may take together; some hundred times what they do.
const WATCH: Duration = Duration::from_secs(300);

/// Ends the process, which says what was still running, instead of waiting for ever.
fn watch() {
    static WATCHED: std::sync::Once = std::sync::Once::new();
    WATCHED.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(WATCH);
            eprintln!("still running after {WATCH:?}: {:?}", running());
            std::process::abort();
        });
    });
}

/// The names of all threads, which libtest gives the tests' names, and what each waits in.
fn running() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    threads.map(|task| format!("{} in {}", read(task.path().join("comm")), read(task.path().join("wchan")))).collect()
}

/// A running exporter.
pub struct Sender {
    pub delivery: Delivery,
    pub telemetry: Telemetry,
    exporter: Arc<dyn Exporter>,
}

impl Sender {
    /// Builds `kind` from YAML and starts it.
    pub async fn start(kind: &str, yaml: &str) -> Self {
        Self::start_with(kind, yaml, &Host::default()).await.unwrap()
    }

    pub async fn start_with(kind: &str, yaml: &str, host: &Host) -> Result<Self, String> {
        watch();
        let factory = COMPONENTS.exporters.iter().find(|factory| factory.name == kind).unwrap();
        let body = Body::from_yaml(format!("exporters::{kind}"), yaml).map_err(|problems| problems.to_string())?;
        let telemetry = Telemetry::default();
        let context = BuildContext::new(kind.into(), telemetry.clone(), "0.0.0");
        let built = (factory.build)(&body, Signal::Traces, &context).map_err(|problems| problems.to_string())?;
        let exporter: Arc<dyn Exporter> = built.exporter.into();
        exporter.start(host).await.map_err(|error| error.to_string())?;
        let place = Place { id: kind.into(), signal: Signal::Traces, telemetry: telemetry.clone() };
        let delivery = Delivery::start(exporter.clone(), built.delivery.unwrap(), place, host)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Self { delivery, telemetry, exporter })
    }

    pub async fn offer(&self, count: usize) {
        self.delivery.offer(spans(count, 0)).await;
    }

    /// Waits until `holds` of the account is true.
    pub async fn until(&self, what: &str, holds: impl Fn(&Account) -> bool) {
        let began = Instant::now();
        while !holds(&self.delivery.account()) {
            assert!(began.elapsed() < Duration::from_secs(20), "not {what}: {:?}", self.delivery.account());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it; all that was offered must be accounted for.
    pub async fn end(self, within: Duration) -> (Left, Telemetry) {
        let offered = self.delivery.account().offered;
        let left = self.delivery.shutdown(Instant::now() + within).await;
        self.exporter.shutdown().await;
        let count = |name: &str| self.telemetry.sum(name);
        let settled = count("otelcol_exporter_sent_spans")
            + count("otelcol_exporter_send_failed_spans")
            + count("otelcol_exporter_enqueue_failed_spans");
        assert_eq!(offered, settled + left.stored_items, "offered = sent + failed + refused + stored");
        assert_eq!(count("otelcol_exporter_in_flight_requests"), 0);
        (left, self.telemetry)
    }

    pub fn counted(&self, name: &str) -> u64 {
        self.telemetry.sum(name)
    }
}

/// The counter of one reason.
pub fn by_cause(telemetry: &Telemetry, name: &str, cause: &str) -> u64 {
    let of_cause = |series: &&schedscope::telemetry::Series| {
        series.key.name == name && series.key.attributes.iter().any(|(_, value)| value == cause)
    };
    telemetry.snapshot().iter().filter(of_cause).map(|series| series.value).sum()
}

/// A batch of `count` spans, numbered from `first`, with a little text each.
pub fn spans(count: usize, first: usize) -> Data {
    let span = |number: usize| Span {
        trace_id: vec![7; 16],
        span_id: ((first + number + 1) as u64).to_be_bytes().to_vec(),
        name: format!("sched.run {number} {}", "x".repeat(100)),
        start_time_unix_nano: 1_767_225_600_000_000_000,
        end_time_unix_nano: 1_767_225_600_000_000_100,
        ..Span::default()
    };
    let scope = InstrumentationScope { name: "schedscope".into(), ..InstrumentationScope::default() };
    let scope = ScopeSpans { scope: Some(scope), spans: (0..count).map(span).collect(), ..ScopeSpans::default() };
    Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }])
}
