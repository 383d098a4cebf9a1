//! One-job layers around an exporter's attempt: bounded queue, batching, splitting, retry, timeout.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Period;

/// The exporterhelper keys of one exporter (otel.md 1.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeliverySettings {
    /// Bound of one attempt.
    pub timeout: Period,
}

impl Default for DeliverySettings {
    fn default() -> Self {
        Self { timeout: Period::secs(5) }
    }
}
