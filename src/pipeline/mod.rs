//! The contracts that components meet in, the graph that wires them, and the runner that moves data.
//!
//! Refuses to know: which components exist (they are handed in as lists), what a scheduler is.

pub mod actions;
pub mod client;
pub mod component;
pub mod data;
pub mod delivery;
pub mod export;
pub mod factory;
pub mod graph;
pub mod host;
pub mod json;
pub mod listen;
pub mod otlp;
pub mod plan;
pub mod receipt;
pub mod run;
pub mod service;
pub mod tls;

pub use component::{Branch, Exporter, Extension, Gate, Outbox, Outlet, Processor, Receiver, Refused, StartError};
pub use data::{Data, Signal};
pub use export::{ExportError, Exported};
pub use factory::{
    BuildContext, BuiltExporter, Components, ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory,
    Settings,
};
pub use graph::{ComponentType, Definition, definitions, plan};
pub use host::{Authenticator, Host, RecordStore, Storage, StorageError};
pub use listen::listen;
pub use plan::{Exit, Fork, Input, Plan, Planned, Stage, Tree};
pub use receipt::{Parcel, Receipt};
pub use run::{Assembly, Drained, Failure, Leftover, Running};
pub use service::ServiceSettings;
