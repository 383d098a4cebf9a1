//! A source of names, and the task that serves one: it waits for the runtime, asks, follows, and starts over.
//!
//! Every wait is bounded. While the runtime is away nobody waits for it: what was asked is answered with
//! "unknown" at once and asked again when it is there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Names;
use super::book::{Answers, QUESTIONS_MAX};
use crate::telemetry::{Meter, Telemetry};

/// Longest wait for a runtime's first word: a daemon that is being started on a busy host takes its time.
const GREET_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// A container that is not known yet is asked for once more after this.
const SECOND_TRY: Duration = Duration::from_millis(300);
/// Pauses between attempts to reach a runtime, the last one for ever.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(15)];
/// Questions that one runtime is asked at a time.
const QUESTIONS_AT_ONCE: usize = 8;
/// Answers that time out one after the other before the runtime counts as hung.
const TIMEOUTS_MAX: u32 = 3;
/// Containers that were seen and wait to be written down.
const SEEN_MAX: usize = 256;

/// Why a runtime could not say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// It is not there, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// It answered something that cannot be used, for this container.
    #[error("{0}")]
    Answer(String),
    /// It has no events.
    #[error("it has no events")]
    NoEvents,
}

/// A container that a runtime told of by itself.
pub type Seen = (Arc<str>, Names);

/// A runtime that can be asked.
#[async_trait]
pub trait Catalog: Send + Sync + 'static {
    /// Reaches it; gives its version.
    async fn greet(&self) -> Result<String, CatalogError>;

    /// Names of a container by its full id.
    async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError>;

    /// Tells of new containers until the connection ends.
    async fn follow(&self, seen: &mpsc::Sender<Seen>) -> Result<(), CatalogError>;
}

/// Makes a catalog where its socket or file is there now.
pub type Open = Box<dyn Fn() -> Option<Arc<dyn Catalog>> + Send + Sync>;

/// The task of one source.
pub struct Worker {
    name: &'static str,
    open: Open,
    questions: mpsc::Receiver<Arc<str>>,
    answers: Answers,
    /// Asked while nobody was there.
    later: VecDeque<Arc<str>>,
    found: Meter,
    unknown: Meter,
    failed: Meter,
}

/// Nobody will ask any more.
struct Closed;

impl Worker {
    /// A source of that name.
    pub fn new(open: Open, questions: mpsc::Receiver<Arc<str>>, answers: Answers, telemetry: &Telemetry) -> Self {
        let name = answers.source();
        let lookups = |outcome| {
            let of = [("source", name), ("outcome", outcome)];
            telemetry.counter("otelcol_processor_container_lookups", "{lookup}", &of)
        };
        let (found, unknown, failed) = (lookups("found"), lookups("unknown"), lookups("failed"));
        Self { name, open, questions, answers, later: VecDeque::new(), found, unknown, failed }
    }

    /// Serves until nobody can ask any more.
    pub async fn run(mut self) {
        let mut attempt = 0;
        let mut told = false;
        loop {
            match self.reach().await {
                Some(Ok((catalog, version))) => {
                    tracing::info!(source = self.name, version, "names of containers are there");
                    (attempt, told) = (0, false);
                    let Ok(ended) = self.serve(&catalog).await else { return };
                    tracing::warn!(source = self.name, error = %ended, "names of containers are gone; what is known stays, it is tried again");
                }
                Some(Err(why)) if !told => {
                    told = true;
                    tracing::warn!(source = self.name, error = %why, "names of containers cannot be had; it is tried again");
                }
                Some(Err(_)) | None => {}
            }
            let pause = PAUSES.get(attempt).or(PAUSES.last()).copied().unwrap_or(ANSWER_WAIT);
            attempt += 1;
            if self.wait_away(Instant::now() + pause).await.is_err() {
                return;
            }
        }
    }

    async fn reach(&self) -> Option<Result<(Arc<dyn Catalog>, String), CatalogError>> {
        let catalog = (self.open)()?;
        let hung = || CatalogError::Unreachable(format!("no answer within {} s", GREET_WAIT.as_secs()));
        let greeted = timeout(GREET_WAIT, catalog.greet()).await.unwrap_or_else(|_| Err(hung()));
        Some(greeted.map(|version| (catalog, version)))
    }

    /// Answers "unknown" to everything until then.
    async fn wait_away(&mut self, until: Instant) -> Result<(), Closed> {
        loop {
            tokio::select! {
                () = sleep_until(until) => return Ok(()),
                question = self.questions.recv() => {
                    let id = question.ok_or(Closed)?;
                    self.answers.put(&id, None);
                    self.put_off(id);
                }
            }
        }
    }

    fn put_off(&mut self, id: Arc<str>) {
        if self.later.len() >= QUESTIONS_MAX {
            self.later.pop_front();
        }
        self.later.push_back(id);
    }

