//! Pure: `schedscope replay --format summary`: what each thread came to, as a table.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::model::{Cycle, SchedState};
use crate::timeline::{Discards, Machine, Observer, ThreadTotals};

/// Rows of ended threads that are kept; the rest is summed.
const MAX_ROWS: usize = 10_000;
/// Gaps that are named.
const MAX_GAPS: usize = 3;

/// One line of the table.
#[derive(Debug, Clone, Default)]
struct Row {
    tid: Option<u32>,
    comm: String,
    run_ns: u64,
    wait_ns: u64,
    block_ns: u64,
    involuntary: u64,
    voluntary: u64,
    unknown_ns: u64,
}

impl Row {
    fn new(totals: &ThreadTotals) -> Self {
        let blocked = [SchedState::Interruptible, SchedState::Uninterruptible, SchedState::Stopped, SchedState::Other];
        Self {
            tid: Some(totals.task.tid),
            comm: printable(&totals.task.comm),
            run_ns: totals.ns(SchedState::Running),
            wait_ns: totals.ns(SchedState::Waiting),
            block_ns: blocked.iter().map(|state| totals.ns(*state)).sum(),
            involuntary: totals.involuntary,
            voluntary: totals.voluntary,
            unknown_ns: totals.ns(SchedState::Unknown),
        }
    }

    fn add(&mut self, other: &Self) {
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.block_ns += other.block_ns;
        self.involuntary += other.involuntary;
        self.voluntary += other.voluntary;
        self.unknown_ns += other.unknown_ns;
    }

    fn weight(&self) -> u64 {
        self.run_ns + self.wait_ns
    }
}

/// Collects the rows.
#[derive(Debug, Default)]
pub(super) struct Summary {
    rows: Vec<Row>,
    others: Row,
    others_count: u64,
    pub(super) records: u64,
    /// Lost-event marks: seconds into the trace, CPU (`None`: all), count.
    gaps: Vec<(u64, Option<u32>, u64)>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Observer for Summary {
    fn cycle(&mut self, _cycle: Cycle) {}

    fn life_ended(&mut self, totals: ThreadTotals) {
        self.row(&totals);
        if self.rows.len() > 2 * MAX_ROWS {
            self.fold();
        }
    }
}

impl Summary {
    /// An event's time.
    pub(super) fn seen(&mut self, at_ns: u64) {
        self.records += 1;
        let first = *self.first_ns.get_or_insert(at_ns);
        self.first_ns = Some(first.min(at_ns));
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// A mark of lost events.
    pub(super) fn lost(&mut self, at_ns: u64, cpu: Option<u32>, count: u64) {
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push((at_ns, cpu, count));
        }
    }

    fn row(&mut self, totals: &ThreadTotals) {
        self.rows.push(Row::new(totals));
    }

    /// Keeps the rows that weigh most.
    fn fold(&mut self) {
        self.rows.sort_by_key(|row| (Reverse(row.weight()), row.tid));
        for row in self.rows.drain(MAX_ROWS.min(self.rows.len())..) {
            self.others.add(&row);
            self.others_count += 1;
        }
    }

    /// The whole text; the machine's living threads with what is open at its end.
    pub(super) fn render(mut self, name: &str, machine: &Machine) -> String {
        let discards = machine.discards();
        for totals in machine.totals_at(machine.now()) {
            self.row(&totals);
        }
        self.fold();
        let mut text = self.head(name, machine, discards);
        text.push_str(
            "   TID  COMM                   RUN        WAIT   THROTTLED       BLOCK    INVOL      VOL     UNKNOWN\n",
        );
        let others = Row { comm: format!("({} others)", self.others_count), ..self.others.clone() };
        for row in self.rows.iter().chain((self.others_count > 0).then_some(&others)) {
            let tid = row.tid.map_or_else(|| "-".to_owned(), |tid| tid.to_string());
            let _ = writeln!(
                text,
                "{tid:>6}  {:<15}  {:>10}  {:>10}  {:>10}  {:>10}  {:>7}  {:>7}  {:>10}",
                row.comm,
                seconds(row.run_ns),
                seconds(row.wait_ns),
                "n/a",
                seconds(row.block_ns),
                row.involuntary,
                row.voluntary,
                seconds(row.unknown_ns),
            );
        }
        let told: Vec<String> = discards
            .iter()
            .filter(|(what, count)| *count > 0 && !matches!(*what, "gap" | "lost event"))
            .map(|(what, count)| counted(count, what))
            .collect();
        if !told.is_empty() {
            let _ = writeln!(text, "discarded: {}", told.join(", "));
        }
        text
    }

    fn head(&self, name: &str, machine: &Machine, discards: Discards) -> String {
        let first = self.first_ns.unwrap_or(0);
        let length = self.last_ns.saturating_sub(first);
        let mut head = format!(
            "{name}: {}, {}, {}",
            counted(self.records, "record"),
            seconds(length),
            counted(machine.cpus() as u64, "CPU"),
        );
        if discards.gaps > 0 {
            let _ = write!(head, ", {}", counted(discards.gaps, "gap"));
        }
        if !self.gaps.is_empty() {
            let marks = self.gaps.iter().map(|(at_ns, cpu, count)| {
                let events = if *count == 0 { "lost events".to_owned() } else { counted(*count, "lost event") };
                let place = cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
                format!("{events} at {}{place}", seconds(at_ns.saturating_sub(first)))
            });
            let more = if self.gaps.len() == MAX_GAPS { ", ..." } else { "" };
            let _ = write!(head, " ({}{more})", marks.collect::<Vec<_>>().join("; "));
        }
        head.push('\n');
        head
    }
}

/// `1.980 s`, of any length.
fn seconds(ns: u64) -> String {
    let milliseconds = ns.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}

/// `41,233 records`, `1 gap`.
fn counted(count: u64, what: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    // "wait with no known start" -> "2 waits with no known start"
    let (noun, rest) = what.split_once(' ').map_or((what, ""), |(noun, rest)| (noun, rest));
    let plural = |word: &str| if count == 1 { word.to_owned() } else { format!("{word}s") };
    match (noun, rest) {
        (_, "") => format!("{text} {}", plural(noun)),
        ("lost" | "clock" | "forgotten" | "impossible", rest) => {
            let rest = if rest == "anomaly" && count != 1 { "anomalies".to_owned() } else { plural(rest) };
            format!("{text} {noun} {rest}")
        }
        (noun, rest) => format!("{text} {} {rest}", plural(noun)),
    }
}

/// A thread's name on one line of a terminal.
fn printable(comm: &str) -> String {
    comm.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_as_english() {
        assert_eq!(counted(41_233, "record"), "41,233 records");
        assert_eq!(counted(1, "gap"), "1 gap");
        assert_eq!(counted(2, "wait with no known start"), "2 waits with no known start");
        assert_eq!(counted(1, "wakeup of a running task"), "1 wakeup of a running task");
        assert_eq!(counted(2, "clock anomaly"), "2 clock anomalies");
        assert_eq!(counted(118, "lost event"), "118 lost events");
        assert_eq!(seconds(1_980_000_000), "1.980 s");
    }
}
