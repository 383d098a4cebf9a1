//! What lies under `config/deploy`, used as its users do.

pub(crate) mod compose;
pub(crate) mod composed;
pub(crate) mod dashboard;
pub(crate) mod fresh;
pub(crate) mod image;
pub(crate) mod service;

use std::path::PathBuf;

/// A file or folder of it.
fn deploy(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/deploy").join(name)
}
