//! The thread that looks for processes which publish their threads' active spans: when they begin a program or are
//! seen first, and ever more seldom after that, since a process may begin to publish at any time. Never in the way
//! of the ring.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use procfs::process::Process;

use super::place::{self, Place};
use crate::host::NS_PER_TICK;
use crate::model::{BootNs, ProcessKey};
use crate::process_context;

/// The first pause after a look at a process that publishes nothing; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// Between looks at one that does: it may have loaded another program.
const KNOWN_PAUSE: Duration = Duration::from_secs(60);
/// Processes that are looked at again.
const PROCESSES_MAX: usize = 20_000;
/// The layouts that are understood.
const SCHEMAS: [&str; 2] = ["tlsdesc_v1_dev", "tls_v1"];

/// What became of a process: where its threads publish, or no longer.
pub(super) type News = (ProcessKey, Option<Place>);

/// A process and when to look at it.
struct Watched {
    process: ProcessKey,
    looks: u32,
    due: Instant,
    place: Option<Place>,
}

/// The thread's state.
pub(super) struct Finder {
    proc: PathBuf,
    news: SyncSender<News>,
    watched: HashMap<u32, Watched>,
}

impl Finder {
    pub(super) fn new(proc: PathBuf, news: SyncSender<News>) -> Self {
        Self { proc, news, watched: HashMap::new() }
    }

    /// Works until nobody asks any more.
    pub(super) fn run(mut self, asked: &Receiver<ProcessKey>) {
        self.all_that_run();
        loop {
            let next = self.watched.values().map(|watched| watched.due).min();
            let patience = next.map_or(KNOWN_PAUSE, |due| due.saturating_duration_since(Instant::now()));
            match asked.recv_timeout(patience) {
                Ok(process) => self.ask(process),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            let due: Vec<u32> =
                self.watched.iter().filter(|(_, watched)| watched.due <= now).map(|(pid, _)| *pid).collect();
            for pid in due {
                if !self.look(pid) {
                    return;
                }
            }
        }
    }

    fn all_that_run(&mut self) {
        let Ok(all) = procfs::process::all_processes_with_root(&self.proc) else { return };
        for process in all.flatten() {
            if let (Ok(pid), Ok(stat)) = (u32::try_from(process.pid()), process.stat()) {
                self.ask(ProcessKey { pid, start: BootNs(stat.starttime.saturating_mul(NS_PER_TICK)) });
            }
        }
    }

    /// A process is seen; one that is known under another name now is looked at afresh.
    fn ask(&mut self, process: ProcessKey) {
        if self.watched.len() >= PROCESSES_MAX && !self.watched.contains_key(&process.pid) {
            return;
        }
        let fresh = || Watched { process, looks: 0, due: Instant::now(), place: None };
        let watched = self.watched.entry(process.pid).or_insert_with(fresh);
        watched.process = process;
        watched.looks = 0;
        watched.due = Instant::now();
    }

    /// False where nobody hears any more.
    fn look(&mut self, pid: u32) -> bool {
        let Some(watched) = self.watched.get_mut(&pid) else { return true };
        let folder = self.proc.join(pid.to_string());
        let alive = start(&folder).is_some_and(|start| start.0.abs_diff(watched.process.start.0) <= NS_PER_TICK);
        let publishes = || process_context::read(&folder)?.thread_schema;
        let schema = if alive { publishes() } else { None };
        let understood = schema.as_deref().is_some_and(|schema| SCHEMAS.contains(&schema));
        let place = if understood { place::find(&folder) } else { None };
        let told = (watched.process, place);
        // a program that was replaced keeps its process but not what the kernel side knows of it
        let changed = place != watched.place || place.is_some() && watched.looks == 0;
        watched.place = place;
        watched.due = Instant::now()
            + match place {
                Some(_) => KNOWN_PAUSE,
                None => FIRST_PAUSE.saturating_mul(1 << watched.looks.min(16)).min(LAST_PAUSE),
            };
        watched.looks += 1;
        if !alive {
            self.watched.remove(&pid);
        }
        !changed || self.news.send(told).is_ok()
    }
}

/// When a process began, to the tick that `/proc` counts in.
pub(super) fn start(folder: &std::path::Path) -> Option<BootNs> {
    let stat = Process::new_with_root(folder.to_path_buf()).ok()?.stat().ok()?;
    Some(BootNs(stat.starttime.saturating_mul(NS_PER_TICK)))
}
