//! Pure: what happened to each thread, from raw scheduler events: the reference that the kernel's own
//! program is held against, and the engine of replay and of the backends that see raw events.
//!
//! Refuses to know: clocks, files, kernels, text. Start reading at [`machine`], then [`event`].

mod comm;
mod event;
mod machine;
mod state;
#[cfg(test)]
mod tests;
mod thread;
mod threads;
mod totals;

pub use comm::Comm;
pub use event::{Current, Event, Named, Record, WakeupKind};
pub use machine::{Machine, Observer};
pub use state::{Era, SwitchOut, TaskState};
pub use threads::Limits;
pub use totals::{Discards, ThreadTotals};
