//! The `otlp_http` exporter: one POST for each request, protobuf or JSON.
//!
//! [`endpoint`] and [`status`] are the rules, [`body`] makes the bytes, [`exporter`] the attempt.

mod body;
pub mod endpoint;
mod exporter;
pub mod settings;
pub mod status;

use crate::config::{Problem, Problems};
use crate::pipeline::{BuiltExporter, ExporterFactory, Settings, Signal};

use self::exporter::OtlpHttp;
pub use self::settings::OtlpHttpSettings;

/// The type `otlp_http`.
pub const FACTORY: ExporterFactory = ExporterFactory {
    name: "otlp_http",
    aliases: &["otlphttp"],
    about: "sends traces, metrics and logs to any OTLP endpoint over HTTP",
    stability: "beta",
    accepts: &[Signal::Traces, Signal::Metrics, Signal::Logs],
    settings: Settings::of::<OtlpHttpSettings>(),
    build: |body, signal, context| {
        let settings: OtlpHttpSettings = body.decode()?;
        let url = endpoint::url(&settings, signal).map_err(|(key, message)| {
            Problems(vec![Problem { position: None, path: format!("{}::{key}", body.path), message }])
        })?;
        let delivery = settings.delivery();
        let exporter = OtlpHttp::new(settings, url, context.version);
        Ok(BuiltExporter { exporter: Box::new(exporter), delivery: Some(delivery) })
    },
};
