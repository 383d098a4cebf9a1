//! Pure: one walk over one path.

use super::segment::{Place, Segment, classify};
use super::{Container, Identity, Qos, pod, unit};

/// Reads one cgroup path: absolute, or relative to a cgroup namespace (`/../..`), with or without the
/// kernel's ` (deleted)`.
pub fn parse_path(path: &str) -> Identity<'_> {
    let path = path.strip_suffix('\n').unwrap_or(path);
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let mut walk = Walk::default();
    let mut rest = path;
    while !rest.is_empty() {
        // by bytes: components are short, and a search for a char is set up anew for each
        let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (component, tail) = rest.split_at(end);
        if !component.is_empty() && component != ".." {
            walk.step(component);
        }
        rest = tail.get(1..).unwrap_or_default();
    }
    walk.finish()
}

#[derive(Default)]
struct Walk<'a> {
    found: Identity<'a>,
    /// The unit has been decided: the first component that is no slice.
    past_unit: bool,
    place: Place,
    /// An nspawn machine waits for what follows it.
    machine: Option<Container<'a>>,
    /// A service of nspawn, whose own cgroup is the supervisor's.
    machine_is_service: bool,
}

impl<'a> Walk<'a> {
    fn step(&mut self, component: &'a str) {
        if !self.past_unit && !unit::is_slice(component) {
            self.past_unit = true;
            self.found.unit = unit::is_unit(component).then_some(component);
        }
        if let Some(machine) = self.machine.take() {
            match component {
                "supervisor" => self.found.monitor = true,
                // libvirt's own layout inside a scope: emulator and vcpus
                "libvirt" => self.found.monitor = true,
                _ => self.enter(machine),
            }
        }
        if self.pod(component) {
            return;
        }
        let place = std::mem::take(&mut self.place);
        match classify(component, place) {
            Segment::Container(container) => self.enter(container),
            Segment::Machine(container) => {
                self.machine = Some(container);
                self.machine_is_service = component.ends_with(".service");
                self.place = Place::Machine;
            }
            Segment::Monitor => self.found.monitor = true,
            Segment::Place(Place::NoContainers) => {
                self.found.monitor = true;
                self.place = Place::NoContainers;
            }
            Segment::Place(place) => self.place = place,
            Segment::Plain => {}
        }
    }

    /// Takes a pod out of the component, if it names one; true where nothing else is in it.
    fn pod(&mut self, component: &'a str) -> bool {
        if let Some(uid) = pod::of_directory(component) {
            self.found.qos = match self.place {
                Place::Burstable => Some(Qos::Burstable),
                Place::BestEffort => Some(Qos::BestEffort),
                Place::Kubepods => Some(Qos::Guaranteed),
                // a namespace hides the parents: the class is not known
                _ => None,
            };
            self.found.pod_uid = Some(uid);
            self.place = Place::Anywhere;
            return true;
        }
        // "slice:prefix:id", taken literally by a runtime whose driver is not systemd's, holds a container too
        let slice = match component.ends_with(".slice") {
            true => component,
            false if component.len() > 64 => component.split(':').next().unwrap_or(component),
            false => return false,
        };
        let Some((uid, qos)) = pod::of_slice(slice) else { return false };
        self.found.pod_uid = Some(uid);
        self.found.qos = Some(qos);
        self.place = Place::Anywhere;
        slice.len() == component.len()
    }

    fn enter(&mut self, container: Container<'a>) {
        self.found.container = Some(container);
        self.found.monitor = false;
        self.found.depth = self.found.depth.saturating_add(1);
    }

    fn finish(mut self) -> Identity<'a> {
        if let Some(machine) = self.machine.take() {
            if self.machine_is_service {
                self.found.monitor = true;
            } else {
                self.enter(machine);
            }
        }
        self.found
    }
}
