//! Pure: scheduler events from the text that tracers print: ftrace (`trace`, `trace_pipe`), `trace-cmd report`,
//! `perf script`; told apart line by line, so joined captures are read too.
//!
//! Works on bytes: a thread's name holds any. Refuses to know: files, where lines come from, what events mean.

mod cursor;
mod decoder;
mod header;
mod line;
mod payload;

pub use decoder::{Decoder, Item};
pub use line::{Line, TextEvent, Unreadable, parse};
pub use payload::{Payload, Who};
