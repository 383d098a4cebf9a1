//! Real podman containers, in a mount namespace of their own, and what the kernel accounts for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::task::TaskCounters;
use crate::program::{Program, eventually};

/// A store of images and containers that ends with the test.
pub(crate) struct Podman {
    folder: PathBuf,
    /// Keeps the mount namespace.
    holder: Child,
    ids: Vec<String>,
}

/// A running container, as its runtime describes it.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its first process, in the host's pid namespace.
    pub(crate) pid: u32,
    /// Microseconds.
    pub(crate) quota_us: i64,
    /// Microseconds.
    pub(crate) period_us: i64,
    cgroup: Cgroup,
}

/// Where the kernel accounts for a container's CPU.
#[derive(Debug, Clone)]
struct Cgroup {
    cpu: PathBuf,
    /// `cpuacct.usage` on v1; on v2 the usage is in cpu.stat.
    usage: Option<PathBuf>,
}

/// Seconds, from the kernel's own counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accounts {
    pub(crate) running: f64,
    pub(crate) throttled: f64,
    /// Waiting and throttled: the sum of the second field of its tasks' schedstat.
    pub(crate) run_delay: f64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// Podman asks for more than a confined root may give.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
/// Unless a test asks for another.
const NETWORK: &str = "--network=none";
const IMAGE: &str = "localhost/busybox:test";

