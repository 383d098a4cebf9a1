//! Cgroups under real names in the hierarchy that has the cpu controller, with processes in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A cgroup that ends with the test, its processes and the parents made for it too.
pub(crate) struct Cgroup {
    pub(crate) path: PathBuf,
    made: Vec<PathBuf>,
    children: Vec<Child>,
}

/// Where the hierarchy with the cpu controller is mounted: v1's on hybrid hosts.
pub(crate) fn mount() -> PathBuf {
    let v1 = Path::new("/sys/fs/cgroup/cpu");
    if v1.join("cgroup.procs").exists() { v1.to_owned() } else { "/sys/fs/cgroup".into() }
}

/// 64 hex digits that no other container has.
pub(crate) fn container_id(number: usize) -> String {
    format!("{:016x}{:048x}", 0xe5ce_0000_0000_0000_u64 | u64::from(std::process::id()), number)
}

impl Cgroup {
    /// Makes `/a/b/c` below the hierarchy's root.
    pub(crate) fn make(path: &str) -> Result<Self> {
        let mut made = Vec::new();
        let mut at = mount();
        for component in path.trim_matches('/').split('/') {
            at.push(component);
            if !at.exists() {
                fs::create_dir(&at).with_context(|| at.display().to_string())?;
                made.push(at.clone());
            }
        }
        Ok(Self { path: at, made, children: Vec::new() })
    }

    /// A docker container's cgroup.
    pub(crate) fn docker(id: &str) -> Result<Self> {
        Self::make(&format!("/docker/{id}"))
    }

    /// Gives it a quota: so many us of CPU in each 100 ms.
    pub(crate) fn limit(&self, quota_us: u32) -> Result<()> {
        let v2 = self.path.join("cpu.max");
        if v2.exists() {
            fs::write(v2, format!("{quota_us} 100000"))?;
        } else {
            fs::write(self.path.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        }
        Ok(())
    }

    /// A program that begins inside.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo 0 > \"$0/cgroup.procs\" && exec \"$@\"";
        command.args(["-c", enter]).arg(&self.path).arg(program).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts a shell script inside; its process' pid.
    pub(crate) fn run(&mut self, script: &str) -> Result<u32> {
        let child = self.command("sh", &["-c", script]).stdout(Stdio::null()).spawn()?;
        let pid = child.id();
        self.children.push(child);
        Ok(pid)
    }

    /// Runs the shell that enters it, and no more.
    pub(crate) fn visit(&self) -> Result<()> {
        let enter = format!("echo 0 > {}/cgroup.procs", self.path.display());
        let status = Command::new("sh").args(["-c", &enter]).stdin(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "{enter}: {status}");
        Ok(())
    }

    /// Runs a shell script inside to its end.
    pub(crate) fn run_to_end(&self, script: &str) -> Result<()> {
        let status = self.command("sh", &["-c", script]).status()?;
        anyhow::ensure!(status.success(), "{script}: {status}");
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for folder in self.made.iter().rev() {
            // the last threads leave it a moment after their process was waited for
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
}
