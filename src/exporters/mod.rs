//! The exporters: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod debug;
pub mod file;
pub mod otlp_grpc;
pub mod otlp_http;
pub mod table;

use crate::pipeline::ExporterFactory;

/// Every exporter type.
pub const FACTORIES: &[&ExporterFactory] =
    &[&debug::FACTORY, &file::FACTORY, &otlp_grpc::FACTORY, &otlp_http::FACTORY, &table::FACTORY];
