//! Pure: the last line of a run in words: what was sent, what was lost, what was left behind.

use std::collections::BTreeMap;

use crate::pipeline::Drained;
use crate::telemetry::Series;

/// Counts of spans, points, log records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    spans: u64,
    points: u64,
    records: u64,
}

impl Counts {
    fn any(self) -> bool {
        self != Self::default()
    }

    fn words(self) -> String {
        let parts = [(self.spans, "span"), (self.points, "point"), (self.records, "log record")];
        let words: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        match &words[..] {
            [] => "nothing".to_owned(),
            [one] => one.clone(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        }
    }
}

/// Sums of `otelcol_exporter_<what>_<items>`, by exporter.
fn by_exporter(series: &[Series], what: &str) -> BTreeMap<String, Counts> {
    let mut sums: BTreeMap<String, Counts> = BTreeMap::new();
    for one in series {
        let Some(items) = one.key.name.strip_prefix("otelcol_exporter_").and_then(|name| name.strip_prefix(what))
        else {
            continue;
        };
        // What was lost to the end is told as left behind.
        if one.key.attributes.iter().any(|(key, value)| *key == "error.type" && value == "shutdown") {
            continue;
        }
        let exporter = one.key.attributes.iter().find(|(key, _)| *key == "exporter");
        let counts = sums.entry(exporter.map(|(_, id)| id.clone()).unwrap_or_default()).or_default();
        match items {
            "_spans" => counts.spans += one.value,
            "_metric_points" => counts.points += one.value,
            "_log_records" => counts.records += one.value,
            _ => {}
        }
    }
    sums.retain(|_, counts| counts.any());
    sums
}

fn named(counts: &BTreeMap<String, Counts>, to: &str) -> String {
    let parts: Vec<String> = counts.iter().map(|(id, counts)| format!("{}{to}{id}", counts.words())).collect();
    parts.join(", ")
}

/// `stopped: 212 spans and 140 points sent, none left behind`, and the like.
pub(super) fn farewell(series: &[Series], drained: &Drained) -> String {
    let sent = by_exporter(series, "sent");
    let mut line = match sent.len() {
        0 => "stopped: nothing sent".to_owned(),
        1 => format!("stopped: {} sent", sent.values().next().copied().unwrap_or_default().words()),
        _ => format!("stopped: sent {}", named(&sent, " to ")),
    };
    let mut lost = by_exporter(series, "send_failed");
    for (id, counts) in by_exporter(series, "enqueue_failed") {
        let sum = lost.entry(id).or_default();
        sum.spans += counts.spans;
        sum.points += counts.points;
        sum.records += counts.records;
    }
    if !lost.is_empty() {
        line.push_str(&format!(", lost {}", named(&lost, " at ")));
    }
    let left: Vec<String> =
        drained.left.iter().map(|leftover| format!("{} at {}", leftover.items, leftover.component)).collect();
    if drained.stored_items > 0 {
        line.push_str(&format!(", {} kept on disk for the next start", drained.stored_items));
    }
    if left.is_empty() {
        line.push_str(", none left behind");
    } else {
        line.push_str(&format!(", {} left behind ({})", drained.left_items(), left.join(", ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Leftover;
    use crate::telemetry::Telemetry;

    #[test]
    fn says_what_became_of_all() {
        let telemetry = Telemetry::default();
        let to = |exporter| [("exporter", exporter)];
        let told = |drained: &Drained| farewell(&telemetry.snapshot(), drained);
        assert_eq!(told(&Drained::default()), "stopped: nothing sent, none left behind");
        telemetry.counter("otelcol_exporter_sent_spans", "", &to("otlp_grpc")).add(212);
        telemetry.counter("otelcol_exporter_sent_metric_points", "", &to("otlp_grpc")).add(140);
        telemetry.counter("otelcol_exporter_sent_spans", "", &to("idle"));
        assert_eq!(told(&Drained::default()), "stopped: 212 spans and 140 points sent, none left behind");
        telemetry.counter("otelcol_exporter_sent_spans", "", &to("debug")).add(1);
        telemetry.counter("otelcol_exporter_send_failed_spans", "", &to("otlp_grpc")).add(2);
        telemetry.counter("otelcol_exporter_enqueue_failed_spans", "", &to("otlp_grpc")).add(3);
        let at_the_end = [("exporter", "otlp_grpc"), ("error.type", "shutdown")];
        telemetry.counter("otelcol_exporter_send_failed_spans", "", &at_the_end).add(40);
        let left = vec![Leftover { component: "otlp_grpc".into(), items: 40 }];
        assert_eq!(
            told(&Drained { left, ..Drained::default() }),
            "stopped: sent 1 span to debug, 212 spans and 140 points to otlp_grpc, lost 5 spans at otlp_grpc, \
             40 left behind (40 at otlp_grpc)"
        );
    }
}
