//! The exporter `alert`: a log line for each container that had to wait for more than a share of the time in which it
//! wanted to run.
//!
//! It takes metrics, so it stands behind `sched_metrics`. It refuses to know where they were measured.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric, number_data_point};
use schedscope::config::{Checker, Section};
use schedscope::pipeline::{BuiltExporter, Data, ExportError, Exported, Exporter, ExporterFactory, Settings, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the agent knows it: `validate`, `components` and the schema show it beside the stock ones.
pub(crate) const FACTORY: ExporterFactory = ExporterFactory {
    name: "alert",
    aliases: &[],
    about: "Logs which containers had to wait for a CPU",
    stability: "alpha",
    accepts: &[Signal::Metrics],
    settings: Settings::of::<AlertSettings>(),
    build: |body, _signal, _context| {
        let exporter = Alert { settings: body.decode()?, before: Mutex::default() };
        // a log needs no queue and no retry
        Ok(BuiltExporter { exporter: Box::new(exporter), delivery: None })
    },
};

/// Keys of `alert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AlertSettings {
    /// Waiting and throttled, of running, waiting and throttled: above it a line is logged. 0 to 1.
    over: f64,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self { over: 0.1 }
    }
}

impl Section for AlertSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if !(0.0..=1.0).contains(&self.over) {
            at.problem("over", "is a share: 0 to 1");
        }
    }
}

/// Thread-seconds of one container.
#[derive(Debug, Clone, Copy, Default)]
struct Seconds {
    running: f64,
    held_up: f64,
}

struct Alert {
    settings: AlertSettings,
    /// The counters grow; what they were at the last export, by container.
    before: Mutex<HashMap<String, Seconds>>,
}

#[async_trait::async_trait]
impl Exporter for Alert {
    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        let Data::Metrics(resources) = data else { return Ok(Exported::default()) };
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in resources {
            let (Some(name), Some(now)) = (name(resource), seconds(resource)) else { continue };
            let then = before.insert(name.clone(), now).unwrap_or_default();
            let (running, held_up) = (now.running - then.running, now.held_up - then.held_up);
            let share = held_up / (running + held_up);
            if share > self.settings.over {
                tracing::warn!("{name} had to wait for {held_up:.3} s beside {running:.3} s on a CPU");
            }
        }
        Ok(Exported::default())
    }
}

/// What a person calls it; nothing where the Resource has no name.
fn name(resource: &ResourceMetrics) -> Option<String> {
    let attributes = &resource.resource.as_ref()?.attributes;
    ["container.name", "container.id", "service.name"].iter().find_map(|key| text(attributes, key))
}

/// The sums of `linux.sched.time`, where it is among the metrics.
fn seconds(resource: &ResourceMetrics) -> Option<Seconds> {
    let metrics = resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
    let time = metrics.filter(|metric| metric.name == "linux.sched.time").find_map(|metric| match &metric.data {
        Some(metric::Data::Sum(sum)) => Some(sum),
        _ => None,
    })?;
    let mut seconds = Seconds::default();
    for point in &time.data_points {
        let Some(number_data_point::Value::AsDouble(value)) = point.value else { continue };
        match text(&point.attributes, "linux.sched.state").as_deref() {
            Some("running") => seconds.running += value,
            Some("waiting" | "throttled") => seconds.held_up += value,
            _ => {}
        }
    }
    Some(seconds)
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match &found.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => Some(text.clone()),
        _ => None,
    }
}
