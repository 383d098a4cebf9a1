//! Pure: the registry as a page in Prometheus' text format.
//!
//! Names keep the historic `otelcol_*` form by default: dots become underscores, no `_total`, no unit.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::process::ProcessUse;
use super::{InstrumentKind, Series};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What names are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Naming {
    /// Append `_total` to counters.
    pub type_suffix: bool,
    /// Append the unit where Prometheus has a word for it.
    pub unit_suffix: bool,
}

/// Writes all series, the process' own use, and `target_info` with the Resource.
pub fn render(series: &[Series], process: &ProcessUse, resource: &BTreeMap<String, String>, naming: Naming) -> String {
    let mut page = Page { text: String::new(), family: String::new(), naming };
    for one in series {
        page.sample(one.key.name, one.kind, one.unit, &labels(&one.key.attributes), one.value);
    }
    let counter = InstrumentKind::Counter;
    page.sample("otelcol_process_uptime", counter, "s", "", process.uptime_seconds);
    if let Some(seconds) = process.cpu_seconds {
        page.sample("otelcol_process_cpu_seconds", counter, "s", "", seconds);
    }
    if let Some(bytes) = process.resident_bytes {
        page.sample("otelcol_process_memory_rss", InstrumentKind::Gauge, "By", "", bytes);
    }
    let resource: Vec<_> = resource.iter().collect();
    page.sample("target_info", InstrumentKind::Gauge, "", &labels(&resource), 1);
    page.text
}

struct Page {
    text: String,
    family: String,
    naming: Naming,
}

impl Page {
    fn sample(&mut self, name: &str, kind: InstrumentKind, unit: &str, labels: &str, value: impl std::fmt::Display) {
        let mut name = sanitized(name);
        if self.naming.unit_suffix
            && let Some(word) = unit_word(unit)
            && !name.ends_with(word)
        {
            name = format!("{name}_{word}");
        }
        let counter = kind == InstrumentKind::Counter;
        if self.naming.type_suffix && counter && !name.ends_with("_total") {
            name.push_str("_total");
        }
        // Writing to a String cannot fail.
        if name != self.family {
            let _ = writeln!(self.text, "# TYPE {name} {}", if counter { "counter" } else { "gauge" });
            self.family.clone_from(&name);
        }
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

fn unit_word(unit: &str) -> Option<&'static str> {
    match unit {
        "s" => Some("seconds"),
        "ms" => Some("milliseconds"),
        "By" => Some("bytes"),
        "1" => Some("ratio"),
        _ => None,
    }
}

/// `{a="1",b="2"}`, or nothing; in order of key.
fn labels<K: AsRef<str>, V: AsRef<str>>(attributes: &[(K, V)]) -> String {
    if attributes.is_empty() {
        return String::new();
    }
    let mut pairs: Vec<String> = attributes
        .iter()
        .map(|(key, value)| format!("{}=\"{}\"", sanitized(key.as_ref()), escaped(value.as_ref())))
        .collect();
    pairs.sort_unstable();
    format!("{{{}}}", pairs.join(","))
}

/// Only letters, digits and underscores, and no digit first.
fn sanitized(name: &str) -> String {
    let mut clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) {
        clean.insert(0, '_');
    }
    clean
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    fn page(naming: Naming) -> String {
        let telemetry = Telemetry::default();
        telemetry.counter("otelcol_exporter_sent_spans", "{span}", &[("exporter", "otlp/\"a\\b\n")]).add(7);
        telemetry.counter("otelcol_exporter_sent_spans", "{span}", &[("exporter", "debug")]).add(1);
        telemetry.gauge("linux.sched.bytes", "By", &[("otel.signal", "traces"), ("a", "b")]).set(3);
        let process = ProcessUse { uptime_seconds: 1.5, cpu_seconds: Some(0.25), resident_bytes: Some(1024) };
        let resource = BTreeMap::from([("service.name".to_owned(), "schedscope".to_owned())]);
        render(&telemetry.snapshot(), &process, &resource, naming)
    }

    #[test]
    fn keeps_the_historic_names_and_escapes_labels() {
        expect_test::expect![[r##"
            # TYPE linux_sched_bytes gauge
            linux_sched_bytes{a="b",otel_signal="traces"} 3
            # TYPE otelcol_exporter_sent_spans counter
            otelcol_exporter_sent_spans{exporter="debug"} 1
            otelcol_exporter_sent_spans{exporter="otlp/\"a\\b\n"} 7
            # TYPE otelcol_process_uptime counter
            otelcol_process_uptime 1.5
            # TYPE otelcol_process_cpu_seconds counter
            otelcol_process_cpu_seconds 0.25
            # TYPE otelcol_process_memory_rss gauge
            otelcol_process_memory_rss 1024
            # TYPE target_info gauge
            target_info{service_name="schedscope"} 1
        "##]]
        .assert_eq(&page(Naming::default()));
    }

    #[test]
    fn suffixes_where_they_are_wanted() {
        let page = page(Naming { type_suffix: true, unit_suffix: true });
        assert!(page.contains("otelcol_exporter_sent_spans_total{exporter=\"debug\"} 1\n"), "{page}");
        assert!(page.contains("otelcol_process_cpu_seconds_total 0.25\n"), "{page}");
        assert!(page.contains("otelcol_process_memory_rss_bytes 1024\n"), "{page}");
    }
}
