//! Who was asked for which container, and what came back. Bounded; never waits but for a short lock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::Names;
use crate::processors::container::grammar::Runtime;
use crate::telemetry::{Meter, Telemetry};

/// Questions that may wait for one source.
pub const QUESTIONS_MAX: usize = 4096;

/// A source that can be asked: one runtime's, or Kubernetes'.
#[derive(Debug)]
struct Source {
    name: &'static str,
    /// The runtimes whose containers it can name; empty: pods.
    runtimes: &'static [Runtime],
    questions: mpsc::Sender<Arc<str>>,
}

/// The meeting place of the processor and its sources. Clones share it.
#[derive(Debug, Clone)]
pub struct Book {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Grows with every change; read without the lock.
    version: AtomicU64,
    sources: Vec<Source>,
    capacity: usize,
    entries: Meter,
    evicted: Meter,
    not_asked: Meter,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Arc<str>, Entry>,
    /// Ids in the order in which they came, for eviction.
    order: VecDeque<Arc<str>>,
    /// Ids with news since the processor looked last.
    changed: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Entry {
    names: Option<Arc<Names>>,
    /// Sources that have been asked and have not answered.
    waiting_for: Vec<&'static str>,
}

/// What the book holds on one container.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The names so far.
    pub names: Option<Arc<Names>>,
    /// Some source may still answer.
    pub waiting: bool,
}

/// A book's half that belongs to one source.
pub struct Answers {
    book: Book,
    name: &'static str,
}

impl Book {
    /// An empty book of at most `capacity` containers.
    pub fn builder(capacity: usize, telemetry: &Telemetry, processor: &str) -> BookBuilder {
        let of = [("processor", processor), ("cache", "names")];
        BookBuilder {
            sources: Vec::new(),
            capacity,
            entries: telemetry.gauge("otelcol_processor_container_cache_entries", "{entry}", &of),
            evicted: telemetry.counter("otelcol_processor_container_cache_evictions", "{entry}", &of),
            not_asked: telemetry.counter("otelcol_processor_container_lookups_dropped", "{lookup}", &[of[0]]),
        }
    }

    /// Asks every source that can know this container, unless it was asked before.
    pub fn ask(&self, id: &Arc<str>, runtime: Option<Runtime>) {
        let mut state = self.lock();
        if state.entries.get(id).is_some_and(|entry| entry.names.is_some() || !entry.waiting_for.is_empty()) {
            return;
        }
        let mut waiting_for = Vec::new();
        for source in &self.shared.sources {
            if runtime.is_some_and(|runtime| !source.runtimes.contains(&runtime)) {
                continue;
            }
            match source.questions.try_send(Arc::clone(id)) {
                Ok(()) => waiting_for.push(source.name),
                Err(mpsc::error::TrySendError::Full(_)) => self.shared.not_asked.add(1),
                // that source has ended
                Err(mpsc::error::TrySendError::Closed(_)) => {}
            }
        }
        self.entry(&mut state, id).waiting_for = waiting_for;
    }

    /// What is known of a container.
    pub fn get(&self, id: &str) -> Known {
        let state = self.lock();
        let entry = state.entries.get(id);
        entry.map_or_else(Known::default, |entry| Known {
            names: entry.names.clone(),
            waiting: !entry.waiting_for.is_empty(),
        })
    }

    /// Grows whenever [`Book::take_changed`] has news.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// The containers with news since the last call.
    pub fn take_changed(&self) -> Vec<Arc<str>> {
        self.lock().changed.drain().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of an id, made where there is none; the oldest goes where there is no room.
    fn entry<'a>(&self, state: &'a mut State, id: &Arc<str>) -> &'a mut Entry {
        if !state.entries.contains_key(id) {
            while state.entries.len() >= self.shared.capacity {
                let Some(oldest) = state.order.pop_front() else { break };
                state.entries.remove(&oldest);
                state.changed.remove(&oldest);
                self.shared.evicted.add(1);
            }
            state.order.push_back(Arc::clone(id));
            self.shared.entries.set(state.entries.len() as u64 + 1);
        }
        state.entries.entry(Arc::clone(id)).or_default()
    }
}

