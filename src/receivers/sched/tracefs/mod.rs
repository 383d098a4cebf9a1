//! The scheduler's events as the text of tracefs: no BPF, no BTF, any kernel that has ftrace.
//!
//! Everything happens in a trace instance of our own, so that nobody else's tracing is touched; one that a
//! killed agent left behind is removed by the next. What the text does not hold cannot be told: throttled and
//! stolen time, the kernel's own counters, switches that its ring lost (those are marked, and leave gaps).

mod backend;
mod identity;
mod instance;
mod measured;
mod recording;
mod select;

pub(super) use backend::Tracefs;
pub(super) use measured::MeasuredText;
pub use recording::{Recorded, record};
