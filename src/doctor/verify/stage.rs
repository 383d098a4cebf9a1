//! Cgroups of our own for the load, removed when it is over.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::kernel::Accounts;

/// One quota period, us: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// A folder of cgroups at the top of the hierarchy.
pub(super) struct Stage {
    accounts: Accounts,
    is_v2: bool,
    base: String,
    /// In the order in which they were made.
    made: Vec<PathBuf>,
    /// Why quotas cannot be set here.
    no_quota: Option<String>,
}

impl Stage {
    /// Makes the folder.
    ///
    /// # Errors
    /// Why cgroups cannot be made here.
    pub(super) fn make(accounts: &Accounts, is_v2: bool) -> Result<Self, String> {
        let base = format!("/schedscope-doctor-{}", std::process::id());
        let mut stage =
            Self { accounts: accounts.clone(), is_v2, base: base.clone(), made: Vec::new(), no_quota: None };
        stage.folder(&base)?;
        stage.no_quota = if is_v2 { stage.delegate(&base).err() } else { None };
        Ok(stage)
    }

    /// Makes a cgroup in it, by its name; gives its path.
    pub(super) fn group(&mut self, name: &str) -> Result<String, String> {
        let path = format!("{}/{name}", self.base);
        self.folder(&path)?;
        Ok(path)
    }

    /// Limits a cgroup to so many percent of one CPU, what is below it included.
    pub(super) fn limit(&self, path: &str, percent: u64) -> Result<(), String> {
        if let Some(why) = &self.no_quota {
            return Err(why.clone());
        }
        let folder = self.accounts.cpu.join(path.trim_start_matches('/'));
        let quota = PERIOD_US / 100 * percent;
        let (file, text) = if self.is_v2 {
            ("cpu.max", format!("{quota} {PERIOD_US}"))
        } else {
            ("cpu.cfs_quota_us", quota.to_string())
        };
        let file = folder.join(file);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Moves a process with all its threads.
    pub(super) fn enter(&self, path: &str, pid: u32) -> Result<(), String> {
        for folder in self.accounts.folders(path) {
            let file = folder.join("cgroup.procs");
            fs::write(&file, pid.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn folder(&mut self, path: &str) -> Result<(), String> {
        for folder in self.accounts.folders(path) {
            fs::create_dir(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
            self.made.push(folder);
        }
        Ok(())
    }

    /// Gives what is below a cgroup the cpu controller, if its parent has it to give. The host's own settings
    /// are left as they are.
    fn delegate(&self, path: &str) -> Result<(), String> {
        let file = self.accounts.cpu.join(path.trim_start_matches('/')).join("cgroup.subtree_control");
        fs::write(&file, "+cpu").map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "the cpu controller is not enabled at the top of this cgroup hierarchy".to_owned()
            }
            _ => format!("{}: {error}", file.display()),
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // the last task of a cgroup may take a moment to be gone
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}
