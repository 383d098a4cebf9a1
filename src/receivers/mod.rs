//! The receivers: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod otlp;
pub mod replay;
pub mod sched;

use crate::pipeline::ReceiverFactory;

/// Every receiver type.
pub const FACTORIES: &[&ReceiverFactory] = &[&otlp::FACTORY, &replay::FACTORY, &sched::FACTORY];
