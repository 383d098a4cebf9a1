//! `resource_detection`: adds to each Resource what this host and this process' environment say.
//!
//! For data that applications of this host send through `otlp`; scheduling data has its own Resources.
//! Detectors: `env`, `system`, of `k8s_api` what the pod's own environment says, of `docker` what the host's files say.
//! Nobody is asked: detectors that would call a cloud are refused, not ignored.

mod detect;

use std::path::Path;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Period, Problem, Problems, Section};
use crate::pipeline::factory::Built;
use crate::pipeline::otlp::attribute;
use crate::pipeline::{BuildContext, Data, Outbox, Processor, ProcessorFactory, Settings, Signal};

/// `resource_detection`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "resource_detection",
    aliases: &["resourcedetection"],
    about: "Adds what this host says of itself to each Resource",
    stability: "alpha",
    converts: &[(Signal::Traces, Signal::Traces), (Signal::Metrics, Signal::Metrics), (Signal::Logs, Signal::Logs)],
    needs_receiver: None,
    settings: Settings::of::<DetectionSettings>(),
    build,
};

/// Keys of `resource_detection`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DetectionSettings {
    /// `env`, `system`, `docker` and `k8s_api` (older spelling `k8snode`), in order; the first to name an attribute wins.
    /// `docker` gives `host.name` and `os.type` as its daemon would, from the host's files: it needs the host's pids.
    pub detectors: Vec<String>,
    /// Accepted for the Collector's sake: nothing here waits.
    pub timeout: Period,
    /// Whether what is detected wins over what the data says already.
    #[serde(rename = "override")]
    pub override_existing: bool,
    /// Keys of the `system` detector.
    pub system: SystemSettings,
    /// Keys of the `k8s_api` detector.
    pub k8s_api: KubernetesSettings,
}

impl Default for DetectionSettings {
    fn default() -> Self {
        Self {
            detectors: vec!["env".into()],
            timeout: Period::secs(5),
            override_existing: true,
            system: SystemSettings::default(),
            k8s_api: KubernetesSettings::default(),
        }
    }
}

/// Keys of the `system` detector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SystemSettings {
    /// Where `host.name` comes from; only `os` is supported.
    pub hostname_sources: Vec<String>,
    /// Which attributes are added.
    pub resource_attributes: SystemAttributes,
}

impl Default for SystemSettings {
    fn default() -> Self {
        Self { hostname_sources: vec!["os".into()], resource_attributes: SystemAttributes::default() }
    }
}

/// Attributes of the `system` detector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SystemAttributes {
    /// The host's name.
    #[serde(rename = "host.name")]
    pub host_name: Toggle,
    /// The machine id.
    #[serde(rename = "host.id")]
    pub host_id: Toggle,
    /// The CPU architecture.
    #[serde(rename = "host.arch")]
    pub host_arch: Toggle,
    /// `linux`.
    #[serde(rename = "os.type")]
    pub os_type: Toggle,
}

impl Default for SystemAttributes {
    fn default() -> Self {
        let (on, off) = (Toggle { enabled: true }, Toggle { enabled: false });
        Self { host_name: on, host_id: off, host_arch: off, os_type: on }
    }
}

/// Keys of the `k8s_api` detector, which reads the environment and asks no API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The variable that holds the node's name, by the downward API (`fieldPath: spec.nodeName`).
    pub node_from_env_var: String,
    /// Which attributes are added.
    pub resource_attributes: KubernetesAttributes,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self { node_from_env_var: "K8S_NODE_NAME".into(), resource_attributes: KubernetesAttributes::default() }
    }
}

/// Attributes of the `k8s_api` detector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesAttributes {
    /// The node's name.
    #[serde(rename = "k8s.node.name")]
    pub node_name: Toggle,
}

impl Default for KubernetesAttributes {
    fn default() -> Self {
        Self { node_name: Toggle { enabled: true } }
    }
}

/// Whether an attribute is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Toggle {
    /// It is.
    pub enabled: bool,
}

