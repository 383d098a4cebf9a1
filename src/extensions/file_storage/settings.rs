//! The keys of `file_storage`, as the Collector's contrib distribution has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Period, Section};

/// Where records are kept, and how surely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileStorageSettings {
    /// The folder; one below it for each exporter and signal.
    pub directory: String,
    /// Make the folder where it is missing.
    pub create_directory: bool,
    /// Of that folder where it is made, octal. Those below it, with what is queued, are this user's alone.
    pub directory_permissions: String,
    /// How long to wait for another process that still holds a folder.
    pub timeout: Period,
    /// Sync the disk for each record: survives a loss of power too, and costs two syncs a request.
    pub fsync: bool,
    /// Taken for the Collector's sake: a removed record gives its space back at once, nothing is left to compact.
    pub compaction: Compaction,
}

impl Default for FileStorageSettings {
    fn default() -> Self {
        Self {
            directory: "/var/lib/otelcol/file_storage".to_owned(),
            create_directory: false,
            directory_permissions: "0750".to_owned(),
            timeout: Period::secs(1),
            fsync: false,
            compaction: Compaction::default(),
        }
    }
}

/// Keys of a store that grows and must be compacted; this one need not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compaction {
    /// At the start.
    pub on_start: bool,
    /// When much of it is free.
    pub on_rebound: bool,
    /// Where the copy is made.
    pub directory: String,
    /// Records moved at once.
    pub max_transaction_size: u64,
    /// Space used above which it is looked at, MiB.
    pub rebound_needed_threshold_mib: u64,
    /// Space in use below which it is done, MiB.
    pub rebound_trigger_threshold_mib: u64,
    /// How often it is looked at.
    pub check_interval: Period,
    /// Remove what an earlier compaction left.
    pub cleanup_on_start: bool,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            on_start: false,
            on_rebound: false,
            directory: "/var/lib/otelcol/file_storage".to_owned(),
            max_transaction_size: 65536,
            rebound_needed_threshold_mib: 100,
            rebound_trigger_threshold_mib: 10,
            check_interval: Period::secs(5),
            cleanup_on_start: false,
        }
    }
}

impl FileStorageSettings {
    /// `directory_permissions` as the system takes it.
    pub(super) fn mode(&self) -> Option<u32> {
        u32::from_str_radix(&self.directory_permissions, 8).ok().filter(|mode| *mode <= 0o777)
    }
}

impl Section for FileStorageSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.directory.trim().is_empty() {
            at.problem("directory", "is required: a folder, such as /var/lib/otelcol/file_storage");
        }
        if self.mode().is_none() {
            at.problem("directory_permissions", "must be octal and text, such as \"0750\"; at most 0777");
        }
    }
}
