//! `resource`: changes the attributes of Resources.

use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Section};
use crate::pipeline::actions::{ActionSettings, Actions, check};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};

/// `resource`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "resource",
    aliases: &[],
    about: "Changes the attributes of Resources",
    stability: "beta",
    converts: &[(Signal::Traces, Signal::Traces), (Signal::Metrics, Signal::Metrics), (Signal::Logs, Signal::Logs)],
    needs_receiver: None,
    settings: Settings::of::<ResourceSettings>(),
    build,
};

/// Keys of `resource`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceSettings {
    /// Applied in order; at least one.
    pub attributes: Vec<ActionSettings>,
}

impl Section for ResourceSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.attributes.is_empty() {
            at.problem("attributes", "missing; at least one action is needed");
        }
        check(&self.attributes, "attributes", at);
    }
}

fn build(body: &Body, _: &BuildContext) -> Built<dyn Processor> {
    Ok(Box::new(Resource { actions: Actions::of(&body.decode::<ResourceSettings>()?.attributes) }))
}

struct Resource {
    actions: Actions,
}

impl Processor for Resource {
    fn process(&mut self, mut data: Data, out: &mut Outbox) {
        let apply = |resource: &mut Option<OtlpResource>| {
            self.actions.apply(&mut resource.get_or_insert_default().attributes);
        };
        match &mut data {
            Data::Traces(blocks) => blocks.iter_mut().for_each(|block| apply(&mut block.resource)),
            Data::Metrics(blocks) => blocks.iter_mut().for_each(|block| apply(&mut block.resource)),
            Data::Logs(blocks) => blocks.iter_mut().for_each(|block| apply(&mut block.resource)),
            Data::Sched(_) => {}
        }
        out.send(data);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

    use super::*;
    use crate::telemetry::Telemetry;

    #[test]
    fn a_block_without_a_resource_gets_one() {
        let yaml = "{attributes: [{key: deployment.environment.name, action: upsert, value: test}]}";
        let context = BuildContext::new("resource".into(), Telemetry::default(), "0");
        let mut processor = build(&Body::from_yaml("processors::resource", yaml).unwrap(), &context).unwrap();
        let scope = ScopeSpans { spans: vec![Span::default()], ..ScopeSpans::default() };
        let mut out = Outbox::default();
        let block = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
        processor.process(Data::Traces(vec![block]), &mut out);
        let Some(Data::Traces(blocks)) = out.drain().next() else { panic!("nothing came out") };
        assert_eq!(blocks[0].resource.as_ref().unwrap().attributes[0].key, "deployment.environment.name");
    }
}
