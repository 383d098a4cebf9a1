//! What this kernel offers, as facts; what follows from them is decided in one place, never by version.

use libbpf_rs::ReferencesType;
use libbpf_rs::btf::types::{Composite, Func, FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, BtfType};

/// Facts from the kernel's BTF.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    /// `sched_switch` passes prev_state (four arguments beside the context).
    pub switch_passes_state: bool,
    /// `cfs_rq` keeps a throttled clock of its own.
    pub throttle_clock: bool,
    /// `rq` tells stolen time.
    pub stolen: bool,
    /// `task_struct` says that a task is throttled.
    pub task_throttled: bool,
    /// The open-coded task iterator is there.
    pub task_iterator: bool,
    /// The functions that our throttle hooks attach to are there.
    pub throttle_functions: bool,
    /// Tracing programs may keep storage in tasks.
    pub task_storage: bool,
    /// `sched_info` is there.
    pub sched_info: bool,
    /// Who finds the ring taken on another CPU sleeps, in the middle of the scheduler: PREEMPT_RT before the ring got a
    /// raw lock (Linux 6.12, and stable kernels since). Such a wait hangs the machine.
    pub ring_sleeps: bool,
}

/// A kernel with PREEMPT_RT says so in its version, also where no /sys is seen.
pub(super) fn is_realtime() -> bool {
    let uname = rustix::system::uname();
    let version = uname.version().to_string_lossy();
    version.contains("PREEMPT_RT") || version.contains("PREEMPT RT")
}

fn has_member(btf: &Btf<'_>, name: &str, member: &str) -> bool {
    let found: Option<Composite<'_>> = btf.type_by_name(name);
    found.is_some_and(|composite| composite.iter().any(|field| field.name.is_some_and(|known| known == member)))
}

fn member_type(btf: &Btf<'_>, name: &str, member: &str) -> Option<String> {
    let composite: Composite<'_> = btf.type_by_name(name)?;
    let found = composite.iter().find(|field| field.name.is_some_and(|known| known == member))?;
    let its: BtfType<'_> = btf.type_by_id(found.ty)?;
    Some(its.name()?.to_string_lossy().into_owned())
}

fn has_function(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<Func<'_>>(name).is_some()
}

/// Number of arguments of a BTF tracepoint, the context among them.
fn tracepoint_arguments(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let alias: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{name}"))?;
    let pointer: Ptr<'_> = alias.referenced_type().try_into().ok()?;
    let function: FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
    Some(function.iter().count())
}

impl KernelFacts {
    /// Reads them.
    pub(crate) fn read(btf: &Btf<'_>) -> Self {
        Self {
            switch_passes_state: tracepoint_arguments(btf, "sched_switch").is_some_and(|count| count >= 5),
            throttle_clock: has_member(btf, "cfs_rq", "throttled_clock_self_time"),
            stolen: has_member(btf, "rq", "prev_steal_time_rq") || has_member(btf, "rq", "prev_irq_time"),
            task_throttled: has_member(btf, "task_struct", "throttled"),
            task_iterator: has_function(btf, "bpf_iter_task_new"),
            throttle_functions: has_function(btf, "tg_throttle_down") && has_function(btf, "tg_unthrottle_up"),
            task_storage: has_member(btf, "task_struct", "bpf_storage"),
            sched_info: has_member(btf, "sched_info", "last_queued"),
            ring_sleeps: is_realtime()
                && member_type(btf, "bpf_ringbuf", "spinlock").is_none_or(|lock| lock == "spinlock_t"),
        }
    }
}
