//! The `otlp_grpc` exporter: one unary call of the OTLP service of each signal for each request.
//!
//! [`endpoint`] and [`status`] are the rules, [`connect`] opens connections, [`compressed`] tells what
//! is gzip, [`exporter`] makes the attempt.

mod compressed;
mod connect;
pub mod endpoint;
mod exporter;
mod proxy;
pub mod settings;
pub mod status;

use crate::pipeline::{BuiltExporter, ExporterFactory, Settings, Signal};

use self::exporter::OtlpGrpc;
pub use self::settings::OtlpGrpcSettings;

/// The type `otlp_grpc`.
pub const FACTORY: ExporterFactory = ExporterFactory {
    name: "otlp_grpc",
    aliases: &["otlp", "otlpgrpc"],
    about: "sends traces, metrics and logs to any OTLP endpoint over gRPC",
    stability: "beta",
    accepts: &[Signal::Traces, Signal::Metrics, Signal::Logs],
    settings: Settings::of::<OtlpGrpcSettings>(),
    build: |body, signal, context| {
        let settings: OtlpGrpcSettings = body.decode()?;
        let delivery = settings.delivery();
        let exporter = OtlpGrpc::new(settings, signal, context.version);
        Ok(BuiltExporter { exporter: Box::new(exporter), delivery: Some(delivery) })
    },
};
