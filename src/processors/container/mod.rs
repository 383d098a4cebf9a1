//! The `container` processor: every cgroup of a batch gets its owner, every process its Resource.

pub mod attributes;
pub mod grammar;
