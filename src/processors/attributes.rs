//! `attributes`: changes the attributes of spans, metric points and log records.
//!
//! Refuses `include` and `exclude`: what is to be told apart is told apart by pipelines or `filter`.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Section};
use crate::pipeline::actions::{ActionSettings, Actions, check};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};

/// `attributes`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "attributes",
    aliases: &[],
    about: "Changes the attributes of spans, metric points and log records",
    stability: "beta",
    converts: &[(Signal::Traces, Signal::Traces), (Signal::Metrics, Signal::Metrics), (Signal::Logs, Signal::Logs)],
    needs_receiver: None,
    settings: Settings::of::<AttributesSettings>(),
    build,
};

/// Keys of `attributes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AttributesSettings {
    /// Applied in order; at least one.
    pub actions: Vec<ActionSettings>,
    /// Not supported.
    pub include: Option<serde_json::Value>,
    /// Not supported.
    pub exclude: Option<serde_json::Value>,
}

impl Section for AttributesSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.actions.is_empty() {
            at.problem("actions", "missing; at least one action is needed");
        }
        check(&self.actions, "actions", at);
        for (key, value) in [("include", &self.include), ("exclude", &self.exclude)] {
            if value.is_some() {
                at.problem(key, "is not supported; give what is meant a pipeline of its own, with a `filter`");
            }
        }
    }
}

fn build(body: &Body, _: &BuildContext) -> Built<dyn Processor> {
    Ok(Box::new(Attributes { actions: Actions::of(&body.decode::<AttributesSettings>()?.actions) }))
}

struct Attributes {
    actions: Actions,
}

impl Processor for Attributes {
    fn process(&mut self, mut data: Data, out: &mut Outbox) {
        let mut apply = |attributes: &mut Vec<KeyValue>| self.actions.apply(attributes);
        match &mut data {
            Data::Traces(resources) => {
                let scopes = resources.iter_mut().flat_map(|resource| &mut resource.scope_spans);
                scopes.flat_map(|scope| &mut scope.spans).for_each(|span| apply(&mut span.attributes));
            }
            Data::Logs(resources) => {
                let scopes = resources.iter_mut().flat_map(|resource| &mut resource.scope_logs);
                scopes.flat_map(|scope| &mut scope.log_records).for_each(|record| apply(&mut record.attributes));
            }
            Data::Metrics(resources) => each_point(resources, &mut apply),
            Data::Sched(_) => {}
        }
        out.send(data);
    }
}

fn each_point(resources: &mut [ResourceMetrics], apply: &mut impl FnMut(&mut Vec<KeyValue>)) {
    let scopes = resources.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
    for data in scopes.flat_map(|scope| &mut scope.metrics).filter_map(|metric| metric.data.as_mut()) {
        match data {
            metric::Data::Gauge(kind) => kind.data_points.iter_mut().for_each(|point| apply(&mut point.attributes)),
            metric::Data::Sum(kind) => kind.data_points.iter_mut().for_each(|point| apply(&mut point.attributes)),
            metric::Data::Histogram(kind) => kind.data_points.iter_mut().for_each(|point| apply(&mut point.attributes)),
            metric::Data::ExponentialHistogram(kind) => {
                kind.data_points.iter_mut().for_each(|point| apply(&mut point.attributes));
            }
            metric::Data::Summary(kind) => kind.data_points.iter_mut().for_each(|point| apply(&mut point.attributes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::{Histogram, HistogramDataPoint, Metric, ScopeMetrics};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

    use super::*;
    use crate::telemetry::Telemetry;

    fn run(data: Data) -> Data {
        let body =
            Body::from_yaml("processors::attributes", "{actions: [{key: a, action: insert, value: b}]}").unwrap();
        let context = BuildContext::new("attributes".into(), Telemetry::default(), "0");
        let mut out = Outbox::default();
        build(&body, &context).unwrap().process(data, &mut out);
        out.drain().next().unwrap()
    }

    #[test]
    fn spans_and_points_are_changed() {
        let scope = ScopeSpans { spans: vec![Span::default()], ..ScopeSpans::default() };
        let spans = Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }]);
        let Data::Traces(spans) = run(spans) else { panic!("not spans") };
        assert_eq!(spans[0].scope_spans[0].spans[0].attributes[0].key, "a");
        let points = vec![HistogramDataPoint::default()];
        let data = Some(metric::Data::Histogram(Histogram { data_points: points, ..Histogram::default() }));
        let scope = ScopeMetrics { metrics: vec![Metric { data, ..Metric::default() }], ..ScopeMetrics::default() };
        let metrics = Data::Metrics(vec![ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() }]);
        let Data::Metrics(metrics) = run(metrics) else { panic!("not metrics") };
        let Some(metric::Data::Histogram(histogram)) = &metrics[0].scope_metrics[0].metrics[0].data else {
            panic!("not a histogram")
        };
        assert_eq!(histogram.data_points[0].attributes[0].key, "a");
    }

    #[test]
    fn what_is_not_supported_is_told() {
        let body = Body::from_yaml("p", "{include: {match_type: strict}, actions: [{key: a, action: hash}]}").unwrap();
        let told = (FACTORY.settings.check)(&body).to_string();
        assert!(told.contains("p::include: is not supported"), "{told}");
        assert!(told.contains("p::actions::0::action: `hash` is not supported"), "{told}");
    }
}
