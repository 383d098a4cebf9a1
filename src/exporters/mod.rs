//! The exporters: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod table;

use crate::pipeline::ExporterFactory;

/// Every exporter type.
pub const FACTORIES: &[&ExporterFactory] = &[&table::FACTORY];
