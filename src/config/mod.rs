//! From the user's documents to typed component settings, with every mistake told at its place.
//!
//! Documents are read, expanded (`${env:X}`), merged and kept with positions ([`Body`]); components decode
//! their own part ([`Section`]). Refuses to know: components, kernels, sockets.

pub mod embedded;
mod expand;
mod fit;
mod merge;
pub mod node;
mod parse;
pub mod problem;
mod resolve;
mod scalar;
mod schema;
pub mod section;
pub mod size;
pub mod source;
pub mod suggest;
pub mod values;
mod yaml;

pub use embedded::resolve_or_default;
pub use node::Node;
pub use problem::{Position, Problem, Problems};
pub use resolve::{Resolved, resolve, resolve_documents};
pub use section::{Body, Checker, Section};
pub use size::ByteSize;
pub use source::{Document, Environment, ProcessEnvironment};
pub use values::{Opaque, Period};
pub use yaml::to_yaml;
