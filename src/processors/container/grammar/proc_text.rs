//! Pure: the whole of `/proc/PID/cgroup`: one line per hierarchy (v1, hybrid) or one in all (v2).

use super::{Identity, mountinfo, parse_path};

/// Lines that are read at most; the kernel has about 14 hierarchies.
const LINES_MAX: usize = 64;

/// Reads `/proc/PID/cgroup`, and `/proc/PID/mountinfo` where it was given and no path names anything.
pub fn parse_text<'a>(cgroup: &'a str, mountinfo: Option<&'a str>) -> Identity<'a> {
    let mut best = Identity::default();
    let mut unit = Unit::default();
    for line in cgroup.split('\n').take(LINES_MAX) {
        // id:controllers:path; the path itself may hold more colons
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if path == "/" {
            continue;
        }
        let found = parse_path(path);
        unit.offer(number, controllers, found.unit);
        best = better(best, found);
    }
    best.unit = unit.chosen();
    let told = best.container.is_some() || best.pod_uid.is_some() || best.monitor;
    if !told
        && let Some(mounts) = mountinfo
        && let Some(found) = mountinfo::parse(mounts)
    {
        // What the path says is then inside the container: a unit there is not the host's.
        return found;
    }
    best
}

/// The one that tells more. Lines agree in practice; where not, the deepest container wins.
fn better<'a>(one: Identity<'a>, other: Identity<'a>) -> Identity<'a> {
    let (mut first, second) = if rank(&other) > rank(&one) { (other, one) } else { (one, other) };
    if let (Some(known), Some(more)) = (&mut first.container, second.container)
        && known.id == more.id
    {
        known.runtime = known.runtime.or(more.runtime);
        known.name = known.name.take().or(more.name);
    }
    if first.pod_uid.is_none() && first.container.is_none() {
        first.pod_uid = second.pod_uid;
        first.qos = second.qos;
    }
    first.monitor |= second.monitor && first.container.is_none();
    first
}

/// Depth of nesting, then what else is known.
fn rank(identity: &Identity<'_>) -> (u8, bool, bool) {
    let runtime = identity.container.as_ref().is_some_and(|container| container.runtime.is_some());
    (identity.depth, identity.pod_uid.is_some(), runtime)
}

/// The unit stands in systemd's own hierarchy; others are only asked where that one is not to be seen.
#[derive(Default)]
struct Unit<'a> {
    named: Option<Option<&'a str>>,
    unified: Option<Option<&'a str>>,
    other: Option<&'a str>,
}

impl<'a> Unit<'a> {
    fn offer(&mut self, number: &str, controllers: &str, unit: Option<&'a str>) {
        if controllers == "name=systemd" {
            self.named = Some(unit);
        } else if number == "0" && controllers.is_empty() {
            self.unified = Some(unit);
        } else {
            self.other = self.other.or(unit);
        }
    }

    fn chosen(self) -> Option<&'a str> {
        self.named.or(self.unified).unwrap_or(self.other)
    }
}
