//! The detectors: a variable's text, and the host.

use std::path::Path;

use percent_encoding::percent_decode_str;

use super::{KubernetesSettings, SystemAttributes};
use crate::host::FIRST_PID_NAMESPACE;

/// `key=value,key=value`, percent-encoded. One mistake discards all of it, as the specification says.
pub(super) fn from_variable(text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = |part: &str| format!("OTEL_RESOURCE_ATTRIBUTES: `{part}` is not of the form key=value");
    let mut found = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
        let decoded = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong(part))?;
        if key.trim().is_empty() {
            return Err(wrong(part));
        }
        found.push((key.trim().to_owned(), decoded.into_owned()));
    }
    Ok(found)
}

/// What the host says of itself; what cannot be read is left out.
pub(super) fn from_system(wanted: &SystemAttributes) -> Vec<(String, String)> {
    let uname = rustix::system::uname();
    let all = [
        ("host.name", wanted.host_name.enabled, Some(uname.nodename().to_string_lossy().into_owned())),
        ("host.id", wanted.host_id.enabled, machine_id()),
        ("host.arch", wanted.host_arch.enabled, Some(arch(&uname.machine().to_string_lossy()).to_owned())),
        ("os.type", wanted.os_type.enabled, Some("linux".to_owned())),
    ];
    all.into_iter()
        .filter_map(|(key, enabled, value)| value.filter(|_| enabled).map(|value| (key.to_owned(), value)))
        .collect()
}

/// What Docker's daemon would say of its host, by the files of the host's first process.
pub(super) fn from_docker_host(proc: &Path) -> Result<Vec<(String, String)>, String> {
    let namespace = std::fs::read_link(proc.join("self/ns/pid")).unwrap_or_default();
    if namespace.as_os_str() != FIRST_PID_NAMESPACE {
        return Err("docker: the daemon is not asked, and the host's files are not seen from here; \
                    run the container with --pid=host, or set OTEL_RESOURCE_ATTRIBUTES=host.name=..."
            .to_owned());
    }
    let file = proc.join("1/root/etc/hostname");
    let text = std::fs::read_to_string(&file).map_err(|why| format!("docker: {}: {why}", file.display()))?;
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(vec![pair("host.name", text.trim()), pair("os.type", "linux")])
}

/// What the pod's environment says of its node. Without the variable the Collector does not start either.
pub(super) fn from_pod(
    wanted: &KubernetesSettings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    if !wanted.resource_attributes.node_name.enabled {
        return Ok(Vec::new());
    }
    let name = &wanted.node_from_env_var;
    let node = variable(name).filter(|node| !node.is_empty()).ok_or_else(|| {
        format!("the variable {name} is not set; set it in the pod's spec from fieldPath: spec.nodeName")
    })?;
    Ok(vec![("k8s.node.name".to_owned(), node)])
}

fn machine_id() -> Option<String> {
    let read = |path| std::fs::read_to_string(path).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"))
}

/// The semantic conventions' word for a machine.
fn arch(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i386" | "i686" => "x86",
        "armv7l" | "armv6l" => "arm32",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_is_named_by_the_variable() {
        let mut wanted = KubernetesSettings::default();
        let variable = |name: &str| (name == "K8S_NODE_NAME").then(|| "node-1".to_owned());
        assert_eq!(from_pod(&wanted, variable), Ok(vec![("k8s.node.name".to_owned(), "node-1".to_owned())]));
        let told = from_pod(&wanted, |_| None).unwrap_err();
        assert!(told.contains("K8S_NODE_NAME") && told.contains("spec.nodeName"), "{told}");
        wanted.resource_attributes.node_name.enabled = false;
        assert_eq!(from_pod(&wanted, |_| None), Ok(vec![]));
    }

    #[test]
    fn the_host_of_a_docker_container_is_named_by_its_first_process() {
        let proc = tempfile::tempdir().unwrap();
        let link = |to: &str| std::os::unix::fs::symlink(to, proc.path().join("self/ns/pid")).unwrap();
        std::fs::create_dir_all(proc.path().join("self/ns")).unwrap();
        std::fs::create_dir_all(proc.path().join("1/root/etc")).unwrap();
        std::fs::write(proc.path().join("1/root/etc/hostname"), "node-7\n").unwrap();
        link("pid:[4026532999]");
        let told = from_docker_host(proc.path()).unwrap_err();
        assert!(told.contains("--pid=host"), "{told}");
        std::fs::remove_file(proc.path().join("self/ns/pid")).unwrap();
        link(FIRST_PID_NAMESPACE);
        let found = from_docker_host(proc.path()).unwrap();
        assert_eq!(found[0], ("host.name".to_owned(), "node-7".to_owned()));
    }

    #[test]
    fn a_variable_is_decoded_or_discarded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(from_variable("a=b%20c, d = e,"), Ok(vec![pair("a", "b c"), pair("d", "e")]));
        assert_eq!(from_variable(""), Ok(vec![]));
        assert!(from_variable("a=b,c").is_err());
        assert!(from_variable("a=%ff").is_err());
        assert!(from_variable("=b").is_err());
    }
}
