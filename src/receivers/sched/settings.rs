//! The keys of `receivers::sched`, their defaults and bounds.
//!
//! Refuses to know: the kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Period, Section};
use crate::model::TargetGlobs;

/// How events are taken from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The first of the others that loads.
    #[default]
    Auto,
    /// BPF on BTF tracepoints; totals are kept in the kernel.
    TpBtf,
    /// Single events by BPF on classic static tracepoints; needs no BTF.
    Tracepoint,
    /// Single events by the text of tracefs, no BPF at all.
    Tracefs,
}

impl Backend {
    /// It is asked for by name, and takes single events.
    pub(super) fn is_by_events(self) -> bool {
        matches!(self, Self::Tracepoint | Self::Tracefs)
    }
}

/// Whose tasks are watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// `host` for a host agent; inside a pod or container that cannot see the host's pid namespace, its own pod.
    #[default]
    Auto,
    /// Every task of the host.
    Host,
    /// The agent's own pod.
    Pod,
    /// The agent's own cgroup.
    Cgroup,
}

/// What happens when the kernel side cannot start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The start ends with the error.
    #[default]
    Fail,
    /// The agent runs without this receiver, its health `degraded`.
    Degrade,
}

/// Preset selections; keys given beside it win.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Few spans: only what hurts.
    Quiet,
    /// The defaults.
    #[default]
    Default,
    /// Every cycle, without limits.
    Everything,
}

/// Which cgroups and containers are meant; globs, and one that matches suffices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// The agent's own threads (only meaningful under `exclude`).
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    pub own: Option<bool>,
    /// Cgroup paths; each means all below it.
    pub cgroups: Vec<String>,
    /// Kubernetes namespaces.
    pub namespaces: Vec<String>,
    /// Pod names.
    pub pods: Vec<String>,
    /// Container names.
    pub containers: Vec<String>,
    /// systemd units.
    pub systemd_units: Vec<String>,
}

impl Targets {
    /// As the model has them.
    pub(super) fn globs(&self) -> TargetGlobs {
        TargetGlobs {
            cgroups: self.cgroups.clone(),
            units: self.systemd_units.clone(),
            namespaces: self.namespaces.clone(),
            pods: self.pods.clone(),
            containers: self.containers.clone(),
        }
    }
}

/// Which cycles become spans; one reason suffices. Totals are complete whatever is selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Select {
    /// Sets the keys below; keys given beside it win.
    pub preset: Preset,
    /// Waited at least this long. Default 1ms.
    pub wait: Option<Period>,
    /// Was throttled at least this long. Default 1ms.
    pub throttle: Option<Period>,
    /// Was blocked at least this long. Default 100ms.
    pub block: Option<Period>,
    /// Ran at least this long. Default 100ms.
    pub run: Option<Period>,
    /// Was preempted by another container and waited at least 100us. Default true.
    pub foreign_preemption: Option<bool>,
    /// The thread had a sampled application span. Default true.
    pub sampled_context: Option<bool>,
    /// Share of all the other cycles, decided once for each. Default 0.001.
    pub sample_ratio: Option<f64>,
    /// Cycles a second and cgroup, burst one second's worth; 0 = no limit. Default 50.
    pub rate_per_cgroup: Option<u32>,
    /// Cycles a second of all cgroups together; 0 = no limit. Default 5000.
    pub rate_total: Option<u32>,
}

/// A selection with the preset applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Selection {
    /// Threshold of waits, ns.
    pub wait_ns: u64,
    /// Threshold of throttled stays, ns.
    pub throttle_ns: u64,
    /// Threshold of blocks, ns.
    pub block_ns: u64,
    /// Threshold of run slices, ns.
    pub run_ns: u64,
    /// Preempted by another container.
    pub foreign_preemption: bool,
    /// Under a sampled application span.
    pub sampled_context: bool,
    /// Share of the rest.
    pub sample_ratio: f64,
    /// Cycles a second and cgroup, 0 = no limit.
    pub rate_per_cgroup: u32,
    /// Cycles a second in all, 0 = no limit.
    pub rate_total: u32,
}

impl Select {
    /// The preset with the given keys laid over it.
    pub fn resolve(&self) -> Selection {
        const MS: u64 = 1_000_000;
        let (wait, block, foreign, ratio, rate_per_cgroup, rate_total) = match self.preset {
            Preset::Quiet => (10 * MS, 1000 * MS, false, 0.0, 20, 1000),
            Preset::Default => (MS, 100 * MS, true, 0.001, 50, 5000),
            Preset::Everything => (0, 0, true, 1.0, 0, 0),
        };
        let ns = |given: Option<Period>, preset: u64| given.map_or(preset, Period::as_ns);
        Selection {
            wait_ns: ns(self.wait, wait),
            throttle_ns: ns(self.throttle, wait),
            block_ns: ns(self.block, block),
            run_ns: ns(self.run, block),
            foreign_preemption: self.foreign_preemption.unwrap_or(foreign),
            sampled_context: self.sampled_context.unwrap_or(true),
            sample_ratio: self.sample_ratio.unwrap_or(ratio),
            rate_per_cgroup: self.rate_per_cgroup.unwrap_or(rate_per_cgroup),
            rate_total: self.rate_total.unwrap_or(rate_total),
        }
    }
}

