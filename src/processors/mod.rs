//! The processors: one folder or file each, named as in the YAML; this list is all that knows them.

use crate::pipeline::ProcessorFactory;

/// Every processor type.
pub const FACTORIES: &[&ProcessorFactory] = &[];
