//! A span as its reader has it, whoever it came through, and what must hold between the spans of a trace.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Map, Value};

/// One span. Times are nanoseconds since 1970 (Jaeger's are whole microseconds).
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// Empty for a root.
    pub(crate) parent_id: String,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) resource: Map<String, Value>,
}

impl Span {
    pub(crate) fn seconds(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / 1e9
    }
}

/// Seconds in all spans of one name.
pub(crate) fn total(spans: &[Span], name: &str) -> f64 {
    spans.iter().filter(|span| span.name == name).map(Span::seconds).sum()
}

/// Root, threads, intervals; and that the intervals of a thread do not overlap. `grain_ns` is how finely times were kept.
pub(crate) fn is_well_formed(spans: &[Span], grain_ns: u64) -> Result<()> {
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(&span.trace_id).or_default().push(span);
    }
    for (id, trace) in traces {
        let roots: Vec<&&Span> = trace.iter().filter(|span| span.parent_id.is_empty()).collect();
        ensure!(roots.len() == 1 && roots[0].name == "sched.window", "trace {id}: roots are {roots:?}");
        let root = roots[0];
        ensure!(!root.resource.contains_key("process.pid"), "the root's Resource has process.*: {root:?}");
        let mut known: BTreeMap<&str, &Span> = BTreeMap::new();
        for span in &trace {
            ensure!(span.start_ns <= span.end_ns, "an inverted span: {span:?}");
            ensure!(known.insert(&span.span_id, span).is_none(), "trace {id} has span {} twice", span.span_id);
        }
        let threads = trace.iter().filter(|span| span.parent_id == root.span_id);
        for thread in threads {
            ensure!(thread.name.starts_with("sched.thread "), "under the root: {thread:?}");
            has_ordered_intervals(&trace, thread, grain_ns)?;
        }
        for span in &trace {
            let parent = known.get(span.parent_id.as_str());
            ensure!(span.parent_id.is_empty() || parent.is_some(), "an orphan: {span:?}");
        }
    }
    Ok(())
}

fn has_ordered_intervals(trace: &[&Span], thread: &Span, grain_ns: u64) -> Result<()> {
    let mut intervals: Vec<&&Span> = trace.iter().filter(|span| span.parent_id == thread.span_id).collect();
    intervals.sort_by_key(|span| (span.start_ns, span.end_ns));
    for span in &intervals {
        let is_interval = ["sched.run", "sched.wait", "sched.throttle", "sched.block"].contains(&span.name.as_str());
        ensure!(is_interval, "under a thread: {span:?}");
    }
    for pair in intervals.windows(2) {
        let overlap = pair[0].end_ns.saturating_sub(pair[1].start_ns);
        ensure!(overlap <= grain_ns, "overlap of {overlap} ns in {}:\n{:?}\n{:?}", thread.name, pair[0], pair[1]);
    }
    Ok(())
}
