//! What a test needs of the machine, and how it is said when that is not there: never a silent pass.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

/// Names the static arm64 binary that `make test` builds where it can.
#[allow(dead_code, reason = "of one test binary")]
pub(crate) const ARM64: &str = "SCHEDSCOPE_ARM64";

/// What a test needs.
#[allow(dead_code, reason = "each test binary has some of these needs")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// To be root, with the capabilities that root usually has.
    Root,
    /// BTF of the running kernel.
    Btf,
    /// podman, crun and a static busybox.
    Podman,
    /// The Collector that `tests/real/parts/get` builds.
    Collector,
    /// The Collector with `receivers: sched:` that `tests/real/parts/get plugin` builds.
    Plugin,
    /// The Jaeger that `tests/real/parts/get` builds.
    Jaeger,
    /// Python's validator of JSON Schema.
    JsonSchema,
    /// What boots other kernels.
    Emulator,
    /// What boots arm64 kernels, and a static agent for them.
    Arm64,
    /// perf.
    Perf,
    /// Docker's daemon with containerd and runc.
    Docker,
    /// The Kubernetes that `tests/real/parts/get` builds, and etcd, containerd, runc.
    Kubernetes,
    /// systemd, not necessarily as the machine's first process, and dpkg.
    Systemd,
    /// Prometheus and its promtool.
    Prometheus,
    /// The fresh Debian that `tests/real/parts/get debian` makes, and dpkg.
    Debian,
    /// The Helm that `tests/real/parts/get` builds.
    Helm,
}

impl Need {
    /// Why it is not met, and what would meet it.
    fn unmet(self) -> Option<String> {
        let (met, remedy) = match self {
            Self::Root => (rustix::process::geteuid().is_root(), "needs root".to_owned()),
            Self::Btf => (Path::new("/sys/kernel/btf/vmlinux").exists(), "needs a kernel with BTF".to_owned()),
            Self::Podman => (has_podman(), "needs podman, crun and a static /bin/busybox".to_owned()),
            Self::Collector => (part("collector").is_ok(), part("collector").err().unwrap_or_default()),
            Self::Plugin => (part("plugin").is_ok(), part("plugin").err().unwrap_or_default()),
            Self::JsonSchema => (has_json_schema(), "needs python3-jsonschema".to_owned()),
            Self::Emulator => (has_emulator(), "needs qemu-system-x86_64, cpio and a static /bin/busybox".to_owned()),
            Self::Arm64 => (
                runs("qemu-system-aarch64") && std::env::var_os(ARM64).is_some_and(|file| Path::new(&file).exists()),
                format!(
                    "needs qemu-system-aarch64 and a static binary named by {ARM64} (`make test` builds one with rustup)"
                ),
            ),
            Self::Perf => (runs("perf"), "needs perf".to_owned()),
            Self::Jaeger => (part("jaeger").is_ok(), part("jaeger").err().unwrap_or_default()),
            Self::Docker => (
                has(&["dockerd", "docker", "containerd", "runc"]),
                "needs the packages docker.io, containerd and runc".to_owned(),
            ),
            Self::Kubernetes if !has(&["etcd", "containerd", "ctr", "runc", "openssl", "ip"]) => {
                (false, "needs the packages etcd-server, containerd, runc, openssl and iproute2".to_owned())
            }
            Self::Systemd => (
                Path::new("/lib/systemd/systemd").exists() && has(&["systemd-analyze", "dpkg-deb", "nsenter", "pgrep"]),
                "needs the packages systemd, dpkg and procps".to_owned(),
            ),
            Self::Prometheus => (has(&["prometheus", "promtool"]), "needs the package prometheus".to_owned()),
            Self::Debian if !has(&["dpkg-deb"]) => (false, "needs the package dpkg".to_owned()),
            Self::Debian => (part("debian").is_ok(), part("debian").err().unwrap_or_default()),
            Self::Helm => (part("helm").is_ok(), part("helm").err().unwrap_or_default()),
            Self::Kubernetes => (part("kubernetes").is_ok(), part("kubernetes").err().unwrap_or_default()),
        };
        (!met).then_some(remedy)
    }
}

fn runs(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn has_emulator() -> bool {
    runs("qemu-system-x86_64") && runs("cpio") && runs("strip") && fs::metadata("/bin/busybox").is_ok()
}

/// Whether all programs are on PATH or where administrators' programs are.
fn has(programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders: Vec<&str> = path.split(':').chain(["/usr/sbin", "/sbin"]).collect();
    programs.iter().all(|program| folders.iter().any(|folder| Path::new(folder).join(program).exists()))
}

fn has_podman() -> bool {
    runs("podman") && runs("crun") && fs::metadata("/bin/busybox").is_ok()
}

fn has_json_schema() -> bool {
    let status = Command::new("/usr/bin/python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Where a built part is; the error says how to build it.
pub(crate) fn part(name: &str) -> Result<String, String> {
    let get = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/parts/get");
    let output = Command::new(get).args(["--cached", name]).output().map_err(|error| format!("{get}: {error}"))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        Ok(path)
    } else {
        Err(format!("needs {path}; `tests/real/parts/get {name}` builds it"))
    }
}

/// One test: its name, its needs, its body.
pub(crate) type Test = (&'static str, &'static [Need], fn() -> anyhow::Result<()>);

/// Runs the tests. One whose needs are not met is listed as `not run`, and has failed with CI=true.
pub(crate) fn run(arguments: &Arguments, tests: &'static [Test]) -> ExitCode {
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let mut not_run = Vec::new();
    let trials = tests.iter().map(|(name, needs, body)| {
        let unmet = needs.iter().find_map(|need| need.unmet());
        if let Some(why) = unmet.as_ref().filter(|_| !is_ci) {
            not_run.push(format!("not run: {name}: {why}"));
        }
        let is_ignored = unmet.is_some() && !is_ci;
        let test = move || match unmet {
            Some(why) => Err(Failed::from(format!("not run, and CI=true: {why}"))),
            None => body().map_err(|error| Failed::from(format!("{error:#}"))),
        };
        Trial::test(*name, test).with_ignored_flag(is_ignored)
    });
    let conclusion = libtest_mimic::run(arguments, trials.collect());
    for line in not_run {
        println!("{line}");
    }
    conclusion.exit_code()
}
