//! The kernel's own counters of one thread.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// What it did in its life.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct TaskCounters {
    /// Seconds on a CPU.
    pub(crate) ran: f64,
    /// Seconds that it waited for one, throttled or not.
    pub(crate) delayed: f64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

impl TaskCounters {
    /// Reads those of a folder of `/proc`: a process' for its leader, or `task/TID` of it.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let stat = fs::read_to_string(folder.join("schedstat"))?;
        let mut seconds = stat.split_whitespace().map(|word| word.parse::<f64>().map(|ns| ns / 1e9));
        let (ran, delayed) = (seconds.next().context("schedstat")??, seconds.next().context("schedstat")??);
        let status = fs::read_to_string(folder.join("status"))?;
        let count = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Ok(Self {
            ran,
            delayed,
            voluntary: count("voluntary_ctxt_switches:").unwrap_or_default(),
            involuntary: count("nonvoluntary_ctxt_switches:").unwrap_or_default(),
        })
    }
}
