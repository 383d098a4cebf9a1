//! The one table that maps a `scenario` case, by id, to the function that plays it and to what that needs.
//!
//! Times are scaled: all of area E plays in about two minutes.

mod agent;
mod churn;
mod delivery;
mod endpoint;
mod field;
mod identity;
pub(crate) mod load;
mod ring;
mod start;

use std::path::Path;

use serde_json::Value;

/// Plays one scenario; an error says what was expected and what was seen.
type Play = fn(&Value) -> anyhow::Result<()>;

/// What a scenario needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// To be root.
    Root,
}

/// Every scenario that can be played.
const PLAYS: &[(&str, Needs, Play)] = &[
    ("E01", Needs::Root, start::memlock),
    ("E02", Needs::Root, start::no_privileges),
    ("E03", Needs::Root, start::two_capabilities),
    ("E04", Needs::Root, start::no_tracefs),
    ("E05", Needs::Root, start::no_btf),
    ("E08", Needs::Root, field::chosen_by_btf),
    ("E15", Needs::Root, ring::full),
    ("E16", Needs::Root, ring::cost),
    ("E18", Needs::Root, churn::of_processes),
    ("E20", Needs::Root, churn::of_cgroups),
    ("E22", Needs::Root, churn::of_series),
    ("E23", Needs::Nothing, delivery::drains),
    ("E25", Needs::Nothing, delivery::away),
    ("E27", Needs::Root, delivery::moved),
    ("E28", Needs::Root, delivery::unknown),
    ("E31", Needs::Root, identity::no_host_pids),
    ("E32", Needs::Root, identity::hybrid),
    ("E35", Needs::Root, identity::same_name),
];

fn find(case: &Value) -> Result<&'static (&'static str, Needs, Play), String> {
    let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
    let play = PLAYS.iter().find(|(known, ..)| *known == id);
    play.ok_or_else(|| format!("no function plays scenario `{id}`; add it to tests/cases/scenarios.rs"))
}

/// Why this machine cannot play a scenario.
pub fn unmet(case: &Value) -> Option<&'static str> {
    let (_, needs, _) = find(case).ok()?;
    let is_root = rustix::process::geteuid().is_root();
    match needs {
        Needs::Nothing => None,
        Needs::Root if !is_root => Some("needs root"),
        Needs::Root => (!Path::new("/sys/kernel/btf/vmlinux").exists()).then_some("needs a kernel with BTF"),
    }
}

/// Plays the scenario of this case; one that is not in the table has failed.
pub fn run(case: &Value) -> Result<(), String> {
    let (_, _, play) = find(case)?;
    play(case).map_err(|why| format!("{why:#}"))
}
