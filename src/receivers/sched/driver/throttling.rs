//! The ways to tell throttled time from waiting, and which of them a kernel may have.

use super::facts::KernelFacts;

/// As many places as ways that one kernel may be tried with.
pub(super) const ATTEMPTS: usize = 3;

/// How throttled time is told from waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThrottleSource {
    /// The kernel's own throttled clock.
    Kernel,
    /// A clock kept by our hooks.
    Hook,
    /// Not at all: waiting includes it.
    None,
}

impl ThrottleSource {
    /// The attribute value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Hook => "hook",
            Self::None => "none",
        }
    }
}

/// What is loaded for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing: the kernel's clock is read.
    Clock,
    /// Hooks by fentry.
    Functions,
    /// The same by kprobes: arm64 takes no fentry on older kernels.
    Probes,
    /// Nothing, and nothing is told.
    Nothing,
}

impl Way {
    /// Those to try, best first; whether a hook attaches is seen by attaching it.
    pub(super) fn possible(facts: KernelFacts) -> Vec<Self> {
        match facts {
            KernelFacts { throttle_clock: true, .. } => vec![Self::Clock],
            KernelFacts { throttle_functions: true, .. } => vec![Self::Functions, Self::Probes, Self::Nothing],
            _ => vec![Self::Nothing],
        }
    }

    /// As it is told.
    pub(super) fn source(self) -> ThrottleSource {
        match self {
            Self::Clock => ThrottleSource::Kernel,
            Self::Functions | Self::Probes => ThrottleSource::Hook,
            Self::Nothing => ThrottleSource::None,
        }
    }
}
