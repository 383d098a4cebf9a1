//! Cgroups of our own for the load, removed when it is over.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::kernel::Accounts;

/// One quota period, us: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Of a second, for realtime tasks.
const REALTIME_US: u64 = 100_000;
/// What a cgroup with a quota weighs beside its neighbours, so that it uses the quota up.
const WEIGHT: u64 = 10;

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
        stage.no_quota = stage.delegate(&base).err();
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
        let quota = PERIOD_US / 100 * percent;
        let files = if self.is_v2 {
            [("cpu.weight", (100 * WEIGHT).to_string()), ("cpu.max", format!("{quota} {PERIOD_US}"))]
        } else {
            [("cpu.shares", (1024 * WEIGHT).to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        };
        files.iter().try_for_each(|(name, text)| self.write(path, name, text))
    }

    /// How many periods a cgroup has been throttled in.
    pub(super) fn throttled_periods(&self, path: &str) -> Option<u64> {
        self.accounts.throttled_periods(path)
    }

    /// Freezes or thaws a cgroup of v2.
    pub(super) fn freeze(&self, path: &str, is_frozen: bool) -> Result<(), String> {
        if !self.is_v2 {
            return Err("cgroup v2 alone can freeze what is in a cgroup with the cpu controller".to_owned());
        }
        self.write(path, "cgroup.freeze", if is_frozen { "1" } else { "0" })
    }

    /// Lets tasks of a cgroup be realtime, where v1 counts their time by cgroup.
    pub(super) fn allow_realtime(&self, path: &str) {
        for path in [&self.base, path] {
            // where that is not so there is no such file, and nothing to allow
            let _ = self.write(path, "cpu.rt_runtime_us", &REALTIME_US.to_string());
        }
    }

    /// Lets threads of one process be in different ones of these; v1 always does.
    pub(super) fn be_threaded(&self, paths: &[String]) -> Result<(), String> {
        let mut paths = paths.iter().filter(|_| self.is_v2);
        paths.try_for_each(|path| self.write(path, "cgroup.type", "threaded"))
    }

    /// Moves one thread.
    pub(super) fn enter_thread(&self, path: &str, tid: u32) -> Result<(), String> {
        self.write_all(path, if self.is_v2 { "cgroup.threads" } else { "tasks" }, tid)
    }

    /// Moves a process with all its threads.
    pub(super) fn enter(&self, path: &str, pid: u32) -> Result<(), String> {
        self.write_all(path, "cgroup.procs", pid)
    }

    /// Writes to the file of a cgroup in the hierarchy with the cpu controller.
    fn write(&self, path: &str, name: &str, text: &str) -> Result<(), String> {
        let file = self.accounts.cpu.join(path.trim_start_matches('/')).join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Writes to the file in every hierarchy.
    fn write_all(&self, path: &str, name: &str, id: u32) -> Result<(), String> {
        for folder in self.accounts.folders(path) {
            let file = folder.join(name);
            fs::write(&file, id.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
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
    pub(super) fn delegate(&self, path: &str) -> Result<(), String> {
        if !self.is_v2 {
            return Ok(());
        }
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
