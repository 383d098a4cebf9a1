//! Pure: the cgroup grammar. A path tells the container, its runtime, pod, QoS class and systemd unit.
//!
//! [`parse_path`] walks one path once, from the root to the leaf; the deepest container wins. Monitors
//! (conmon, lxc.monitor, the supervisor of nspawn) and virtual machines are no containers. [`proc_text`]
//! reads a whole `/proc/PID/cgroup`, [`mountinfo`] helps where a cgroup namespace hides the path.
//! Refuses to know: names that only a runtime can tell, files, processes.

use std::borrow::Cow;

pub mod mountinfo;
mod pod;
pub mod proc_text;
mod segment;
mod unit;
mod walk;

pub use proc_text::parse_text;
pub use walk::parse_path;

/// Who made a container; the values of `container.runtime.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// Docker Engine, rootless or not.
    Docker,
    /// containerd by CRI or nerdctl.
    Containerd,
    /// CRI-O.
    Crio,
    /// podman, rootless or not.
    Podman,
    /// LXC, LXD, Incus, libvirt-lxc.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
    /// Cloud Foundry's Guardian.
    Garden,
    /// Kata Containers: the sandbox as the host sees it.
    Kata,
    /// A step of a BuildKit build.
    Buildkit,
}

impl Runtime {
    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Podman => "podman",
            Self::Lxc => "lxc",
            Self::Nspawn => "systemd-nspawn",
            Self::Garden => "garden",
            Self::Kata => "kata",
            Self::Buildkit => "buildkit",
        }
    }
}

/// The class that the kubelet put a pod into; the values of `k8s.pod.qos_class`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Qos {
    /// Requests equal limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// None.
    BestEffort,
}

impl Qos {
    /// The attribute value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Burstable => "burstable",
            Self::BestEffort => "besteffort",
        }
    }
}

/// A container as its cgroup names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container<'a> {
    /// 64 hex digits, or what stands for it: an ECS task's `32hex-digits`, a Garden handle, an LXC name.
    pub id: Cow<'a, str>,
    /// Only where the path itself has a name (LXC, nspawn).
    pub name: Option<Cow<'a, str>>,
    /// Where the path tells it.
    pub runtime: Option<Runtime>,
}

/// What a path tells. Every `None` is unknown, never empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The deepest container.
    pub container: Option<Container<'a>>,
    /// As the API spells it, with dashes; 32 hex digits for a static pod.
    pub pod_uid: Option<Cow<'a, str>>,
    /// Of that pod.
    pub qos: Option<Qos>,
    /// The name of the pod's container, where only mounts tell who it is.
    pub pod_container: Option<Cow<'a, str>>,
    /// The system unit by systemd's own rule, spelled as in the path.
    pub unit: Option<&'a str>,
    /// The path is that of a monitor or a virtual machine: nothing else may name a container for it.
    pub monitor: bool,
    /// How many containers stand in the path, one in the other.
    pub depth: u8,
}

impl Identity<'_> {
    /// Nothing at all is known.
    pub fn is_empty(&self) -> bool {
        self.container.is_none() && self.pod_uid.is_none() && self.unit.is_none()
    }
}

#[cfg(test)]
mod tests;
