//! Pure: spans of earlier requests, as far as they matter to later ones. A span ends before the one it lies in, so
//! that it often comes in a request before it; its intervals must not be told again under the outer one.

use std::collections::{HashMap, VecDeque};

use super::told::Stretch;
use crate::model::{BootNs, ProcessKey};

/// Spans that are remembered; what is over it may be told twice.
const SPANS_MAX: usize = 100_000;

/// A thread of a process.
pub(super) type Thread = (ProcessKey, u32);

/// The times of spans that got children.
#[derive(Debug, Default)]
pub(super) struct Given {
    threads: HashMap<Thread, VecDeque<Stretch>>,
    spans: usize,
}

impl Given {
    /// Spans of a thread that share time with this stretch.
    pub(super) fn touching(&self, thread: Thread, stretch: Stretch) -> impl Iterator<Item = Stretch> {
        let known = self.threads.get(&thread).into_iter().flatten().copied();
        known.filter(move |known| known.from < stretch.to && stretch.from < known.to)
    }

    /// A span got children.
    pub(super) fn add(&mut self, thread: Thread, stretch: Stretch) {
        if self.spans < SPANS_MAX {
            self.threads.entry(thread).or_default().push_back(stretch);
            self.spans += 1;
        }
    }

    /// Nothing that comes from now on reaches back further.
    pub(super) fn forget(&mut self, oldest: BootNs) {
        self.threads.retain(|_, spans| {
            spans.retain(|span| span.to >= oldest);
            !spans.is_empty()
        });
        self.spans = self.threads.values().map(VecDeque::len).sum();
    }
}
