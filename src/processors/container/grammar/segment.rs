//! Pure: what one path component is, by tables.

use std::borrow::Cow;

use super::{Container, Runtime, pod, unit};

/// What a component says about the one that follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing.
    #[default]
    Anywhere,
    /// Below `docker`.
    Docker,
    /// Below a containerd namespace that only CRI uses.
    Cri,
    /// Below `buildkit`.
    Buildkit,
    /// Below `garden`, or one of its CPU entitlement groups.
    Garden,
    /// Below a directory whose children are LXC containers by name.
    Lxc,
    /// Below `ecs`: task directories, then containers.
    Ecs,
    /// Below `mesos`.
    Mesos,
    /// Children are pods, monitors or virtual machines: never containers by their bare id.
    NoContainers,
    /// Below the kubelet's root.
    Kubepods,
    /// Below its class of burstable pods.
    Burstable,
    /// Below its class of best-effort pods.
    BestEffort,
    /// Below the unit of an nspawn machine.
    Machine,
}

/// Components that are no container themselves and tell what comes below. A `match`, not a list: compared
/// by length first, in line.
fn place_of(component: &str) -> Option<Place> {
    Some(match component {
        "docker" | "moby" => Place::Docker,
        "k8s.io" => Place::Cri,
        "buildkit" => Place::Buildkit,
        "garden" => Place::Garden,
        "lxc" | "lxc.payload" => Place::Lxc,
        "ecs" => Place::Ecs,
        "mesos" => Place::Mesos,
        "kubepods" | "kubepods.slice" => Place::Kubepods,
        "burstable" => Place::Burstable,
        "besteffort" => Place::BestEffort,
        "lxc.monitor" | "lxc.pivot" => Place::NoContainers,
        // podman by the cgroupfs driver: a bare id below it is a pod's
        "libpod_parent" | "conmon" => Place::NoContainers,
        "kata_overhead" | "kata_overhead.slice" | "firecracker" => Place::NoContainers,
        _ => return None,
    })
}

/// What stands before `-<64 hex>` in a scope or a directory.
enum Prefix {
    /// A container's.
    Of(Runtime),
    /// A monitor's.
    Monitor,
}

fn prefix_of(word: &str) -> Option<Prefix> {
    Some(match word {
        "docker" => Prefix::Of(Runtime::Docker),
        "cri-containerd" | "containerd" | "nerdctl" => Prefix::Of(Runtime::Containerd),
        "crio" => Prefix::Of(Runtime::Crio),
        "libpod" | "libpod-payload" => Prefix::Of(Runtime::Podman),
        "kata" => Prefix::Of(Runtime::Kata),
        "buildkit" => Prefix::Of(Runtime::Buildkit),
        "crio-conmon" | "cri-o-conmon" | "libpod-conmon" | "conmon" => Prefix::Monitor,
        _ => return None,
    })
}

/// libvirt's and vmspawn's names for machines that are virtual.
const VIRTUAL_MACHINES: [&str; 7] = ["qemu-", "ch-", "xen-", "kvm-", "vz-", "bhyve-", "vbox-"];

/// Bytes of a BuildKit id in base 36.
const BUILDKIT_ID_BYTES: usize = 25;

/// What one component is.
pub(super) enum Segment<'a> {
    /// Names a container.
    Container(Container<'a>),
    /// An nspawn machine: a container unless its supervisor follows.
    Machine(Container<'a>),
    /// A monitor or a virtual machine.
    Monitor,
    /// Tells what follows.
    Place(Place),
    /// Says nothing.
    Plain,
}

/// Classifies a component that stands below `place`.
pub(super) fn classify<'a>(component: &'a str, place: Place) -> Segment<'a> {
    if let Some(named) = by_place(component, place) {
        return named;
    }
    if let Some(place) = place_of(component) {
        return Segment::Place(place);
    }
    if component.len() >= 64 {
        return by_hash(component, place);
    }
    by_name(component)
}

/// Names that only mean something below a certain parent.
fn by_place<'a>(component: &'a str, place: Place) -> Option<Segment<'a>> {
    let container = |runtime| Segment::Container(Container { id: component.into(), name: None, runtime });
    match place {
        Place::Lxc => Some(named(component.into(), Runtime::Lxc)),
        Place::NoContainers if component.len() == 64 => Some(Segment::Place(place)),
        Place::Garden if matches!(component, "good" | "bad") => Some(Segment::Place(Place::Garden)),
        Place::Garden if is_handle(component) => Some(container(Some(Runtime::Garden))),
        Place::Buildkit if is_buildkit_id(component) => Some(container(Some(Runtime::Buildkit))),
        Place::Mesos if component.len() == 36 && pod::uid(component).is_some() => Some(container(None)),
        Place::Ecs if is_fargate_id(component) => Some(container(None)),
        // the task directory: its children are still ECS'
        Place::Ecs if component.len() < 64 => Some(Segment::Place(Place::Ecs)),
        _ => None,
    }
}

