//! The keys of `file`, as the Collector's contrib distribution has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Section};

/// What to write, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileSettings {
    /// The file. Required.
    pub path: String,
    /// Add to what the file holds, instead of emptying it at the start.
    pub append: bool,
    /// Start a new file now and then; absent: never.
    pub rotation: Option<Rotation>,
    /// `json`: an object a line; `proto`: a length of four bytes before each request.
    #[schemars(extend("examples" = ["json", "proto"]))]
    pub format: String,
    /// `zstd` compresses each record, with a length of four bytes before it; empty for none.
    #[schemars(extend("examples" = ["", "zstd"]))]
    pub compression: String,
    /// Make the folders of `path` where they are missing.
    pub create_directory: bool,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            path: String::new(),
            append: false,
            rotation: None,
            format: "json".to_owned(),
            compression: String::new(),
            create_directory: false,
        }
    }
}

/// When a new file begins, and how many old ones stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rotation {
    /// A file grows to this many MiB.
    pub max_megabytes: u64,
    /// Old files are removed after this many days; 0 for never.
    pub max_days: u64,
    /// So many old files stay; 0 for all.
    pub max_backups: usize,
    /// Old files carry the local time instead of UTC.
    pub localtime: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_megabytes: 100, max_days: 0, max_backups: 100, localtime: false }
    }
}

impl Section for FileSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.path.trim().is_empty() {
            at.problem("path", "is required: the file to write, such as /var/log/schedscope.jsonl");
        }
        if !matches!(self.format.as_str(), "json" | "proto") {
            at.problem("format", format!("`{}` is unknown; use json or proto", self.format));
        }
        if !matches!(self.compression.as_str(), "" | "none" | "zstd") {
            at.problem("compression", format!("`{}` is not supported; use zstd, or leave it out", self.compression));
        }
        if self.append && self.compression == "zstd" {
            at.problem("append", "cannot be combined with compression; remove one of them");
        }
        if self.append && self.rotation.is_some() {
            at.problem("append", "cannot be combined with rotation; remove one of them");
        }
        if self.rotation.as_ref().is_some_and(|rotation| rotation.max_megabytes == 0) {
            at.problem("rotation::max_megabytes", "must be at least 1");
        }
    }
}
