use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use super::*;

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn resource(name: &str) -> Option<Resource> {
    Some(Resource { attributes: vec![text("service.name", name)], ..Resource::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "schedscope".into(), ..InstrumentationScope::default() })
}

fn span(trace: u8, id: u32, root: bool, bytes: usize) -> Span {
    Span {
        trace_id: vec![trace; 16],
        span_id: id.to_be_bytes().repeat(2),
        parent_span_id: if root { Vec::new() } else { vec![1; 8] },
        name: "x".repeat(bytes),
        ..Span::default()
    }
}

fn request(resources: Vec<(&str, Vec<Span>)>) -> Data {
    let of = |(name, spans)| ResourceSpans {
        resource: resource(name),
        scope_spans: vec![ScopeSpans { scope: scope(), spans, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    };
    Data::Traces(resources.into_iter().map(of).collect())
}

/// Resource name, trace and id of every span.
fn flat(data: &Data) -> Vec<(String, u8, Vec<u8>)> {
    let Data::Traces(resources) = data else { panic!("traces") };
    let mut all = Vec::new();
    for resource in resources {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let Some(any_value::Value::StringValue(name)) = &attributes[0].value.as_ref().unwrap().value else { panic!() };
        for scope in &resource.scope_spans {
            assert_eq!(scope.scope.as_ref().unwrap().name, "schedscope");
            all.extend(scope.spans.iter().map(|span| (name.clone(), span.trace_id[0], span.span_id.clone())));
        }
    }
    all
}

#[test]
fn every_part_fits_and_every_span_is_in_one() {
    let spans = |from: u32| (from..from + 30_000).map(|id| span((id % 251) as u8, id, false, 180)).collect();
    let data = request(vec![("a", spans(0)), ("b", spans(30_000))]);
    let mut before = flat(&data);
    let split = split(data, 4_194_304, Sizer::Bytes);
    assert!(split.parts.len() >= 3);
    for part in &split.parts {
        let bytes = size::encoded_bytes(part);
        assert!(bytes <= 4_194_304, "{bytes}");
    }
    let mut after: Vec<_> = split.parts.iter().flat_map(flat).collect();
    before.sort();
    after.sort();
    assert!(before == after && split.oversize_items == 0);
}

#[test]
fn a_trace_stays_whole_while_it_fits() {
    let data = request(vec![
        ("container", (0..4).map(|trace| span(trace, u32::from(trace), true, 100)).collect()),
        ("process", (0..16).map(|id| span((id % 4) as u8, 100 + id, false, 100)).collect()),
    ]);
    let parts = split(data, 1_400, Sizer::Bytes).parts;
    assert_eq!(parts.len(), 4, "{:?}", parts.iter().map(size::encoded_bytes).collect::<Vec<_>>());
    for part in &parts {
        let spans = flat(part);
        assert_eq!(spans.len(), 5);
        assert!(spans.iter().all(|(_, trace, _)| *trace == spans[0].1));
        assert_eq!(spans[0].0, "container");
    }
}

#[test]
fn a_trace_that_must_be_cut_has_its_root_in_the_first_part() {
    let mut spans: Vec<_> = (0..20).map(|id| span(7, id, false, 100)).collect();
    spans.push(span(7, 999, true, 100));
    let parts = split(request(vec![("a", spans)]), 1_000, Sizer::Bytes).parts;
    assert!(parts.len() > 2);
    assert!(flat(&parts[0]).iter().any(|(_, _, id)| *id == 999u32.to_be_bytes().repeat(2)));
}

#[test]
fn an_item_over_the_limit_costs_itself_only() {
    let spans = vec![span(1, 1, false, 10), span(1, 2, false, 5_000), span(1, 3, false, 10)];
    let split = split(request(vec![("a", spans)]), 1_000, Sizer::Bytes);
    assert_eq!(split.oversize_items, 1);
    assert_eq!(split.parts.iter().map(Data::items).sum::<usize>(), 2);
}

#[test]
fn points_keep_metric_resource_and_scope() {
    let point = |number: i64| NumberDataPoint {
        attributes: vec![text("linux.sched.state", "running")],
        time_unix_nano: 1,
        value: Some(number_data_point::Value::AsInt(number)),
        ..NumberDataPoint::default()
    };
    let sum = Sum { data_points: (0..1000).map(point).collect(), aggregation_temporality: 2, is_monotonic: true };
    let metric = Metric {
        name: "linux.sched.time".into(),
        unit: "s".into(),
        data: Some(metric::Data::Sum(sum)),
        ..Metric::default()
    };
    let scope = ScopeMetrics { scope: scope(), metrics: vec![metric], ..ScopeMetrics::default() };
    let data = Data::Metrics(vec![ResourceMetrics {
        resource: resource("a"),
        scope_metrics: vec![scope],
        ..ResourceMetrics::default()
    }]);
    let parts = split(data.clone(), 4_096, Sizer::Bytes).parts;
    let mut values = Vec::new();
    for part in &parts {
        assert!(size::encoded_bytes(part) <= 4_096);
        let Data::Metrics(resources) = part else { panic!() };
        let metric = &resources[0].scope_metrics[0].metrics[0];
        assert!(resources[0].resource == resource("a") && metric.name == "linux.sched.time" && metric.unit == "s");
        let Some(metric::Data::Sum(sum)) = &metric.data else { panic!() };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        values.extend(sum.data_points.iter().map(|point| point.value));
    }
    assert_eq!(values, (0..1000).map(|number| Some(number_data_point::Value::AsInt(number))).collect::<Vec<_>>());
    assert_eq!(split(data, 300, Sizer::Items).parts.iter().map(Data::items).collect::<Vec<_>>(), [300, 300, 300, 100]);
}

#[test]
fn halves_are_halves_and_one_item_is_none() {
    let (first, second) = halve(request(vec![("a", (0..5).map(|id| span(1, id, false, 1)).collect())])).unwrap();
    assert_eq!((first.items(), second.items()), (2, 3));
    assert_eq!(halve(request(vec![("a", vec![span(1, 1, true, 1)])])).unwrap_err().items(), 1);
}

proptest::proptest! {
    #[test]
    fn no_part_is_over_the_limit(sizes in proptest::collection::vec((0u8..4, 0usize..300, 0usize..3), 1..60), max in 150u64..2_000) {
        let mut resources = vec![("a", Vec::new()), ("b", Vec::new()), ("c", Vec::new())];
        for (at, (trace, bytes, resource)) in sizes.iter().enumerate() {
            resources[*resource].1.push(span(*trace, at as u32, at % 7 == 0, *bytes));
        }
        let split = split(request(resources), max, Sizer::Bytes);
        for part in &split.parts {
            proptest::prop_assert!(size::encoded_bytes(part) <= max);
        }
        let items: usize = split.parts.iter().map(Data::items).sum();
        proptest::prop_assert_eq!(items as u64 + split.oversize_items, sizes.len() as u64);
    }
}
