//! The exporters: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod otlp_grpc;
pub mod table;

use crate::pipeline::ExporterFactory;

/// Every exporter type.
pub const FACTORIES: &[&ExporterFactory] = &[&otlp_grpc::FACTORY, &table::FACTORY];
