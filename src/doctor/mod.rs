//! What this host lets us measure, what is missing and how to get it; and, on request, a measurement of this
//! host held against the kernel's own counters.
//!
//! `host` looks, `judge` decides (pure), `verify` compares, `report` writes (pure). Refuses to know: the command
//! line, exit codes.

mod finding;
mod host;
mod judge;
mod report;
pub mod verify;

pub use finding::{Finding, Grade};
pub use report::{json, text};

use self::verify::Row;
use crate::receivers::sched::{Backend, Memory, Meter, SchedSettings};

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// About the host.
    pub findings: Vec<Finding>,
    /// The comparison, where it was asked for.
    pub rows: Vec<Row>,
}

impl Report {
    /// Nothing keeps us from measuring, and no number was off.
    pub fn is_good(&self) -> bool {
        let found = self.findings.iter().all(|finding| finding.grade != Grade::Missing);
        found && self.rows.iter().all(Row::is_within)
    }
}

/// Looks at this host; the programs are loaded for a moment, as the only sure proof that they can be.
pub fn examine(settings: &SchedSettings) -> Report {
    let mut seen = host::look(settings);
    let mut memory = Memory::default();
    seen.programs = Meter::start(&mut memory, settings).map(|meter| meter.offers());
    if seen.programs.is_err() && settings.backend == Backend::Auto && seen.capabilities.suffice() {
        // as the agent does
        let offers = [Backend::Tracepoint, Backend::Tracefs].into_iter().find_map(|backend| {
            let settings = SchedSettings { backend, ..settings.clone() };
            Meter::start(&mut Memory::default(), &settings).ok().map(|meter| meter.offers())
        });
        seen.events = offers.map(|offers| offers.backend);
    }
    Report { findings: judge::judge(&seen), rows: Vec::new() }
}

/// Looks at this host and measures for so many seconds.
pub fn examine_and_verify(settings: &SchedSettings, seconds: u32) -> Report {
    let mut report = examine(settings);
    let programs = report.findings.iter().find(|finding| finding.about == "programs").map(|finding| finding.grade);
    let measured = match programs {
        Some(Grade::Ok) => verify::verify(settings, seconds),
        // what the agent does here too
        Some(Grade::Less) => {
            let by = |backend| verify::verify(&SchedSettings { backend, ..settings.clone() }, seconds);
            by(Backend::Tracepoint).or_else(|_| by(Backend::Tracefs))
        }
        _ => {
            let why = "neither the kernel's counters nor its events can be read here";
            Ok(vec![Row::not_compared("this host", "every number", why)])
        }
    };
    report.rows = measured.unwrap_or_else(|why| vec![Row::failed(why)]);
    report
}