impl Section for DetectionSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.detectors.is_empty() {
            at.problem("detectors", "missing; env, system, docker, k8s_api or several of them");
        }
        for (index, detector) in self.detectors.iter().enumerate() {
            if !["env", "system", "docker", "k8s_api", "k8snode"].contains(&detector.as_str()) {
                at.problem(
                    &format!("detectors::{index}"),
                    format!("`{detector}` is not supported; there are env, system, docker and k8s_api"),
                );
            }
        }
        for (index, source) in self.system.hostname_sources.iter().enumerate() {
            if source != "os" {
                at.problem(
                    &format!("system::hostname_sources::{index}"),
                    format!("`{source}` is not supported; there is os"),
                );
            }
        }
    }
}

fn build(body: &Body, _: &BuildContext) -> Built<dyn Processor> {
    let settings: DetectionSettings = body.decode()?;
    let mut detected: Vec<(String, String)> = Vec::new();
    let failed = |key: &str| {
        let path = format!("{}{key}", body.path);
        move |message| Problems(vec![Problem { position: None, path, message }])
    };
    for detector in &settings.detectors {
        let found = match detector.as_str() {
            "env" => detect::from_variable(&std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default())
                .map_err(failed(""))?,
            "system" => detect::from_system(&settings.system.resource_attributes),
            "docker" => detect::from_docker_host(Path::new("/proc")).map_err(failed("::detectors"))?,
            _ => detect::from_pod(&settings.k8s_api, |name| std::env::var(name).ok())
                .map_err(failed("::k8s_api::node_from_env_var"))?,
        };
        for (key, value) in found {
            if !detected.iter().any(|(known, _)| *known == key) {
                detected.push((key, value));
            }
        }
    }
    Ok(Box::new(ResourceDetection { detected, override_existing: settings.override_existing }))
}

struct ResourceDetection {
    detected: Vec<(String, String)>,
    override_existing: bool,
}

impl ResourceDetection {
    fn apply(&self, resource: &mut Option<OtlpResource>) {
        let attributes: &mut Vec<KeyValue> = &mut resource.get_or_insert_default().attributes;
        for (key, value) in &self.detected {
            let new = attribute(key.as_str(), value.as_str());
            match attributes.iter_mut().find(|one| one.key == *key) {
                Some(there) if self.override_existing => *there = new,
                Some(_) => {}
                None => attributes.push(new),
            }
        }
    }
}

impl Processor for ResourceDetection {
    fn process(&mut self, mut data: Data, out: &mut Outbox) {
        match &mut data {
            Data::Traces(blocks) => blocks.iter_mut().for_each(|block| self.apply(&mut block.resource)),
            Data::Metrics(blocks) => blocks.iter_mut().for_each(|block| self.apply(&mut block.resource)),
            Data::Logs(blocks) => blocks.iter_mut().for_each(|block| self.apply(&mut block.resource)),
            Data::Sched(_) => {}
        }
        out.send(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_unless_overridden() {
        for (override_existing, expected) in [(true, "new"), (false, "old")] {
            let detection = ResourceDetection {
                detected: vec![("host.name".into(), "new".into()), ("os.type".into(), "linux".into())],
                override_existing,
            };
            let mut resource =
                Some(OtlpResource { attributes: vec![attribute("host.name", "old")], ..Default::default() });
            detection.apply(&mut resource);
            let attributes = resource.unwrap().attributes;
            assert_eq!(attributes, [attribute("host.name", expected), attribute("os.type", "linux")]);
        }
    }

    #[test]
    fn other_detectors_are_refused() {
        let body = Body::from_yaml("p", "{detectors: [env, ec2], system: {hostname_sources: [dns]}}").unwrap();
        let told = (FACTORY.settings.check)(&body).to_string();
        assert!(told.contains("`ec2` is not supported"), "{told}");
        assert!(told.contains("`dns` is not supported"), "{told}");
    }

    #[test]
    fn the_system_detector_knows_this_host() {
        let body = Body::from_yaml("p", "{detectors: [system]}").unwrap();
        let settings: DetectionSettings = body.decode().unwrap();
        let found = detect::from_system(&settings.system.resource_attributes);
        assert_eq!(found.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["host.name", "os.type"]);
    }
}
