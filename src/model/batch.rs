//! What travels from the `sched` receiver to the processors: a stretch of time with all that happened in it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::cycle::Cycle;
use super::limits::HostCounters;
use super::loss::Losses;
use super::owner::Owner;
use super::targets::Targets;
use super::task::{CgroupFacts, CgroupKey, Process, ProcessKey};
use super::time::{BootNs, ClockOffset};
use super::totals::{CgroupTotals, ThreadTotals};

/// What the stages behind a `sched` receiver need of it; what nobody asks for is not attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// Selected cycles.
    pub cycles: bool,
    /// Blocks with their wakers in those cycles.
    pub blocks: bool,
    /// The active spans that threads publish.
    pub contexts: bool,
    /// The active spans that other instrumentation tells of threads (`traces_ctx_v1`).
    pub shared_contexts: bool,
    /// Histograms of run slices.
    pub run_histogram: bool,
    /// Histograms of blocks.
    pub block_histogram: bool,
    /// Quotas, pressure and steal, from files.
    pub limits: bool,
    /// Every cycle of the processes that a history is asked about.
    pub history: bool,
    /// What each thread did, beside the totals of cgroups.
    pub threads: bool,
}

impl Wants {
    /// What both need.
    pub fn merge(self, other: Self) -> Self {
        Self {
            cycles: self.cycles || other.cycles,
            blocks: self.blocks || other.blocks,
            contexts: self.contexts || other.contexts,
            shared_contexts: self.shared_contexts || other.shared_contexts,
            run_histogram: self.run_histogram || other.run_histogram,
            block_histogram: self.block_histogram || other.block_histogram,
            limits: self.limits || other.limits,
            history: self.history || other.history,
            threads: self.threads || other.threads,
        }
    }
}

/// What this host's measurement can and cannot tell; the same for every batch of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostFacts {
    /// The backend in use: `tp_btf`, `tracepoint`, `tracefs`, `replay`.
    pub backend: &'static str,
    /// How throttled time was told apart: `kernel`, `hook`, `none`.
    pub throttle_source: &'static str,
    /// `kernel.boot_id`: part of every trace id.
    pub boot_id: Arc<str>,
    /// uname release.
    pub kernel_release: Arc<str>,
    /// CPUs that are online.
    pub cpus: u32,
    /// When this agent began to watch.
    pub since: BootNs,
    /// A wait that is open for longer is reported while it lasts, ns.
    pub starvation_ns: u64,
    /// Where the host's files are mounted, empty for `/`.
    pub root: Arc<str>,
}

/// A read of all totals: everything that happened up to `at` is in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collection {
    /// The time of the read.
    pub at: BootNs,
    /// Every cgroup with a live thread or with totals that are not yet final.
    pub cgroups: Vec<(CgroupKey, CgroupTotals)>,
    /// What single threads did, where asked for: in order of time for each thread.
    pub threads: Vec<ThreadTotals>,
    /// Threads that live and for which there was no room above.
    pub threads_untold: u32,
    /// Losses since the agent began to watch.
    pub losses: Losses,
    /// Context switches of all CPUs since the agent began to watch, idle tasks' apart, where counted.
    pub switches: Option<u64>,
    /// What the host tells of itself, where asked for.
    pub host: HostCounters,
}

/// One batch. Cycles of one thread are in order of time; across threads they are not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedBatch {
    /// What the host can tell.
    pub facts: Arc<HostFacts>,
    /// Kernel time to wall time, measured by the receiver at `clock_sync_interval`.
    pub offset: ClockOffset,
    /// Everything selected up to here has been delivered in this batch or an earlier one.
    pub delivered_until: BootNs,
    /// The selected cycles.
    pub cycles: Vec<Cycle>,
    /// Totals, in the batches that end a `collection_interval`.
    pub collection: Option<Collection>,
    /// Losses since the batch before this one.
    pub losses: Losses,
    /// What is known of every cgroup named in this batch (culprits and wakers included).
    pub cgroups: HashMap<CgroupKey, CgroupFacts>,
    /// Filled by the `container` processor: the owner of every cgroup above. A cgroup that is missing
    /// here belongs to the host.
    pub owners: HashMap<CgroupKey, Arc<Owner>>,
    /// Who gives spans, where names decide that; `None`: every cycle was chosen already.
    pub targets: Option<Arc<Targets>>,
    /// Filled by the `container` processor: keys of owners above that give no spans.
    pub silent: HashSet<Arc<str>>,
    /// Filled by the `container` processor: the processes of the cycles.
    pub processes: HashMap<ProcessKey, Arc<Process>>,
    /// Filled by the `container` processor: the host's own Resource.
    pub host: Option<Arc<Owner>>,
}
