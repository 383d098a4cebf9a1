//! What delivery costs: our model to compressed OTLP, a reload, an outage on disk, and forwarding beside a real
//! Collector with the same config. `make bench` runs it after the cost of switches; five minutes.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod encode;
mod forward;
mod outage;

#[allow(dead_code, reason = "a bench only asks where the parts are")]
#[path = "../../support/needs.rs"]
mod needs;
#[path = "../../support/program.rs"]
mod program;

use std::path::Path;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut report = String::from("| delivery | |\n|---|---|\n");
    let rows = [encode::spans(), encode::points(), outage::reload(folder.path()), outage::disk(folder.path())];
    for row in rows.into_iter().chain([forward::beside_the_collector(folder.path())]) {
        let row = row.unwrap_or_else(|error| format!("| not measured here | {error:#} |\n"));
        print!("{row}");
        report.push_str(&row);
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-delivery.md"), report)?;
    println!("written to target/bench-delivery.md");
    Ok(())
}
