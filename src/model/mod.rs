//! The words of the domain as plain values: what the scheduler did (`cycle`, `totals`), to whom
//! (`task`, `owner`), when (`time`), and how it travels through a pipeline (`batch`).
//!
//! Refuses to know: kernels, files, sockets, clocks, OTLP, YAML. Start reading at [`cycle`].

pub mod batch;
pub mod cycle;
pub mod histogram;
pub mod limits;
pub mod loss;
pub mod owner;
pub mod resource;
pub mod targets;
pub mod task;
pub mod time;
pub mod totals;

pub use batch::{Collection, HostFacts, SchedBatch, Wants};
pub use cycle::{
    BlockState, Context, ContextSource, Culprit, CulpritKind, Cycle, Interval, IntervalKind, Reasons, RunEnd, Waker,
};
pub use histogram::Histogram;
pub use limits::{ExtScheduler, HostCounters, Limits, PressureTime, Quota};
pub use loss::{LossReason, Losses};
pub use owner::{Owner, OwnerKind};
pub use resource::{Resource, Value};
pub use targets::{TargetGlobs, Targets};
pub use task::{CgroupFacts, CgroupKey, Process, ProcessKey, Task};
pub use time::{BootNs, ClockOffset, WallNs};
pub use totals::{CgroupTotals, SchedState, StateTimes, ThreadTotals};
