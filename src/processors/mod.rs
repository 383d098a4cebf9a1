//! The processors: one folder or file each, named as in the YAML; this list is all that knows them. `intervals` is
//! what those that make spans of intervals share.

pub mod attributes;
pub mod batch;
pub mod container;
pub mod filter;
mod intervals;
pub mod memory_limiter;
pub mod resource;
pub mod resource_detection;
pub mod sched_enrich;
pub mod sched_metrics;
pub mod sched_spans;

use crate::pipeline::ProcessorFactory;

/// Every processor type.
pub const FACTORIES: &[&ProcessorFactory] = &[
    &attributes::FACTORY,
    &batch::FACTORY,
    &container::FACTORY,
    &filter::FACTORY,
    &memory_limiter::FACTORY,
    &resource::FACTORY,
    &resource_detection::FACTORY,
    &sched_enrich::FACTORY,
    &sched_metrics::FACTORY,
    &sched_spans::FACTORY,
];
