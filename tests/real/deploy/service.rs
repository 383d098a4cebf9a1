//! The Debian package on a machine with systemd: installed, started in its sandbox, measuring, and gone without a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::deploy;
use crate::cgroup::{Cgroup, container_id};
use crate::program::{Program, eventually};
use crate::support::collector::Collector;
use crate::support::folder;

const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/deploy/machine");
/// `systemd-analyze security` gives 0 to the tightest unit and 100 to root without bounds.
const EXPOSURE_MAX: &str = "--threshold=25";
/// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_PERFMON, CAP_BPF.
const CAPABILITIES: u64 = 1 << 2 | 1 << 19 | 1 << 38 | 1 << 39;

/// A systemd in namespaces of its own.
struct Machine {
    program: Program,
    first: String,
}

impl Machine {
    fn boot(folder: &Path) -> Result<Self> {
        let at = folder.join("machine");
        let mut program = Program::start("machine", Command::new(MACHINE).arg(&at), folder)?;
        let first = eventually("systemd", Duration::from_secs(20), || {
            program.is_alive()?;
            Ok(fs::read_to_string(at.join("pid")).ok().filter(|pid| !pid.trim().is_empty()))
        })?;
        let machine = Self { program, first: first.trim().to_owned() };
        eventually("a machine that runs", Duration::from_secs(20), || {
            Ok(machine
                .run("systemctl", &["is-system-running"])
                .is_ok_and(|state| state.trim() == "running")
                .then_some(()))
        })?;
        Ok(machine)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.first, "--mount", "--pid", "timeout", "-k", "1", "30", program])
            .args(arguments);
        let output = command.env("DEBIAN_FRONTEND", "noninteractive").output()?;
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{program} {}: {out}{error}", arguments.join(" "));
        Ok(out.into_owned())
    }

    /// A file of it, as this process reaches it.
    fn file(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // its script then removes the cgroups that systemd made
        let _ = self.program.stop(Signal::TERM);
    }
}

pub(crate) fn is_installed_confined_and_removed() -> Result<()> {
    let folder = folder()?;
    let unit = deploy("systemd/schedscope.service").display().to_string();
    let rated = Command::new("systemd-analyze").args(["security", "--offline=yes", EXPOSURE_MAX, &unit]).output()?;
    let rating = String::from_utf8_lossy(&rated.stdout).into_owned();
    ensure!(rated.status.success(), "{rating}");
    println!("  {}", rating.lines().rfind(|line| line.contains("exposure")).unwrap_or_default());

    let mut collector = Collector::start(folder.path())?;
    let machine = Machine::boot(folder.path())?;
    let package = machine.file("/run/schedscope.deb");
    let built = Command::new(deploy("deb/build")).arg(env!("CARGO_BIN_EXE_schedscope")).arg(&package).status()?;
    ensure!(built.success(), "deb/build: {built}");
    fs::create_dir_all(machine.file("/etc/schedscope"))?;
    fs::write(machine.file("/etc/schedscope/environment"), format!("COLLECTOR={}\n", collector.grpc))?;
    machine.run("dpkg", &["--install", "/run/schedscope.deb"])?;
    let listed = machine.run("dpkg", &["--listfiles", "schedscope"])?;
    let files: Vec<&str> = listed.lines().filter(|path| machine.file(path).is_file()).collect();
    ensure!(files.contains(&"/usr/bin/schedscope") && files.len() >= 6, "{listed}");

    let log = || machine.run("journalctl", &["-u", "schedscope", "--no-pager"]).unwrap_or_default();
    let id = container_id(77);
    let mut busy = Cgroup::docker(&id)?;
    busy.run("while :; do :; done")?;
    let result = (|| {
        is_confined(&machine)?;
        eventually("points of a container", Duration::from_secs(40), || {
            let points = collector.points()?;
            Ok(points.into_iter().rfind(|point| point.resource.get("container.id").is_some_and(|found| *found == *id)))
        })?;
        eventually("spans of it", Duration::from_secs(40), || {
            let spans = collector.spans()?;
            Ok(spans.into_iter().rfind(|span| span.resource.get("container.id").is_some_and(|found| *found == *id)))
        })
    })();
    result.with_context(log)?;
    machine.run("systemctl", &["restart", "schedscope"])?;
    machine.run("dpkg", &["--install", "/run/schedscope.deb"])?;
    machine.run("systemctl", &["is-active", "schedscope"]).with_context(log)?;
    ensure!(log().contains("Deactivated successfully") && !log().contains("Failed with result"), "{}", log());

    machine.run("dpkg", &["--purge", "schedscope"])?;
    let left: Vec<&&str> = files.iter().filter(|path| machine.file(path).exists()).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    for path in ["/etc/schedscope", "/var/lib/schedscope", "/var/lib/private/schedscope"] {
        ensure!(!machine.file(path).exists(), "{path} is left behind");
    }
    ensure!(machine.run("systemctl", &["is-active", "schedscope"]).is_err(), "it still runs");
    collector.stop()
}

/// The kernel's own word on the process: not root, four capabilities, no way to more, a filter of system calls.
fn is_confined(machine: &Machine) -> Result<()> {
    let pid = machine.run("systemctl", &["show", "--property=MainPID", "--value", "schedscope"])?;
    let status = fs::read_to_string(machine.file(&format!("/proc/{}/status", pid.trim())))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    ensure!(!field("Uid:").starts_with("0\t"), "it is root");
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let has = u64::from_str_radix(field(set), 16)?;
        ensure!(has == CAPABILITIES, "{set} {has:x} is not {CAPABILITIES:x}");
    }
    ensure!(field("NoNewPrivs:") == "1" && field("Seccomp:") == "2", "{status}");
    Ok(())
}
