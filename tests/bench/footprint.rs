//! Memory, start and size of the agent.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::variant::{Running, Variant, binary};

/// A field of /proc/PID/status in MB.
fn status_mb(pid: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// The memlock of all BPF maps that a process holds, in MB, each map once.
fn maps_mb(pid: u32) -> f64 {
    let mut seen = std::collections::HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).and_then(|v| v.trim().parse::<u64>().ok())
        };
        if let (Some(bytes), Some(id)) = (field("memlock:"), field("map_id:")) {
            seen.insert(id, bytes);
        }
    }
    seen.values().sum::<u64>() as f64 / 1e6
}

pub(crate) fn report(folder: &Path) -> String {
    let size = fs::metadata(binary()).map_or(f64::NAN, |file| file.len() as f64 / 1e6);
    let begin = Instant::now();
    let Some(running) = Variant::MetricsAndSpans.start(folder) else { return String::new() };
    let ready = begin.elapsed();
    let Running::Child(child) = &running else { return String::new() };
    let pid = child.id();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let messaging = ["bench", "sched", "messaging", "-g", "10", "-l", "1000"];
        if Command::new("perf").args(messaging).output().is_err() {
            break;
        }
    }
    format!(
        "\n| footprint, metrics + spans | |\n|---|---|\n| binary | {size:.1} MB |\n| start to attached and ready | {:.0} ms |\n| resident after a minute of `perf bench sched messaging` | {:.1} MB (of it {:.1} MB the kernel's maps, seen through mmap) |\n| kernel maps (memlock) | {:.1} MB |\n",
        ready.as_secs_f64() * 1e3,
        status_mb(pid, "VmRSS:"),
        status_mb(pid, "RssFile:"),
        maps_mb(pid),
    )
}
