//! This host's own attributes, which stand on every Resource.

use std::path::Path;

use crate::model::Resource;

/// Files that hold the machine id, the first that is there wins.
const MACHINE_ID_FILES: [&str; 2] = ["etc/machine-id", "var/lib/dbus/machine-id"];

/// `host.name`, `host.id` (the machine id, as SDKs give it) and `host.arch`; below `root` lie the host's files.
pub(super) fn attributes(root: &Path, node: Option<&str>) -> Resource {
    let mut host = Resource::new();
    let system = rustix::system::uname();
    host.set("host.name", system.nodename().to_string_lossy().into_owned());
    host.set("host.arch", architecture(&system.machine().to_string_lossy()));
    if let Some(id) = machine_id(root) {
        host.set("host.id", id);
    }
    if let Some(node) = node {
        host.set("k8s.node.name", node);
    }
    host
}

fn machine_id(root: &Path) -> Option<String> {
    MACHINE_ID_FILES.iter().find_map(|file| {
        let text = std::fs::read_to_string(root.join(file)).ok()?;
        let id = text.trim();
        // "uninitialized" stands there before the first boot
        (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
    })
}

/// The semantic conventions' word for what uname calls a machine.
fn architecture(machine: &str) -> String {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" | "armv6l" => "arm32",
        "i386" | "i686" => "x86",
        "ppc64" | "ppc64le" => "ppc64",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_named() {
        let root = tempfile::tempdir().unwrap();
        let bare = attributes(root.path(), None);
        assert!(bare.text("host.name").is_some_and(|name| !name.is_empty()));
        assert_eq!(bare.get("host.id"), None);
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
        let host = attributes(root.path(), Some("node-1"));
        assert_eq!(host.text("host.id"), Some("0123456789abcdef0123456789abcdef"));
        assert_eq!(host.text("k8s.node.name"), Some("node-1"));
        assert_eq!(architecture("aarch64"), "arm64");
    }
}
