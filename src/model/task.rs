//! Who runs: threads, their processes, the cgroups they live in.

use std::sync::Arc;

use super::time::BootNs;

/// A cgroup as the kernel identifies it for as long as it lives.
///
/// `id` is kernfs' node id in the hierarchy that has the cpu controller (v1, hybrid) or in v2; ids are
/// reused, so `serial` (the css serial number, ever growing) belongs to the identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupKey {
    /// kernfs node id.
    pub id: u64,
    /// css serial number, 0 where it is not known.
    pub serial: u64,
}

/// What the receiver knows of a cgroup when it names it in a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupFacts {
    /// Path below the hierarchy's mount, from the root, beginning with `/`; `None` where it was never
    /// seen (a cgroup that died before anybody could look).
    pub path: Option<Arc<str>>,
    /// The cgroup no longer exists; this batch holds the last of it.
    pub gone: bool,
}

/// A process: thread group id in the initial pid namespace and start time, which together do not repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// Thread group id, initial pid namespace.
    pub pid: u32,
    /// Start of the group leader (`start_boottime`), ns.
    pub start: BootNs,
}

/// One thread. Shared by all cycles of it; a renamed thread is a new `Task` value with the same `tid`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread id, initial pid namespace.
    pub tid: u32,
    /// Its process.
    pub process: ProcessKey,
    /// Start of this thread (`start_boottime`), ns.
    pub start: BootNs,
    /// The thread's name, sanitised to UTF-8 (any bytes occur in the kernel's 15).
    pub comm: Arc<str>,
    /// Kernel thread: belongs to no container.
    pub kernel_thread: bool,
    /// Where it lived when this value was made.
    pub cgroup: CgroupKey,
}

/// What is known of a process beyond its key; filled by the `container` processor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// The pid inside its innermost pid namespace, where known.
    pub vpid: Option<u32>,
    /// `process.executable.name`.
    pub executable_name: Option<Arc<str>>,
    /// `process.executable.path`.
    pub executable_path: Option<Arc<str>>,
    /// Attributes of the process' own Resource: its container's, its `service.name`, `process.*`.
    pub resource: Arc<super::Resource>,
}
