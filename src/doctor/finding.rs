//! Pure: one thing that was looked at on a host.

/// What it means for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// As it should be.
    Ok,
    /// Measuring works, with something less.
    Less,
    /// Measuring cannot work.
    Missing,
}

impl Grade {
    /// The word in the first column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Less => "less",
            Self::Missing => "missing",
        }
    }
}

/// What was found, and what to do where it is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: `BTF`, `pid namespace`.
    pub about: &'static str,
    /// What it means.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What would mend it.
    pub remedy: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(super) fn ok(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, grade: Grade::Ok, found: found.into(), remedy: None }
    }

    /// Measuring works, with something less.
    pub(super) fn less(about: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about, grade: Grade::Less, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// Measuring cannot work.
    pub(super) fn missing(about: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about, grade: Grade::Missing, found: found.into(), remedy: Some(remedy.into()) }
    }
}