/// Scheduling cycles and totals of every thread on this host, from the kernel's scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedSettings {
    /// How events are taken from the kernel.
    pub backend: Backend,
    /// Whose tasks are watched.
    pub scope: Scope,
    /// Only these give spans; empty: all.
    pub include: Targets,
    /// These give no spans; they stay in the totals.
    pub exclude: Targets,
    /// How often totals are read, 1s to 5m.
    pub collection_interval: Period,
    /// How often kernel time is compared with wall time.
    pub clock_sync_interval: Period,
    /// Ring buffer, all CPUs together; rounded up to a power of two pages.
    pub ring_bytes: u32,
    /// The ring is drained at least this often; earlier when it is a quarter full.
    pub drain_interval: Period,
    /// Cgroups with totals of their own at the same time, removed ones until they were told included; what is over it
    /// folds into the host's, and is counted as `map_full`. 0: by CPUs, 8192 up to 4, 4096 up to 16, else 2048.
    /// Each costs about 0.6 KiB of kernel memory a CPU.
    pub max_cgroups: u32,
    /// Which cycles become spans.
    pub select: Select,
    /// Where the host's /proc and /sys are mounted, when the agent is in a container.
    pub root_path: String,
    /// A BTF file for kernels without /sys/kernel/btf/vmlinux.
    pub btf: String,
    /// The pin of the map in which other eBPF instrumentation tells the active spans of threads; it may come later.
    pub traces_ctx_v1: String,
    /// A wait still open after this is reported while it lasts.
    pub starvation: Period,
    /// Of the host's CPU, all its CPUs together: above it the rates of cycles that become spans are halved, again after
    /// every ten seconds in which it is still above. Totals stay complete. `100%` sets no limit.
    pub overhead_limit: String,
    /// What happens when the kernel side cannot start.
    pub on_error: OnError,
}

impl Default for SchedSettings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            scope: Scope::Auto,
            include: Targets::default(),
            exclude: Targets { own: Some(true), ..Targets::default() },
            collection_interval: Period::secs(10),
            clock_sync_interval: Period::secs(10),
            ring_bytes: 4 << 20,
            drain_interval: Period::millis(100),
            max_cgroups: 0,
            select: Select::default(),
            root_path: "/".into(),
            btf: String::new(),
            traces_ctx_v1: "/sys/fs/bpf/otel/traces_ctx_v1".into(),
            starvation: Period::secs(1),
            overhead_limit: "1%".into(),
            on_error: OnError::Fail,
        }
    }
}

impl Section for SchedSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let mut range = |key: &str, value: Period, low: Period, high: Period| {
            if value < low || value > high {
                at.problem(key, format!("{value} is out of range; {low} to {high} is allowed"));
            }
        };
        range("collection_interval", self.collection_interval, Period::secs(1), Period::secs(300));
        range("clock_sync_interval", self.clock_sync_interval, Period::secs(1), Period::secs(3600));
        range("drain_interval", self.drain_interval, Period::millis(1), Period::secs(10));
        range("starvation", self.starvation, Period::millis(1), Period::secs(3600));
        if !(1 << 12..=1 << 30).contains(&self.ring_bytes) {
            at.problem("ring_bytes", format!("{} is out of range; 4096 to 1073741824 is allowed", self.ring_bytes));
        }
        if self.max_cgroups > 1 << 20 {
            at.problem("max_cgroups", format!("{} is out of range; up to 1048576 is allowed", self.max_cgroups));
        }
        if let Some(ratio) = self.select.sample_ratio
            && !(0.0..=1.0).contains(&ratio)
        {
            at.problem("select::sample_ratio", format!("{ratio} is out of range; 0 to 1 is allowed"));
        }
        self.validate_targets(at);
        if !self.root_path.starts_with('/') {
            at.problem("root_path", "must be an absolute path, such as /hostfs");
        }
        let limit = percent(&self.overhead_limit);
        if !limit.is_some_and(|percent| percent > 0.0 && percent <= 100.0) {
            at.problem(
                "overhead_limit",
                format!("`{}` is not a share; write a percentage such as 1%", self.overhead_limit),
            );
        }
    }
}

/// The number before a percent sign.
fn percent(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.trim().parse().ok()
}

impl SchedSettings {
    /// `overhead_limit`; it was checked with the rest.
    pub(super) fn overhead_percent(&self) -> f64 {
        percent(&self.overhead_limit).unwrap_or(100.0)
    }

    fn validate_targets(&self, at: &mut Checker<'_>) {
        for (key, targets) in [("include", &self.include), ("exclude", &self.exclude)] {
            let lists = [
                ("cgroups", &targets.cgroups),
                ("namespaces", &targets.namespaces),
                ("pods", &targets.pods),
                ("containers", &targets.containers),
                ("systemd_units", &targets.systemd_units),
            ];
            for (word, glob) in lists.iter().flat_map(|(word, list)| list.iter().map(move |glob| (word, glob))) {
                if let Err(error) = globset::Glob::new(glob) {
                    at.problem(&format!("{key}::{word}"), format!("`{glob}` is not a glob: {}", error.kind()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that keys beside a preset win over it.
    #[test]
    fn preset_then_keys() {
        let select = Select { preset: Preset::Everything, wait: Some(Period::millis(2)), ..Select::default() };
        let selection = select.resolve();
        assert_eq!((selection.wait_ns, selection.throttle_ns, selection.rate_total), (2_000_000, 0, 0));
        assert_eq!(Select::default().resolve().block_ns, 100_000_000);
    }
}