/// Components that can end in 64 hex digits.
fn by_hash(component: &str, place: Place) -> Segment<'_> {
    let (stem, scope) = match component.strip_suffix(".scope") {
        Some(stem) => (stem, true),
        None => (component, false),
    };
    let (stem, kata) = match stem.strip_prefix("kata_") {
        Some(stem) => (stem, true),
        None => (stem, false),
    };
    let Some((before, id)) = stem.len().checked_sub(64).and_then(|at| stem.split_at_checked(at)) else {
        return by_name(component);
    };
    if !is_hex(id.as_bytes()) {
        return by_name(component);
    }
    let runtime = match before.as_bytes().last() {
        None => match place {
            Place::Docker => Some(Runtime::Docker),
            Place::Cri => Some(Runtime::Containerd),
            Place::NoContainers => return Segment::Monitor,
            _ => None,
        },
        Some(b'-' | b':') => {
            let prefix = before.get(..before.len() - 1).unwrap_or_default();
            // "slice:prefix:id", taken literally by a runtime whose driver is not systemd's
            let prefix = if scope { prefix } else { prefix.rsplit(':').next().unwrap_or(prefix) };
            match prefix_of(prefix) {
                Some(Prefix::Monitor) => return Segment::Monitor,
                Some(Prefix::Of(runtime)) => Some(runtime),
                None if scope || before.ends_with(':') => None,
                None => return by_name(component),
            }
        }
        Some(_) => return by_name(component),
    };
    let runtime = if kata { Some(Runtime::Kata) } else { runtime };
    Segment::Container(Container { id: id.into(), name: None, runtime })
}

/// Components that carry a name, and no hash.
fn by_name(component: &str) -> Segment<'_> {
    if let Some(name) = component.strip_prefix("lxc.payload.") {
        return if name.is_empty() { Segment::Plain } else { named(name.into(), Runtime::Lxc) };
    }
    if component.starts_with("lxc.monitor.") {
        return Segment::Monitor;
    }
    if let Some(machine) = component.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope")) {
        return of_machine(unit::unescape(machine));
    }
    if let Some(machine) = component.strip_prefix("systemd-nspawn@").and_then(|rest| rest.strip_suffix(".service")) {
        let name = unit::unescape(machine);
        return Segment::Machine(Container { id: name.clone(), name: Some(name), runtime: Some(Runtime::Nspawn) });
    }
    if let Some(name) = component.strip_suffix(".libvirt-lxc") {
        return named(name.into(), Runtime::Lxc);
    }
    if component.ends_with(".libvirt-qemu") || component.starts_with("systemd-vmspawn@") {
        return Segment::Monitor;
    }
    let buildkit = component.strip_suffix(".scope").and_then(|stem| {
        stem.strip_prefix("docker-").or_else(|| stem.strip_prefix("buildkit-")).filter(|id| is_buildkit_id(id))
    });
    match buildkit {
        Some(id) => Segment::Container(Container { id: id.into(), name: None, runtime: Some(Runtime::Buildkit) }),
        None => Segment::Plain,
    }
}

/// A machine registered with machined: nspawn's, or one of libvirt's drivers by the name's first word.
fn of_machine(name: Cow<'_, str>) -> Segment<'_> {
    if name.is_empty() || VIRTUAL_MACHINES.iter().any(|driver| name.starts_with(driver)) {
        return Segment::Monitor;
    }
    // libvirt-lxc: lxc-<number>-<name>
    let lxc = name.strip_prefix("lxc-").and_then(|rest| rest.split_once('-'));
    if let Some((number, domain)) = lxc
        && !domain.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return named(Cow::Owned(domain.to_owned()), Runtime::Lxc);
    }
    Segment::Machine(Container { id: name.clone(), name: Some(name), runtime: Some(Runtime::Nspawn) })
}

/// A container whose name is its identity on this host.
fn named(name: Cow<'_, str>, runtime: Runtime) -> Segment<'_> {
    Segment::Container(Container { id: name.clone(), name: Some(name), runtime: Some(runtime) })
}

/// Lower-case hex digits only, and at least one. A fold, not `all`: without a branch it is vectorised.
pub(super) fn is_hex(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().fold(true, |hex, byte| hex & matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `<32 hex>-<digits>`, what Fargate calls a DockerId.
fn is_fargate_id(component: &str) -> bool {
    let Some((task, number)) = component.split_once('-') else { return false };
    task.len() == 32
        && is_hex(task.as_bytes())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// 25 digits of base 36.
fn is_buildkit_id(component: &str) -> bool {
    component.len() == BUILDKIT_ID_BYTES
        && component.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z'))
        && component.bytes().any(|byte| byte.is_ascii_digit())
}

/// A Garden handle: usually a (shortened) UUID, but any word may be given.
fn is_handle(component: &str) -> bool {
    !unit::is_unit(component)
        && !unit::is_slice(component)
        && component.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
