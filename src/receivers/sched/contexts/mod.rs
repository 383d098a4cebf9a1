//! Which processes publish the active spans of their threads (OTEP 4947), and where the kernel side finds them.
//!
//! `finder` is a thread of its own, `place` reads one process, `symbol` one file, `shared` the map of other
//! instrumentation, `upkeep` is the reader's part.
//! Refuses to know: what a context is good for.

mod finder;
mod place;
mod shared;
mod symbol;
mod upkeep;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use self::finder::{Finder, News};
use self::place::Place;
pub(super) use self::upkeep::Upkeep;
use crate::host::FIRST_PID_NAMESPACE;
use crate::model::ProcessKey;

/// Questions and answers that wait for the other side.
const WAITING_MAX: usize = 4096;

/// The reader's side of the finder.
#[derive(Debug)]
struct Contexts {
    asked: SyncSender<ProcessKey>,
    news: Receiver<News>,
}

/// Whether the host's processes can be seen below this root, under their pids; if not, one line in the log says so.
fn sees_host(root: &Path) -> bool {
    let proc = root.join("proc");
    let namespace = std::fs::read_link(proc.join("1/ns/pid")).or_else(|_| std::fs::read_link(proc.join("self/ns/pid")));
    let sees = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_PID_NAMESPACE);
    if !sees {
        tracing::warn!(
            "sched: processes are not shown under the host's pids here; spans are not attached to applications' own"
        );
    }
    sees
}

impl Contexts {
    /// Begins to look; `None`, and one line in the log, where that cannot be. The thread ends with this value.
    fn start(root: &Path) -> Option<Self> {
        let (asked, questions) = sync_channel(WAITING_MAX);
        let (answers, news) = sync_channel(WAITING_MAX);
        let finder = Finder::new(root.join("proc"), answers);
        let thread = std::thread::Builder::new().name("schedscope-find".into()).spawn(move || finder.run(&questions));
        if let Err(error) = thread {
            tracing::warn!("sched: no thread to look for applications' contexts: {error}");
            return None;
        }
        Some(Self { asked, news })
    }

    /// A process is seen, perhaps under a new name; false where the finder has too much to do.
    fn seen(&self, process: ProcessKey) -> bool {
        self.asked.try_send(process).is_ok()
    }

    /// What was found since the last call.
    fn news(&self) -> impl Iterator<Item = News> {
        self.news.try_iter()
    }
}
