//! The `sched` receiver: the kernel's scheduler becomes [`SchedBatch`](crate::model::SchedBatch)es.
//!
//! `driver` is the edge to libbpf, `wire` and `assemble` are pure, `totals` and `cgroups` read what the kernel
//! keeps, `reader` is the thread; `events` is the way where those programs cannot be had. Refuses to know: containers, OTLP.

mod assemble;
mod cgroups;
mod chosen;
mod clock;
mod contexts;
mod driver;
mod events;
mod ext;
mod keeping;
mod limits;
mod loss_log;
mod meter;
mod overhead;
mod reader;
mod settings;
mod start;
mod totals;
mod unseen;
mod view;
mod wire;

pub use events::{Recorded, record};
pub(crate) use ext::look as ext_scheduler;
pub use meter::{CgroupReading, CpuHierarchy, Memory, Meter, Offers, Reading, cpu_hierarchy};
pub use settings::{Backend, SchedSettings, Select, Selection};
pub use start::SchedReceiver;

use crate::pipeline::{ReceiverFactory, Settings, Signal};

/// The `sched` receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    name: "sched",
    aliases: &[],
    about: "Scheduling cycles and totals of every thread on this host, from the kernel's scheduler",
    stability: "alpha",
    emits: &[Signal::Sched],
    settings: Settings::of::<SchedSettings>(),
    build: |body, context| Ok(Box::new(SchedReceiver::new(body.decode()?, context))),
};
