//! Pure: what a recording says about the host it was made on.

use serde::{Deserialize, Serialize};

/// The first block of a file. Fields may be added; unknown ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// `kernel.boot_id`.
    pub boot_id: String,
    /// uname release.
    pub kernel_release: String,
    /// CPUs online.
    pub cpus: u32,
    /// CLOCK_REALTIME - CLOCK_BOOTTIME at the start, ns; absent where it was not measured.
    pub wall_minus_boot_ns: Option<i64>,
    /// How the events were obtained: `tracefs`, `tp_btf`, ...
    pub backend: String,
    /// The version that wrote the file.
    pub schedscope_version: String,
}
