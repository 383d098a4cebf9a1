//! The agent's log as `service::telemetry::logs` says: level, form, places, thinning out.
//!
//! Installed once; a reload changes it in place. Refuses to know: what is logged.

mod line;
mod sampling;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use self::line::Line;
use self::sampling::Sampling;
use crate::pipeline::service::{LogEncoding, LogLevel, LogSettings};

/// The log in force. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<RwLock<Option<Inner>>>);

struct Inner {
    level: Level,
    settings: LogSettings,
    places: Mutex<Vec<Box<dyn Write + Send>>>,
    sampling: Mutex<Sampling>,
}

impl Log {
    /// Makes this log the process's own. Fails only if there is one already.
    pub(super) fn install(&self) -> io::Result<()> {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
    }

    /// Follows these settings from now on. A place that cannot be opened is told, and left out.
    pub(super) fn follow(&self, settings: &LogSettings) -> Vec<String> {
        let mut troubles = Vec::new();
        let mut places: Vec<Box<dyn Write + Send>> = Vec::new();
        for path in &settings.output_paths {
            match open(path) {
                Ok(place) => places.push(place),
                Err(error) => troubles.push(format!("service::telemetry::logs::output_paths: {path}: {error}")),
            }
        }
        let level = match settings.level {
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Info => Level::INFO,
            LogLevel::Warn => Level::WARN,
            LogLevel::Error => Level::ERROR,
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Inner {
            level,
            sampling: Mutex::new(Sampling::new(&settings.sampling)),
            settings: settings.clone(),
            places: Mutex::new(places),
        });
        troubles
    }
}

fn open(path: &str) -> io::Result<Box<dyn Write + Send>> {
    Ok(match path {
        "stderr" => Box::new(io::stderr()),
        "stdout" => Box::new(io::stdout()),
        path => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
    })
}

/// What libraries say below a warning is about themselves, not about the agent.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(env!("CARGO_CRATE_NAME"))
}

impl<S: Subscriber> Layer<S> for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Asked once for each place in the code: only what no reload can change is settled here.
        if is_ours(metadata) || *metadata.level() <= Level::WARN { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = guard.as_ref() else { return false };
        *metadata.level() <= if is_ours(metadata) { inner.level } else { inner.level.min(Level::WARN) }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = guard.as_ref() else { return };
        let line = Line::of(event);
        let passes =
            inner.sampling.lock().unwrap_or_else(PoisonError::into_inner).passes(&line.message, Instant::now());
        if !passes {
            return;
        }
        let now = jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default();
        let text = match inner.settings.encoding {
            LogEncoding::Console => line.console(now, &inner.settings),
            LogEncoding::Json => line.json(now, &inner.settings),
        };
        for place in inner.places.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // A log that cannot be written has nowhere to say so.
            let _ = place.write_all(text.as_bytes()).and_then(|()| place.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(settings: &LogSettings, say: impl FnOnce()) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let settings = LogSettings { output_paths: vec![path.to_str().unwrap().into()], ..settings.clone() };
        let log = Log::default();
        assert_eq!(log.follow(&settings), Vec::<String>::new());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), say);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_level_counts_and_libraries_are_quiet() {
        let text = written(&LogSettings::default(), || {
            tracing::debug!("hidden");
            tracing::info!(otelcol.component.id = "sched", count = 3, "started");
            tracing::info!(target: "hyper", "hidden");
            tracing::warn!(target: "hyper", "told");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with("  info   started  otelcol.component.id=sched count=3"), "{text}");
        assert!(lines[1].ends_with("  warn   told"), "{text}");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let settings = LogSettings {
            encoding: LogEncoding::Json,
            initial_fields: [("site".to_owned(), "a".to_owned())].into(),
            ..LogSettings::default()
        };
        let text = written(&settings, || tracing::error!(otelcol.component.id = "x", items = 2_u64, "one\ntwo"));
        let object: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(object["level"], "error");
        assert_eq!(object["msg"], "one\ntwo");
        assert_eq!(object["otelcol.component.id"], "x");
        assert_eq!(object["items"], 2);
        assert_eq!(object["site"], "a");
        assert!(object["ts"].as_str().unwrap().ends_with('Z'));
        assert!(object["caller"].as_str().unwrap().contains("logs/mod.rs:"));
    }

    #[test]
    fn a_place_that_cannot_be_opened_is_told() {
        let settings = LogSettings { output_paths: vec!["/no/such/folder/log".into()], ..LogSettings::default() };
        let troubles = Log::default().follow(&settings);
        assert!(troubles[0].starts_with("service::telemetry::logs::output_paths: /no/such/folder/log: "));
    }
}