    /// Answers until the runtime is gone, which the result tells.
    async fn serve(&mut self, catalog: &Arc<dyn Catalog>) -> Result<CatalogError, Closed> {
        let (tell, mut seen) = mpsc::channel(SEEN_MAX);
        let follow = async { catalog.follow(&tell).await };
        tokio::pin!(follow);
        let mut following = true;
        let mut asked = FuturesUnordered::new();
        let mut timeouts = 0;
        loop {
            while asked.len() < QUESTIONS_AT_ONCE
                && let Some(id) = self.later.pop_front()
            {
                asked.push(ask(catalog, id));
            }
            tokio::select! {
                ended = &mut follow, if following => match ended {
                    Err(CatalogError::NoEvents) => following = false,
                    Err(why) => return Ok(why),
                    Ok(()) => return Ok(CatalogError::Unreachable("the connection was closed".into())),
                },
                Some((id, names)) = seen.recv() => {
                    self.answers.put(&id, Some(names));
                    // the event has the least: the rest is asked for
                    self.later.push_back(id);
                }
                question = self.questions.recv(), if asked.len() < QUESTIONS_AT_ONCE => {
                    asked.push(ask(catalog, question.ok_or(Closed)?));
                }
                Some((id, answer)) = asked.next() => match self.note(id, answer, &mut timeouts) {
                    None => {}
                    Some(ended) => return Ok(ended),
                },
            }
        }
    }

    /// Writes one answer down; gives why it is no use to go on, if so.
    fn note(
        &mut self,
        id: Arc<str>,
        answer: Option<Result<Option<Names>, CatalogError>>,
        timeouts: &mut u32,
    ) -> Option<CatalogError> {
        let Some(answer) = answer else {
            *timeouts += 1;
            self.failed.add(1);
            self.answers.put(&id, None);
            self.put_off(id);
            let seconds = ANSWER_WAIT.as_secs();
            return (*timeouts >= TIMEOUTS_MAX)
                .then(|| CatalogError::Unreachable(format!("no answers within {seconds} s")));
        };
        *timeouts = 0;
        match answer {
            Ok(names) => {
                if names.is_some() { &self.found } else { &self.unknown }.add(1);
                self.answers.put(&id, names);
                None
            }
            Err(why) => {
                self.failed.add(1);
                self.answers.put(&id, None);
                match why {
                    CatalogError::Unreachable(_) => {
                        self.put_off(id);
                        Some(why)
                    }
                    CatalogError::Answer(_) | CatalogError::NoEvents => {
                        tracing::debug!(source = self.name, container = %id, error = %why, "no names");
                        None
                    }
                }
            }
        }
    }
}

/// One question, with a second try for a container that is just being made; `None`: no answer in time.
async fn ask(catalog: &Arc<dyn Catalog>, id: Arc<str>) -> (Arc<str>, Option<Result<Option<Names>, CatalogError>>) {
    let mut answer = timeout(ANSWER_WAIT, catalog.find(&id)).await.ok();
    if matches!(answer, Some(Ok(None))) {
        tokio::time::sleep(SECOND_TRY).await;
        answer = timeout(ANSWER_WAIT, catalog.find(&id)).await.ok();
    }
    (id, answer)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{Book, text};
    use super::*;
    use crate::processors::container::grammar::Runtime;

    /// Answers as told, per id.
    #[derive(Default)]
    struct Fake {
        gone: Mutex<bool>,
        hangs: bool,
    }

    #[async_trait]
    impl Catalog for Fake {
        async fn greet(&self) -> Result<String, CatalogError> {
            Ok("1".into())
        }

        async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if *self.gone.lock().unwrap() {
                return Err(CatalogError::Unreachable("gone".into()));
            }
            Ok((id != "nobody").then(|| Names { name: text(id), ..Names::default() }))
        }

        async fn follow(&self, _: &mpsc::Sender<Seen>) -> Result<(), CatalogError> {
            Err(CatalogError::NoEvents)
        }
    }

    fn start(open: Open) -> Book {
        let telemetry = Telemetry::default();
        let mut builder = Book::builder(100, &telemetry, "container");
        let questions = builder.source("docker", &[Runtime::Docker]);
        let book = builder.finish();
        tokio::spawn(Worker::new(open, questions, book.answers("docker"), &telemetry).run());
        book
    }

    async fn until(what: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if what() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("did not happen");
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_comes_late_is_asked_what_was_missed() {
        let there = Arc::new(Mutex::new(false));
        let seen = Arc::clone(&there);
        let book = start(Box::new(move || seen.lock().unwrap().then(|| Arc::new(Fake::default()) as Arc<dyn Catalog>)));
        book.ask(&"web".into(), Some(Runtime::Docker));
        until(|| !book.get("web").waiting).await;
        assert!(book.get("web").names.is_none());
        *there.lock().unwrap() = true;
        until(|| book.get("web").names.is_some()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_runtime_is_waited_for_at_most_so_long() {
        let book = start(Box::new(|| Some(Arc::new(Fake { hangs: true, ..Fake::default() }))));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let asked = Instant::now();
        book.ask(&"web".into(), Some(Runtime::Docker));
        until(|| !book.get("web").waiting).await;
        assert!(asked.elapsed() <= ANSWER_WAIT + Duration::from_millis(20), "{:?}", asked.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_container_is_answered_after_a_second_try() {
        let book = start(Box::new(|| Some(Arc::new(Fake::default()))));
        book.ask(&"nobody".into(), Some(Runtime::Docker));
        book.ask(&"web".into(), Some(Runtime::Docker));
        until(|| !book.get("nobody").waiting && book.get("web").names.is_some()).await;
        assert!(book.get("nobody").names.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_of_the_runtime_is_survived() {
        let fake = Arc::new(Fake::default());
        let opened = Arc::clone(&fake);
        let book = start(Box::new(move || Some(Arc::clone(&opened) as Arc<dyn Catalog>)));
        *fake.gone.lock().unwrap() = true;
        book.ask(&"web".into(), Some(Runtime::Docker));
        until(|| !book.get("web").waiting).await;
        *fake.gone.lock().unwrap() = false;
        until(|| book.get("web").names.is_some()).await;
    }
}
