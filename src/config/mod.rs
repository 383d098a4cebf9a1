//! From the user's documents to typed component settings, with every mistake told at its place.
//!
//! Documents are read, expanded (`${env:X}`), merged and kept with positions ([`Body`]); components decode
//! their own part ([`Section`]). Refuses to know: components, kernels, sockets.

pub mod problem;
pub mod section;
pub mod values;

pub use problem::{Position, Problem, Problems};
pub use section::{Body, Checker, Section};
pub use values::{Opaque, Period};
