//! A config mistake: where, what, and what to do. Collected, so that one run shows them all.

use std::fmt;
use std::sync::Arc;

/// A place in a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The document's name as the user gave it; empty for text without one, then no place is shown.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, if a document can be pointed at.
    pub position: Option<Position>,
    /// The config path, joined by `::`; empty for the document itself.
    pub path: String,
    /// What is wrong and, where one is known, the remedy; no final period.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.position.as_ref().filter(|at| !at.file.is_empty()) {
            write!(out, "{}:{}:{}: ", at.file, at.line, at.column)?;
        }
        if !self.path.is_empty() {
            write!(out, "{}: ", self.path)?;
        }
        out.write_str(&self.message)
    }
}

/// All mistakes of one run. Empty means none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// No mistake.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` where there is no mistake.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
