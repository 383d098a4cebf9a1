//! The outcome of one export attempt.

use std::time::Duration;

/// The endpoint took the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Items that the endpoint refused inside an accepted request (partial success); never sent again.
    pub rejected_items: u64,
    /// What the endpoint said; a message without rejected items is a warning too.
    pub message: Option<String>,
}

/// The endpoint did not take it. Messages hold the cause chain and never a header value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Sending the same again cannot help: drop and count.
    #[error("{0}")]
    Permanent(String),
    /// Worth another try, not before `after` where the endpoint said so.
    #[error("{message}")]
    Retry {
        /// Why.
        message: String,
        /// RetryInfo or Retry-After.
        after: Option<Duration>,
    },
    /// The request was too large for the endpoint: halve and send once more.
    #[error("{0}")]
    TooLarge(String),
}
