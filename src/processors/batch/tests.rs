use std::time::Duration;

use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::*;
use crate::telemetry::Telemetry;

fn spans(block: &str, count: usize) -> ResourceSpans {
    let spans = (0..count).map(|at| Span { name: format!("{block}{at}"), ..Span::default() }).collect();
    ResourceSpans {
        schema_url: block.into(),
        scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    }
}

fn batch(yaml: &str) -> (Box<dyn Processor>, Telemetry) {
    let telemetry = Telemetry::default();
    let context = BuildContext::new("batch".into(), telemetry.clone(), "0");
    (build(&Body::from_yaml("processors::batch", yaml).unwrap(), &context).unwrap(), telemetry)
}

/// `block:spans` per Resource block, batches apart by `|`.
fn drawn(out: &mut Outbox) -> String {
    let batches: Vec<String> = out
        .drain()
        .map(|data| match data {
            Data::Traces(blocks) => blocks
                .iter()
                .map(|block| format!("{}{}", block.schema_url, block.scope_spans[0].spans.len()))
                .collect::<Vec<_>>()
                .join(" "),
            other => other.items().to_string(),
        })
        .collect();
    batches.join(" | ")
}

#[test]
fn goes_at_once_when_large_enough() {
    let (mut batch, telemetry) = batch("{send_batch_size: 5}");
    let mut out = Outbox::default();
    batch.process(Data::Traces(vec![spans("a", 3)]), &mut out);
    assert_eq!(drawn(&mut out), "");
    assert!(batch.next_tick().is_some());
    batch.process(Data::Traces(vec![spans("b", 3)]), &mut out);
    assert_eq!(drawn(&mut out), "a3 b3");
    assert!(batch.next_tick().is_none());
    assert_eq!(telemetry.sum("otelcol_processor_batch_batch_size_trigger_send"), 1);
}

#[test]
fn goes_after_the_timeout_and_on_flush() {
    let (mut batch, telemetry) = batch("{timeout: 1s}");
    let mut out = Outbox::default();
    batch.process(Data::Traces(vec![spans("a", 3)]), &mut out);
    let due = batch.next_tick().unwrap();
    batch.tick(due - Duration::from_millis(1), &mut out);
    assert_eq!(drawn(&mut out), "");
    batch.tick(due, &mut out);
    assert_eq!(drawn(&mut out), "a3");
    assert_eq!(telemetry.sum("otelcol_processor_batch_timeout_trigger_send"), 1);
    batch.process(Data::Traces(vec![spans("b", 1)]), &mut out);
    batch.flush(&mut out);
    assert_eq!(drawn(&mut out), "b1");
    batch.flush(&mut out);
    assert_eq!(drawn(&mut out), "");
}

#[test]
fn no_timeout_means_no_waiting() {
    let (mut batch, _) = batch("{timeout: 0s}");
    let mut out = Outbox::default();
    batch.process(Data::Traces(vec![spans("a", 3)]), &mut out);
    assert_eq!(drawn(&mut out), "a3");
}

#[test]
fn splits_between_blocks_first() {
    let (mut batch, _) = batch("{send_batch_size: 4, send_batch_max_size: 5}");
    let mut out = Outbox::default();
    batch.process(Data::Traces(vec![spans("a", 3), spans("b", 3), spans("c", 12)]), &mut out);
    batch.flush(&mut out);
    assert_eq!(drawn(&mut out), "a3 | b3 | c5 | c5 | c2");
}

#[test]
fn an_oversized_block_leads_with_its_head() {
    let (first, rest) = cut::cut(Data::Traces(vec![spans("a", 7)]), 5);
    let names = |data: &Data| match data {
        Data::Traces(blocks) => blocks[0].scope_spans[0].spans.iter().map(|span| span.name.clone()).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    assert_eq!(names(&first), ["a0", "a1", "a2", "a3", "a4"]);
    assert_eq!(names(&rest), ["a5", "a6"]);
}

#[test]
fn points_are_cut_inside_a_metric_without_loss() {
    let points = (0..7).map(|at| NumberDataPoint { time_unix_nano: at, ..NumberDataPoint::default() }).collect();
    let metric = Metric {
        name: "m".into(),
        data: Some(metric::Data::Gauge(Gauge { data_points: points })),
        ..Metric::default()
    };
    let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
    let mut rest = Data::Metrics(vec![ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() }]);
    let mut sizes = Vec::new();
    while rest.items() > 3 {
        let (first, tail) = cut::cut(rest, 3);
        sizes.push(first.items());
        rest = tail;
    }
    sizes.push(rest.items());
    assert_eq!(sizes, [3, 3, 1]);
}

#[test]
fn says_what_does_not_fit() {
    let told = |yaml: &str| (FACTORY.settings.check)(&Body::from_yaml("processors::batch", yaml).unwrap()).to_string();
    assert_eq!(
        told("{send_batch_max_size: 10}"),
        "processors::batch::send_batch_max_size: must be 0 or at least send_batch_size, which is 8192"
    );
    assert!(told("{metadata_keys: [tenant]}").contains("not supported"));
    assert_eq!(told("{}"), "");
}
