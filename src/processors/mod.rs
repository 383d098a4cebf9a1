//! The processors: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod batch;
pub mod container;
pub mod memory_limiter;
pub mod sched_metrics;
pub mod sched_spans;

use crate::pipeline::ProcessorFactory;

/// Every processor type.
pub const FACTORIES: &[&ProcessorFactory] =
    &[&batch::FACTORY, &container::FACTORY, &memory_limiter::FACTORY, &sched_metrics::FACTORY, &sched_spans::FACTORY];
