//! Real programs around the agent, and what they tell.

pub(crate) mod agent;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod container;
pub(crate) mod docker;
#[path = "../../support/http.rs"]
pub(crate) mod http;
pub(crate) mod jaeger;
pub(crate) mod span;
pub(crate) mod task;

use anyhow::Result;
use tempfile::TempDir;

/// A folder for what a test writes; with SCHEDSCOPE_KEEP set it stays, for a look at logs, configs and data.
pub(crate) fn folder() -> Result<TempDir> {
    let mut folder = tempfile::tempdir()?;
    if std::env::var_os("SCHEDSCOPE_KEEP").is_some() {
        folder.disable_cleanup(true);
        println!("  kept: {}", folder.path().display());
    }
    Ok(folder)
}

/// Fails unless `got` is within `share` of `want`, or within `floor` (in their unit) where that is more.
pub(crate) fn close(what: &str, got: f64, want: f64, share: f64, floor: f64) -> Result<()> {
    let off = (got - want).abs();
    let bound = (want.abs() * share).max(floor);
    println!(
        "  {what}: {got:.6} of {want:.6}, off by {:.3} %, bound {:.3} %",
        off / want * 100.0,
        bound / want * 100.0
    );
    anyhow::ensure!(off <= bound, "{what}: got {got:.6}, want {want:.6} within {bound:.6}");
    Ok(())
}
