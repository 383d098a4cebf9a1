//! The scheduler's events one by one, for the reference machine: where the kernel does not take programs that keep
//! the totals themselves.
//!
//! Their source is a program on the classic tracepoints (`ring`), or the text of tracefs without any BPF (`text`):
//! any kernel that has ftrace. What the events do not hold cannot be told: throttled and stolen time, the kernel's
//! own counters, what was lost on the way (marked, and leaves gaps).

mod backend;
mod fields;
mod identity;
mod measured;
pub(super) mod raw;
mod recording;
mod ring;
mod select;
mod source;
mod text;

pub(super) use backend::EventBackend;
pub(super) use measured::MeasuredEvents;
pub use recording::{Recorded, record};
