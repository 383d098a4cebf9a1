//! The `table` exporter: who suffers and from what, for a person at a terminal.
//!
//! Reads the very metrics that others are sent, so that the table and the backend cannot disagree. Redraws on a
//! terminal, appends in a pipe. Refuses to know: where the numbers come from.

pub(crate) mod rows;
pub(crate) mod text;

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::rows::{Last, Table};
use self::text::Frame;
use crate::config::{Checker, Period, Section};
use crate::pipeline::{
    BuildContext, BuiltExporter, Data, ExportError, Exported, Exporter, ExporterFactory, Settings, Signal,
};
use crate::telemetry::{Series, Telemetry};

/// The `table` exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    name: "table",
    aliases: &[],
    about: "A table per container for people, on standard output",
    stability: "alpha",
    accepts: &[Signal::Metrics],
    settings: Settings::of::<TableSettings>(),
    build: |body, _, context| {
        let exporter = Box::new(TableExporter::new(body.decode()?, context));
        Ok(BuiltExporter { exporter, delivery: None })
    },
};

/// Where and how often the table is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TableSettings {
    /// At most one table in this time.
    pub interval: Period,
    /// Rows shown, the worst first.
    pub top: usize,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self { interval: Period::secs(10), top: 20 }
    }
}

impl Section for TableSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.top == 0 || self.top > 10_000 {
            at.problem("top", "1 to 10000 is allowed");
        }
    }
}

/// What the last table showed.
struct Shown {
    last: Last,
    at: Option<Instant>,
    started: Instant,
}

/// Shows tables.
pub struct TableExporter {
    settings: TableSettings,
    version: &'static str,
    id: Arc<str>,
    telemetry: Telemetry,
    shown: Mutex<Shown>,
}

impl TableExporter {
    /// Nothing shown yet.
    pub fn new(settings: TableSettings, context: &BuildContext) -> Self {
        let shown = Shown { last: Last::default(), at: None, started: Instant::now() };
        Self {
            settings,
            version: context.version,
            id: Arc::clone(&context.id),
            telemetry: context.telemetry.clone(),
            shown: Mutex::new(shown),
        }
    }

    /// What has left this host so far.
    fn sent(&self) -> String {
        let snapshot = self.telemetry.snapshot();
        let own =
            |series: &Series| series.key.attributes.iter().any(|(key, id)| *key == "exporter" && **id == *self.id);
        let count = |name: &str| -> u64 {
            snapshot.iter().filter(|series| series.key.name == name && !own(series)).map(|series| series.value).sum()
        };
        let (spans, points) = (count("otelcol_exporter_sent_spans"), count("otelcol_exporter_sent_metric_points"));
        let failed = count("otelcol_exporter_send_failed_spans") + count("otelcol_exporter_send_failed_metric_points");
        if spans + points + failed == 0 {
            return "sent: nothing; set OTEL_EXPORTER_OTLP_ENDPOINT to ship spans and metrics".to_owned();
        }
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("sent: {spans} spans, {points} points{failed}")
    }
}

impl Frame {
    /// Of this host and a table, which covers so many seconds.
    pub(crate) fn now(version: &str, table: &Table, seconds: f64, sent: String, top: usize) -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let time = jiff::Timestamp::from_nanosecond(i128::from(table.time_ns)).unwrap_or_default();
        let local = time.to_zoned_datetime(jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC));
        Self {
            version: version.to_owned(),
            kernel: kernel.split('-').next().unwrap_or_default().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            clock: local.strftime("%H:%M:%S").to_string(),
            seconds,
            sent,
            top,
        }
    }
}

#[async_trait]
impl Exporter for TableExporter {
    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        let Data::Metrics(metrics) = data else { return Ok(Exported::default()) };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let since = shown.at.unwrap_or(shown.started);
        // a table that comes a little early was meant for this interval
        let due = self.settings.interval.0.saturating_sub(Duration::from_millis(500));
        if shown.at.is_some_and(|at| at.elapsed() < due) {
            return Ok(Exported::default());
        }
        let table = shown.last.table(metrics);
        let seconds = since.elapsed().as_secs_f64();
        shown.at = Some(Instant::now());
        drop(shown);
        let text = text::render(&table, &Frame::now(self.version, &table, seconds, self.sent(), self.settings.top));
        let mut out = std::io::stdout().lock();
        let clear = if out.is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        let written = write!(out, "{clear}{text}").and_then(|()| out.flush());
        written.map_err(|error| ExportError::Permanent(format!("the table could not be written: {error}")))?;
        Ok(Exported::default())
    }
}
