//! The one table that maps a `scenario` case, by id, to the function that plays it.

use serde_json::Value;

/// Plays one scenario; `Err` says what was expected and what was seen.
type Play = fn(&Value) -> Result<(), String>;

/// Every scenario that can be played.
const PLAYS: &[(&str, Play)] = &[];

/// Plays the scenario of this case; one that is not in the table has failed.
pub fn run(case: &Value) -> Result<(), String> {
    let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
    let play = PLAYS.iter().find(|(known, _)| *known == id);
    play.ok_or_else(|| format!("no function plays scenario `{id}`; add it to tests/cases/scenarios.rs"))?.1(case)
}
