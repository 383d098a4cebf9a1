//! Why the kernel side cannot work, with the cause and the remedy.

use std::fs;
use std::io;
use std::path::Path;

use caps::{CapSet, Capability};

use super::messages;

/// What went wrong at the kernel's edge. The text names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DriverError {
    message: String,
    /// The kernel itself lacks something: no right that somebody could give would mend it.
    kernel_lacks: bool,
}

/// Capabilities that loading needs and we lack.
fn missing_capabilities() -> Vec<&'static str> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    if has(Capability::CAP_SYS_ADMIN) {
        return Vec::new();
    }
    let needed = [(Capability::CAP_BPF, "CAP_BPF"), (Capability::CAP_PERFMON, "CAP_PERFMON")];
    needed.into_iter().filter(|(capability, _)| !has(*capability)).map(|(_, name)| name).collect()
}

/// The active word of /sys/kernel/security/lockdown.
fn lockdown() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    (word != "none").then(|| word.to_owned())
}

impl DriverError {
    pub(super) fn no_btf(error: &libbpf_rs::Error) -> Self {
        Self {
            kernel_lacks: true,
            message: format!(
                "this kernel's BTF could not be read from /sys/kernel/btf/vmlinux ({error}); a kernel with CONFIG_DEBUG_INFO_BTF has it, or name a BTF file in receivers::sched::btf"
            ),
        }
    }

    pub(super) fn bad_btf(file: &Path, error: &libbpf_rs::Error) -> Self {
        Self {
            kernel_lacks: false,
            message: format!("receivers::sched::btf: {} cannot be read as BTF: {error}", file.display()),
        }
    }

    pub(super) fn no_task_storage() -> Self {
        Self {
            kernel_lacks: true,
            message: "this kernel has no BPF task storage for tracing programs; Linux 5.13 and later have it"
                .to_owned(),
        }
    }

    pub(super) fn ring_sleeps() -> Self {
        Self {
            kernel_lacks: true,
            message: "this PREEMPT_RT kernel would sleep on the lock of its BPF ring inside the scheduler; \
                Linux 6.12 and later, and stable kernels since then, do not"
                .to_owned(),
        }
    }

    pub(super) fn load(error: &libbpf_rs::Error) -> Self {
        let mut message = format!("the BPF programs could not be loaded: {error:#}");
        let missing = missing_capabilities();
        let kernel_lacks = missing.is_empty() && lockdown().is_none();
        if !missing.is_empty() {
            message = format!(
                "the BPF programs could not be loaded: {} missing; run as root or grant CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)",
                missing.join(" and ")
            );
        } else if let Some(word) = lockdown() {
            message.push_str(&format!("; kernel lockdown: {word}"));
        } else if let Some(reason) = messages::reason() {
            message.push_str(&format!("; {reason}"));
        }
        Self { message, kernel_lacks }
    }

    pub(super) fn attach(error: &libbpf_rs::Error) -> Self {
        Self { kernel_lacks: true, message: format!("the BPF programs could not be attached: {error:#}") }
    }

    pub(super) fn map(error: &io::Error) -> Self {
        Self { kernel_lacks: false, message: format!("the BPF maps could not be mapped into memory: {error}") }
    }

    pub(super) fn collect(error: &libbpf_rs::Error) -> Self {
        Self { kernel_lacks: false, message: format!("the kernel's counters could not be read: {error:#}") }
    }

    /// Any other cause.
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self { kernel_lacks: false, message: message.into() }
    }

    /// The kernel itself lacks something, so that another way of measuring may take its place.
    pub(crate) fn kernel_lacks(&self) -> bool {
        self.kernel_lacks
    }
}
