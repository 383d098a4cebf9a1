//! Which processes other instrumentation tells of, by its pinned map: looked for as long as the agent runs, since
//! either may begin first. Refuses to know: what a context is good for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::finder;
use crate::receivers::sched::driver::{Driver, SharedContexts, context_place};

/// Between two looks at the map.
const PAUSE: Duration = Duration::from_secs(1);
/// Processes of which it told something, as long as they live.
const PROCESSES_MAX: usize = 4096;

/// The map and whom it told of.
pub(super) struct Shared {
    pin: PathBuf,
    proc: PathBuf,
    map: Option<SharedContexts>,
    /// Process id, and the start that the kernel side was told.
    known: HashMap<u32, u64>,
    due: Instant,
    is_refused: bool,
}

impl Shared {
    pub(super) fn new(pin: &Path, root: &Path) -> Self {
        Self {
            pin: pin.to_owned(),
            proc: root.join("proc"),
            map: None,
            known: HashMap::new(),
            due: Instant::now(),
            is_refused: false,
        }
    }

    /// Looks where it is time; `publishes` says which processes tell for themselves. Gives how many found no room.
    pub(super) fn step(&mut self, driver: &Driver<'_>, publishes: impl Fn(u32) -> bool) -> u64 {
        let now = Instant::now();
        if now < self.due {
            return 0;
        }
        self.due = now + PAUSE;
        if let Err(why) = self.open(driver) {
            if !self.is_refused {
                self.is_refused = true;
                tracing::warn!("sched: {} is not used: {why}", self.pin.display());
            }
            return 0;
        }
        let Some(map) = &self.map else { return 0 };
        let told = map.processes();
        let (mut not_kept, proc) = (0, &self.proc);
        let start = |pid: u32| finder::start(&proc.join(pid.to_string())).map(|start| start.0);
        self.known.retain(|pid, known| {
            let is_there = told.contains(pid) || start(*pid) == Some(*known);
            if !is_there {
                driver.forget_context_place(*pid);
            }
            is_there
        });
        for pid in told.into_iter().filter(|pid| !publishes(*pid)) {
            // an id that is used again is another process
            let Some(start) = start(pid).filter(|start| self.known.get(&pid) != Some(start)) else { continue };
            let place = context_place { start, shared: 1, ..context_place::default() };
            if self.known.len() < PROCESSES_MAX && driver.set_context_place(pid, place) {
                self.known.insert(pid, start);
            } else {
                not_kept += 1;
            }
        }
        not_kept
    }

    /// What a process tells for itself was taken back, or it began another program: it is to be told of anew.
    pub(super) fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    fn open(&mut self, driver: &Driver<'_>) -> Result<(), String> {
        match SharedContexts::open(&self.pin)? {
            Some(found) if self.map.as_ref().is_none_or(|map| map.id != found.id) => {
                driver.use_shared_contexts(&found)?;
                tracing::info!("sched: active spans are also told by {}", self.pin.display());
                self.map = Some(found);
            }
            None if self.map.is_some() => {
                driver.leave_shared_contexts();
                self.map = None;
            }
            _ => {}
        }
        Ok(())
    }
}
