//! Everything a pipeline of this build may name; a program with components of its own extends the lists.

use crate::pipeline::Components;
use crate::{exporters, extensions, processors, receivers};

/// The component types of the stock binary.
pub const COMPONENTS: Components = Components {
    receivers: receivers::FACTORIES,
    processors: processors::FACTORIES,
    exporters: exporters::FACTORIES,
    extensions: extensions::FACTORIES,
};
