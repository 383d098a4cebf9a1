//! The `file` exporter: OTLP as JSON lines, or as protobuf records with a length before each.
//!
//! Lines are readable by the Collector's `otlpjsonfile` receiver. [`writer`] owns the file.

pub mod settings;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

pub use self::settings::FileSettings;
use self::writer::Writer;
use crate::config::Period;
use crate::pipeline::client::payload;
use crate::pipeline::delivery::{DeliverySettings, RetryOnFailure, SendingQueue};
use crate::pipeline::{
    BuiltExporter, Data, ExportError, Exported, Exporter, ExporterFactory, Host, Settings, Signal, StartError, json,
};

/// The type `file`.
pub const FACTORY: ExporterFactory = ExporterFactory {
    name: "file",
    aliases: &[],
    about: "writes traces, metrics and logs to a file, as OTLP JSON lines or protobuf",
    stability: "beta",
    accepts: &[Signal::Traces, Signal::Metrics, Signal::Logs],
    settings: Settings::of::<FileSettings>(),
    build: |body, _signal, _context| {
        let settings: FileSettings = body.decode()?;
        // A file has no bad days that waiting would mend: the pipeline writes, and counts what fails.
        let delivery = DeliverySettings {
            timeout: Period::default(),
            sending_queue: SendingQueue { enabled: false, ..SendingQueue::default() },
            retry_on_failure: RetryOnFailure { enabled: false, ..RetryOnFailure::default() },
            max_request_bytes: 0,
        };
        let exporter = File { settings, writer: Arc::default() };
        Ok(BuiltExporter { exporter: Box::new(exporter), delivery: Some(delivery) })
    },
};

struct File {
    settings: FileSettings,
    writer: Arc<Mutex<Option<Writer>>>,
}

impl File {
    /// One record as it stands in the file.
    fn record(&self, data: &Data) -> std::io::Result<Vec<u8>> {
        let encoded = if self.settings.format == "proto" { payload::encode(data).to_vec() } else { json::encode(data) };
        let compressed = self.settings.compression == "zstd";
        if self.settings.format == "json" && !compressed {
            return Ok([&encoded, b"\n".as_slice()].concat());
        }
        let body = if compressed { zstd::bulk::compress(&encoded, 0)? } else { encoded };
        let length = u32::try_from(body.len()).map_err(std::io::Error::other)?;
        Ok([length.to_be_bytes().as_slice(), &body].concat())
    }
}

#[async_trait]
impl Exporter for File {
    fn target(&self) -> &str {
        &self.settings.path
    }

    async fn start(&self, _host: &Host) -> Result<(), StartError> {
        let writer = Writer::open(&self.settings).map_err(|error| {
            StartError::new(format!("path: cannot open {} for writing: {error}", self.settings.path))
        })?;
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(())
    }

    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        let failed = |error: String| ExportError::Permanent(format!("cannot write to {}: {error}", self.settings.path));
        let record = self.record(data).map_err(|error| failed(error.to_string()))?;
        let writer = self.writer.clone();
        // A disk may take its time; the runtime's own threads must not.
        let written = tokio::task::spawn_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.as_mut().map_or_else(|| Err(std::io::Error::other("not open")), |writer| writer.write(&record))
        });
        match written.await {
            Ok(Ok(())) => Ok(Exported::default()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    async fn shutdown(&self) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests;
