//! The text of tracefs, by a trace instance of our own: made, set up, read, removed. Nobody else's tracing is touched,
//! and one that a killed agent left behind is removed by the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where tracefs is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "schedscope-";
/// The events that the machine understands; only the first must be there.
const EVENTS: [&str; 9] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
    // without it an exec by a second thread, which takes its leader's id, is a gap that puts every wait there in doubt
    "sched/sched_process_exec",
    "task/task_rename",
];
/// How long an empty pipe is left alone. Its own poll waits until the ring is half full.
const PAUSE: Duration = Duration::from_millis(50);

/// A folder of tracefs.
///
/// # Errors
/// With the remedy.
pub(super) fn mounted(folder: &str) -> Result<PathBuf, String> {
    let found = MOUNTS.iter().map(|mount| Path::new(mount).join(folder)).find(|path| path.is_dir());
    found.ok_or_else(|| "tracefs is not mounted; do: mount -t tracefs none /sys/kernel/tracing".to_owned())
}

/// The instance; dropping it removes it.
pub(super) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Makes and starts one, after removing those of agents that are no more.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(super) fn start(ring_kb_per_cpu: u32) -> Result<Self, String> {
        let instances = mounted("instances")?;
        remove_left_behind(&instances);
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| {
            format!("no trace instance could be made at {}: {error}; tracing needs root", folder.display())
        })?;
        let instance = Self { folder };
        instance.set_up(ring_kb_per_cpu)?;
        Ok(instance)
    }

    fn set_up(&self, ring_kb_per_cpu: u32) -> Result<(), String> {
        self.write("tracing_on", "0")?;
        // CLOCK_BOOTTIME, as everywhere else here
        self.write("trace_clock", "boot")?;
        self.write("buffer_size_kb", &ring_kb_per_cpu.max(64).to_string())?;
        for (at, event) in EVENTS.into_iter().enumerate() {
            let file = format!("events/{event}/enable");
            if at == 0 || self.folder.join(&file).exists() {
                self.write(&file, "1")?;
            }
        }
        self.write("tracing_on", "1")
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Its text, until `stop`.
    ///
    /// # Errors
    /// Where the pipe cannot be opened.
    pub(super) fn pipe(&self, stop: Arc<AtomicBool>) -> io::Result<TracePipe> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(self.folder.join("trace_pipe"))?;
        Ok(TracePipe { file, stop })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        let _ = self.write("events/enable", "0");
        // fails while a pipe is open; the next agent removes it then
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Instances of processes that are gone. One whose number another process has now stays until that ends too.
fn remove_left_behind(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = fs::write(entry.path().join("events/enable"), "0");
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// `trace_pipe`: waits where there is nothing, ends when told to stop and everything was read.
pub(super) struct TracePipe {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for TracePipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let stopping = self.stop.load(Ordering::Acquire);
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // our own tracing goes on while we end: what was there at the stop is enough
                    if stopping {
                        return Ok(0);
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}