impl Podman {
    /// Makes the namespace and an image with only busybox in it.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        // podman 4 refuses a hybrid hierarchy, so the unified one is hidden from it; on a pure v2 host there is nothing to hide
        let script = "mount --make-rprivate / && { umount -l /sys/fs/cgroup/unified 2>/dev/null; touch \"$0\"; exec sleep infinity; }";
        let ready = folder.join("namespace-ready");
        let holder =
            Command::new("unshare").args(["-m", "sh", "-c", script]).arg(&ready).stdin(Stdio::null()).spawn()?;
        let podman = Self { folder: folder.to_owned(), holder, ids: Vec::new() };
        eventually("the mount namespace", Duration::from_secs(10), || Ok(ready.exists().then_some(())))?;
        let rootfs = folder.join("rootfs");
        for name in ["bin", "tmp", "proc", "sys", "dev", "etc"] {
            fs::create_dir_all(rootfs.join(name))?;
        }
        fs::copy("/bin/busybox", rootfs.join("bin/busybox"))?;
        for applet in ["sh", "sleep", "true"] {
            std::os::unix::fs::symlink("busybox", rootfs.join("bin").join(applet))?;
        }
        let archive = folder.join("image.tar");
        let tar = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&rootfs).arg(".").status()?;
        ensure!(tar.success(), "tar: {tar}");
        podman.podman(&["import", &archive.display().to_string(), IMAGE])?;
        Ok(podman)
    }

    /// Starts a container with so many CPUs and a shell script; the folder is mounted at /shared.
    pub(crate) fn run(&mut self, name: &str, cpus: f64, script: &str, options: &[&str]) -> Result<Container> {
        let work = self.work(name);
        fs::create_dir_all(&work)?;
        let (cpus, volume) = (cpus.to_string(), format!("{}:/shared", work.display()));
        let mut arguments = vec!["run", "-d", "--name", name, "--cpus", &cpus, "-v", &volume];
        arguments.extend(LIMITS);
        if !options.iter().any(|option| option.starts_with("--network")) {
            arguments.push(NETWORK);
        }
        arguments.extend(options);
        arguments.extend([IMAGE, "/bin/sh", "-c", script]);
        let id = self.podman(&arguments)?.trim().to_owned();
        self.ids.push(id.clone());
        self.inspect(&id)
    }

    /// Runs a container until its script ends, and removes it: its id.
    pub(crate) fn run_to_end(&self, script: &str) -> Result<String> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)?.into_temp_path();
        let path = file.to_str().context("a folder that is not UTF-8")?.to_owned();
        file.close()?;
        let mut arguments = vec!["run", "--rm", "--cidfile", &path];
        arguments.extend(LIMITS);
        arguments.extend([NETWORK, IMAGE, "/bin/sh", "-c", script]);
        self.podman(&arguments)?;
        Ok(fs::read_to_string(&path)?.trim().to_owned())
    }

    /// The folder that the container of that name sees as /shared.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.folder.join("work").join(name)
    }

    /// Ends a container and removes it.
    pub(crate) fn remove(&mut self, container: &Container) -> Result<()> {
        self.podman(&["rm", "-f", "-t", "0", &container.id])?;
        self.ids.retain(|id| *id != container.id);
        Ok(())
    }

    fn inspect(&self, id: &str) -> Result<Container> {
        let text = self.podman(&["inspect", id])?;
        let all: Value = serde_json::from_str(&text)?;
        let found = &all[0];
        let pid = found["State"]["Pid"].as_u64().filter(|pid| *pid > 0).context("the container does not run")? as u32;
        Ok(Container {
            id: found["Id"].as_str().context("no Id")?.to_owned(),
            name: found["Name"].as_str().context("no Name")?.trim_start_matches('/').to_owned(),
            pid,
            quota_us: found["HostConfig"]["CpuQuota"].as_i64().unwrap_or_default(),
            period_us: found["HostConfig"]["CpuPeriod"].as_i64().unwrap_or_default(),
            cgroup: Cgroup::of(pid)?,
        })
    }

    /// Serves podman's API until the test ends: the socket.
    pub(crate) fn serve(&self) -> Result<(Program, PathBuf)> {
        let socket = self.folder.join("podman.sock");
        let mut command = self.command();
        command.args(["system", "service", "--time=0"]).arg(format!("unix://{}", socket.display()));
        let mut program = Program::start("podman-service", &mut command, &self.folder)?;
        eventually("podman's socket", Duration::from_secs(20), || {
            program.is_alive()?;
            Ok(socket.exists().then_some(()))
        })?;
        Ok((program, socket))
    }

    /// podman with the test's own store.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).arg("podman");
        command.args(["--cgroup-manager=cgroupfs", "--runtime=crun", "--storage-driver=vfs", "--events-backend=file"]);
        for (option, name) in [("--root", "store"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.arg(option).arg(self.folder.join(name));
        }
        command
    }

    fn podman(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command();
        // conmon keeps what it inherits open, so nothing of it may be a pipe that somebody reads to its end
        let (out, err) = (self.folder.join("podman.out"), self.folder.join("podman.err"));
        command.args(arguments).stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
        let status = command.status()?;
        if !status.success() {
            bail!("podman {}: {status}: {}", arguments.join(" "), fs::read_to_string(err)?);
        }
        Ok(fs::read_to_string(out)?)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.ids) {
            let _ = self.podman(&["rm", "-f", "-t", "0", &id]);
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Container {
    /// What the kernel has accounted so far. Exact while none of its tasks runs or waits.
    pub(crate) fn accounts(&self) -> Result<Accounts> {
        let stat = fs::read_to_string(self.cgroup.cpu.join("cpu.stat"))?;
        let field = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok())
        };
        let usage_ns = match &self.cgroup.usage {
            Some(file) => fs::read_to_string(file)?.trim().parse::<f64>()?,
            None => field("usage_usec").context("no usage_usec")? * 1e3,
        };
        // v1 in nanoseconds, v2 in microseconds
        let throttled_ns = field("throttled_time").or_else(|| Some(field("throttled_usec")? * 1e3));
        let mut accounts = Accounts {
            running: usage_ns / 1e9,
            throttled: throttled_ns.context("no throttled time in cpu.stat")? / 1e9,
            run_delay: 0.0,
            voluntary: 0,
            involuntary: 0,
        };
        for pid in fs::read_to_string(self.cgroup.cpu.join("cgroup.procs"))?.lines() {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                accounts.add_task(&task?.path())?;
            }
        }
        Ok(accounts)
    }
}

impl Accounts {
    fn add_task(&mut self, task: &Path) -> Result<()> {
        let counters = TaskCounters::of(task)?;
        self.run_delay += counters.delayed;
        self.voluntary += counters.voluntary;
        self.involuntary += counters.involuntary;
        Ok(())
    }
}

impl Cgroup {
    fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let path_of = |controller: &str| {
            text.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let has_it = fields.next()?.split(',').any(|name| name == controller);
                let path = fields.next()?.trim_start_matches('/');
                has_it.then(|| path.to_owned())
            })
        };
        let root = Path::new("/sys/fs/cgroup");
        if let (Some(cpu), Some(cpuacct)) = (path_of("cpu"), path_of("cpuacct")) {
            let usage = root.join("cpuacct").join(cpuacct).join("cpuacct.usage");
            return Ok(Self { cpu: root.join("cpu").join(cpu), usage: Some(usage) });
        }
        Ok(Self { cpu: root.join(path_of("").context("no cgroup v2 path")?), usage: None })
    }
}
