//! The `debug` exporter: what passes, as text, through the agent's own log or to standard output.

mod text;

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Period, Section};
use crate::pipeline::delivery::{DeliverySettings, RetryOnFailure, SendingQueue};
use crate::pipeline::{BuiltExporter, Data, ExportError, Exported, Exporter, ExporterFactory, Settings, Signal};

/// Sampling counts start anew this often.
const SAMPLING_SPAN: Duration = Duration::from_secs(1);

/// The type `debug`.
pub const FACTORY: ExporterFactory = ExporterFactory {
    name: "debug",
    aliases: &[],
    about: "writes what passes to the log, briefly or in full",
    stability: "alpha",
    accepts: &[Signal::Traces, Signal::Metrics, Signal::Logs],
    settings: Settings::of::<DebugSettings>(),
    build: |body, _signal, context| {
        let settings: DebugSettings = body.decode()?;
        let delivery = DeliverySettings {
            timeout: Period::default(),
            sending_queue: SendingQueue { enabled: false, ..SendingQueue::default() },
            retry_on_failure: RetryOnFailure { enabled: false, ..RetryOnFailure::default() },
            max_request_bytes: 0,
        };
        let exporter = Debug { settings, id: context.id.clone(), sampling: Mutex::default() };
        Ok(BuiltExporter { exporter: Box::new(exporter), delivery: Some(delivery) })
    },
};

/// How much is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verbosity {
    /// One line a batch: how much there is.
    #[default]
    Basic,
    /// One line for each span, point and record.
    Normal,
    /// Everything.
    Detailed,
}

/// How much is written, and where. The text is for people: it may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DebugSettings {
    /// `basic`, `normal` or `detailed`.
    pub verbosity: Verbosity,
    /// So many batches of each second are written.
    pub sampling_initial: u64,
    /// Of those after them, every so-manieth; 1 for all, 0 for none.
    pub sampling_thereafter: u64,
    /// Through the agent's log; off: to `output_paths`.
    pub use_internal_logger: bool,
    /// `stdout`, `stderr` or files, where the log is not used.
    pub output_paths: Vec<String>,
}

impl Default for DebugSettings {
    fn default() -> Self {
        Self {
            verbosity: Verbosity::Basic,
            sampling_initial: 2,
            sampling_thereafter: 1,
            use_internal_logger: true,
            output_paths: vec!["stdout".to_owned()],
        }
    }
}

impl Section for DebugSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if !self.use_internal_logger && self.output_paths.is_empty() {
            at.problem("output_paths", "is empty; name stdout, stderr or a file");
        }
    }
}

struct Debug {
    settings: DebugSettings,
    id: Arc<str>,
    sampling: Mutex<Option<(Instant, u64)>>,
}

impl Debug {
    /// Whether this batch is one of those that are written.
    fn is_sampled(&self) -> bool {
        let mut sampling = self.sampling.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (began, seen) = sampling.unwrap_or((now, 0));
        let (began, seen) = if now.duration_since(began) >= SAMPLING_SPAN { (now, 1) } else { (began, seen + 1) };
        *sampling = Some((began, seen));
        let (initial, thereafter) = (self.settings.sampling_initial, self.settings.sampling_thereafter);
        seen <= initial || (thereafter > 0 && (seen - initial).is_multiple_of(thereafter))
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        for path in &self.settings.output_paths {
            match path.as_str() {
                "stdout" => std::io::stdout().lock().write_all(text.as_bytes())?,
                "stderr" => std::io::stderr().lock().write_all(text.as_bytes())?,
                path => {
                    std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())?;
                }
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Exporter for Debug {
    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        if !self.is_sampled() {
            return Ok(Exported::default());
        }
        let mut text = text::summary(data);
        match self.settings.verbosity {
            Verbosity::Basic => {}
            Verbosity::Normal => text.push_str(&text::lines(data)),
            Verbosity::Detailed => text.push_str(&text::details(data)),
        }
        if self.settings.use_internal_logger {
            tracing::info!(otelcol.component.id = %self.id, otelcol.component.kind = "exporter", "{}", text.trim_end());
            return Ok(Exported::default());
        }
        self.write(&text).map_err(|error| ExportError::Permanent(format!("cannot write debug output: {error}")))?;
        Ok(Exported::default())
    }
}
