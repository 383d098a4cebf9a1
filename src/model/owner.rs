//! Who a metric or a trace is about: a container, a systemd unit, or the host.

use std::sync::Arc;

use super::resource::Resource;

/// What sort of owner it is; settles which metrics Resource and whether standalone traces exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A container: cgroups inside it roll up into it.
    Container,
    /// A systemd unit that is in no container.
    Unit,
    /// The rest: kernel threads, the root cgroup, what is in no unit. Has metrics and no traces.
    Host,
}

/// The owner of one or more cgroups. Two cgroups with the same `key` are one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// Stable identity within this agent: the container id, the unit, or `host`.
    pub key: Arc<str>,
    /// What it is.
    pub kind: OwnerKind,
    /// What a person calls it: `shop/web-0/app`, `batch-7f2`, `ssh.service`, `host`.
    pub display_name: Arc<str>,
    /// Its Resource, without `process.*`.
    pub resource: Arc<Resource>,
    /// Its names may still come (bounded by `container::name_wait`): spans and series that can wait, wait.
    pub provisional: bool,
}
