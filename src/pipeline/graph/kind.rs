//! Pure: what the four kinds of component types have in common.

use crate::pipeline::factory::{ExporterFactory, ExtensionFactory, ProcessorFactory, ReceiverFactory, Settings};

/// A component type of any kind.
pub trait ComponentType: 'static {
    /// The kind's word in messages, such as `receiver`.
    const KIND: &'static str;
    /// The section of the config, such as `receivers`.
    const SECTION: &'static str;
    /// Types that other builds have or had, and what to use here.
    const REPLACED: &'static [(&'static str, &'static str)];

    /// The word in the YAML.
    fn name(&self) -> &'static str;
    /// Older spellings.
    fn aliases(&self) -> &'static [&'static str];
    /// What it is for.
    fn about(&self) -> &'static str;
    /// `alpha`, `beta`, `stable`.
    fn stability(&self) -> &'static str;
    /// Its settings.
    fn settings(&self) -> &Settings;
}

macro_rules! component_type {
    ($factory:ty, $kind:literal, $section:literal, $replaced:expr) => {
        impl ComponentType for $factory {
            const KIND: &'static str = $kind;
            const SECTION: &'static str = $section;
            const REPLACED: &'static [(&'static str, &'static str)] = $replaced;

            fn name(&self) -> &'static str {
                self.name
            }
            fn aliases(&self) -> &'static [&'static str] {
                self.aliases
            }
            fn about(&self) -> &'static str {
                self.about
            }
            fn stability(&self) -> &'static str {
                self.stability
            }
            fn settings(&self) -> &Settings {
                &self.settings
            }
        }
    };
}

component_type!(
    ReceiverFactory,
    "receiver",
    "receivers",
    &[
        ("profiling", "`sched` is the receiver of this build"),
        ("jaeger", "send OTLP to `otlp`"),
        ("zipkin", "send OTLP to `otlp`"),
        ("opencensus", "send OTLP to `otlp`"),
        ("hostmetrics", "run it in a Collector; `sched` gives scheduling only"),
    ]
);
component_type!(
    ProcessorFactory,
    "processor",
    "processors",
    &[
        ("k8s_attributes", "`container` adds the names of pods and containers"),
        ("k8sattributes", "`container` adds the names of pods and containers"),
        ("transform", "run it in a Collector; `attributes`, `resource` and `filter` are here"),
        ("probabilistic_sampler", "`sched` selects by its `select` keys; sample further in a Collector"),
        ("tail_sampling", "run it in a Collector"),
        ("memory_ballast", "`memory_limiter`"),
    ]
);
component_type!(
    ExporterFactory,
    "exporter",
    "exporters",
    &[
        ("logging", "it became `debug`"),
        ("jaeger", "Jaeger takes OTLP: `otlp_grpc`"),
        ("jaeger_thrift", "Jaeger takes OTLP: `otlp_grpc`"),
        ("zipkin", "`otlp_grpc` to a Collector that has it"),
        ("opencensus", "`otlp_grpc`"),
        ("prometheus", "`otlp_http` (Prometheus takes OTLP) or `otlp_grpc` to a Collector that has it"),
        ("prometheusremotewrite", "`otlp_http` (Prometheus takes OTLP) or `otlp_grpc` to a Collector that has it"),
    ]
);
component_type!(
    ExtensionFactory,
    "extension",
    "extensions",
    &[
        ("memory_ballast", "the processor `memory_limiter`"),
        ("health_check_v2", "`health_check`"),
        ("healthcheckv2", "`health_check`"),
        ("zpages", "it is not in this build; leave it out"),
        ("pprof", "it is not in this build; leave it out"),
    ]
);