/// Collects the sources of a book before anybody asks.
pub struct BookBuilder {
    sources: Vec<Source>,
    capacity: usize,
    entries: Meter,
    evicted: Meter,
    not_asked: Meter,
}

impl BookBuilder {
    /// Adds a source that can name the containers of these runtimes; what it shall look up comes out of the channel.
    pub fn source(&mut self, name: &'static str, runtimes: &'static [Runtime]) -> mpsc::Receiver<Arc<str>> {
        let (questions, wanted) = mpsc::channel(QUESTIONS_MAX);
        self.sources.push(Source { name, runtimes, questions });
        wanted
    }

    /// The book.
    pub fn finish(self) -> Book {
        let shared = Shared {
            state: Mutex::default(),
            version: AtomicU64::new(0),
            sources: self.sources,
            capacity: self.capacity,
            entries: self.entries,
            evicted: self.evicted,
            not_asked: self.not_asked,
        };
        Book { shared: Arc::new(shared) }
    }
}

impl Book {
    /// The half of the source of that name.
    pub fn answers(&self, name: &'static str) -> Answers {
        Answers { book: self.clone(), name }
    }
}

impl Answers {
    /// Which source this is.
    pub fn source(&self) -> &'static str {
        self.name
    }

    /// Names of a container, asked for or not; `None`: this source does not know it.
    pub fn put(&self, id: &Arc<str>, names: Option<Names>) {
        let mut state = self.book.lock();
        let entry = self.book.entry(&mut state, id);
        entry.waiting_for.retain(|source| *source != self.name);
        if let Some(newer) = names {
            let mut merged = entry.names.as_deref().cloned().unwrap_or_default();
            merged.merge(newer);
            entry.names = Some(Arc::new(merged));
        }
        state.changed.insert(Arc::clone(id));
        drop(state);
        self.book.shared.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn book(capacity: usize) -> (Book, mpsc::Receiver<Arc<str>>, mpsc::Receiver<Arc<str>>) {
        let mut builder = Book::builder(capacity, &Telemetry::default(), "container");
        let docker = builder.source("docker", &[Runtime::Docker]);
        let podman = builder.source("podman", &[Runtime::Podman]);
        (builder.finish(), docker, podman)
    }

    fn named(name: &str) -> Option<Names> {
        Some(Names { name: text(name), ..Names::default() })
    }

    #[test]
    fn only_who_can_know_is_asked_and_once() {
        let (book, mut docker, mut podman) = book(10);
        let id: Arc<str> = "a".into();
        book.ask(&id, Some(Runtime::Docker));
        book.ask(&id, Some(Runtime::Docker));
        assert_eq!(docker.try_recv().ok().as_deref(), Some("a"));
        assert!(docker.try_recv().is_err() && podman.try_recv().is_err());
        assert!(book.get("a").waiting);
        book.answers("docker").put(&id, named("web"));
        let known = book.get("a");
        assert_eq!((known.names.unwrap().name.as_deref(), known.waiting), (Some("web"), false));
        assert_eq!(book.take_changed(), vec![id]);
        assert!(book.take_changed().is_empty());
    }

    #[test]
    fn an_unknown_runtime_waits_for_every_source() {
        let (book, _docker, _podman) = book(10);
        let id: Arc<str> = "a".into();
        book.ask(&id, None);
        book.answers("docker").put(&id, None);
        assert!(book.get("a").waiting);
        book.answers("podman").put(&id, named("web"));
        assert!(!book.get("a").waiting);
    }

    #[test]
    fn an_ended_source_is_not_waited_for() {
        let (book, docker, _podman) = book(10);
        drop(docker);
        book.ask(&"a".into(), Some(Runtime::Docker));
        assert!(!book.get("a").waiting);
    }

    #[test]
    fn the_oldest_goes_where_there_is_no_room() {
        let telemetry = Telemetry::default();
        let book = Book::builder(2, &telemetry, "container").finish();
        for id in ["a", "b", "c"] {
            book.answers("docker").put(&id.into(), named(id));
        }
        assert!(book.get("a").names.is_none());
        assert!(book.get("c").names.is_some());
        assert_eq!(telemetry.sum("otelcol_processor_container_cache_evictions"), 1);
        assert_eq!(telemetry.sum("otelcol_processor_container_cache_entries"), 2);
    }
}
