//! Pure: the keys of `container`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::config::{Checker, Period, Section};

/// Keys of `container`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContainerSettings {
    /// Runtimes to ask for names, by their usual sockets: `docker`, `containerd`, `crio`, `podman`; write
    /// `{containerd: {endpoint: unix:///run/k3s/containerd/containerd.sock}}` to move one. Each is optional.
    pub runtimes: Runtimes,
    /// Where names of pods come from.
    pub kubernetes: KubernetesSettings,
    /// The first export of a container waits at most this long for its names.
    pub name_wait: Period,
    /// Container and pod labels to attach, by exact key. A running container keeps the values that its series began with.
    pub labels: Vec<String>,
    /// The only variables that are read from the environment of other processes.
    pub environment: Vec<String>,
    /// Cgroups, processes and names that are kept, each.
    pub cache_size: usize,
    /// How long a cgroup or process that is gone is kept; in any case until its last record has been exported.
    pub cache_ttl_after_exit: Period,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            runtimes: Runtimes::default(),
            kubernetes: KubernetesSettings::default(),
            name_wait: Period::secs(2),
            labels: Vec::new(),
            environment: vec!["OTEL_SERVICE_NAME".into(), "OTEL_RESOURCE_ATTRIBUTES".into()],
            cache_size: 20_000,
            cache_ttl_after_exit: Period::secs(60),
        }
    }
}

impl Section for ContainerSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if !(100..=10_000_000).contains(&self.cache_size) {
            at.problem("cache_size", format!("is {}, must be 100 to 10000000", self.cache_size));
        }
        if self.name_wait > Period::secs(60) {
            at.problem("name_wait", format!("is {}, must be 0s to 60s", self.name_wait));
        }
        if self.cache_ttl_after_exit > Period::secs(3600) {
            at.problem("cache_ttl_after_exit", format!("is {}, must be 0s to 1h", self.cache_ttl_after_exit));
        }
        for name in &self.environment {
            if name.is_empty() || name.contains(['=', '\0', '*']) {
                at.problem("environment", format!("`{name}` is not the name of a variable; there are no wildcards"));
            }
        }
        for (runtime, endpoint) in &self.runtimes.0 {
            if let Some(endpoint) = endpoint
                && endpoint.strip_prefix("unix://").is_none_or(|path| !path.starts_with('/'))
            {
                let message = format!("endpoint `{endpoint}` must be a socket, such as unix:///run/{runtime}.sock");
                at.problem("runtimes", message);
            }
        }
        self.kubernetes.validate(at);
    }
}

/// Keys of `container::kubernetes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// Who is asked for pods; `auto`: the downward API in a sidecar, else the kubelet, else the API server.
    pub source: PodSource,
    /// The name of this node; empty: `K8S_NODE_NAME` of the agent's own environment.
    pub node: String,
    /// The kubelet (`https://<node IP>:10250`) or the API server; empty: the node's own address, or the in-cluster one.
    pub endpoint: String,
    /// How to authenticate.
    pub auth: PodAuth,
    /// A file with a bearer token, read again when it changes; for `auth: token_file`.
    pub token_file: String,
    /// A file with the authority that signed the server's certificate; empty: the service account's, or the kubeconfig's.
    pub ca_file: String,
    /// Take any certificate; kubelets often serve a self-signed one.
    pub insecure_skip_verify: bool,
}

impl KubernetesSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let endpoint = &self.endpoint;
        if !endpoint.is_empty() && !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            at.problem("kubernetes::endpoint", format!("`{endpoint}` must begin with https:// or http://"));
        }
        if self.auth == PodAuth::TokenFile && self.token_file.is_empty() {
            at.problem("kubernetes::token_file", "is required with auth: token_file");
        }
        if self.auth != PodAuth::TokenFile && !self.token_file.is_empty() {
            at.problem("kubernetes::token_file", "is only read with auth: token_file");
        }
    }
}

/// Who is asked for pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PodSource {
    /// The first that is there.
    #[default]
    Auto,
    /// This node's kubelet.
    Kubelet,
    /// The API server.
    Api,
    /// The environment and files of the agent's own pod.
    Downward,
    /// Nobody.
    None,
}

/// How to authenticate with the kubelet or the API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PodAuth {
    /// The token of the agent's own service account.
    #[default]
    ServiceAccount,
    /// A kubeconfig: `KUBECONFIG`, else `~/.kube/config`.
    Kubeconfig,
    /// The token in `token_file`.
    TokenFile,
    /// None: the read-only port.
    None,
}

/// A runtime that can be asked for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeName {
    /// Docker Engine's API.
    Docker,
    /// CRI of containerd.
    Containerd,
    /// CRI of CRI-O.
    Crio,
    /// podman's API, else its files.
    Podman,
}

impl RuntimeName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Docker, Self::Containerd, Self::Crio, Self::Podman];

    /// As in the YAML.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Podman => "podman",
        }
    }

    fn parse<E: de::Error>(word: &str) -> Result<Self, E> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == word).ok_or_else(|| {
            let near = Self::ALL
                .iter()
                .map(|runtime| runtime.name())
                .max_by(|one, other| strsim::jaro(one, word).total_cmp(&strsim::jaro(other, word)));
            let near = near.unwrap_or("docker");
            E::custom(format!(
                "runtimes: unknown runtime `{word}`, did you mean `{near}`? (docker, containerd, crio, podman)"
            ))
        })
    }
}

impl fmt::Display for RuntimeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Runtimes with the endpoint of those that were moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtimes(pub BTreeMap<RuntimeName, Option<String>>);

impl Default for Runtimes {
    fn default() -> Self {
        Self(RuntimeName::ALL.into_iter().map(|runtime| (runtime, None)).collect())
    }
}

/// What stands beside a runtime's name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Moved {
    endpoint: Option<String>,
}

impl Serialize for Runtimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(runtime, endpoint)| match endpoint {
            None => serde_json::json!(runtime),
            Some(endpoint) => serde_json::json!({ runtime.name(): { "endpoint": endpoint } }),
        }))
    }
}

impl<'de> Deserialize<'de> for Runtimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut runtimes = BTreeMap::new();
        match serde_yaml::Value::deserialize(deserializer)? {
            serde_yaml::Value::Sequence(items) => {
                for item in items {
                    match item {
                        serde_yaml::Value::String(word) => {
                            runtimes.insert(RuntimeName::parse(&word)?, None);
                        }
                        serde_yaml::Value::Mapping(map) => take_moved(map, &mut runtimes)?,
                        _ => return Err(de::Error::custom("runtimes: an entry is a name, or {name: {endpoint: ...}}")),
                    }
                }
            }
            serde_yaml::Value::Mapping(map) => take_moved(map, &mut runtimes)?,
            serde_yaml::Value::Null => {}
            _ => {
                return Err(de::Error::custom("runtimes: write a list of names, or a map of names to {endpoint: ...}"));
            }
        }
        Ok(Self(runtimes))
    }
}

fn take_moved<E: de::Error>(
    map: serde_yaml::Mapping,
    runtimes: &mut BTreeMap<RuntimeName, Option<String>>,
) -> Result<(), E> {
    for (key, value) in map {
        let runtime = RuntimeName::parse(key.as_str().unwrap_or_default())?;
        let moved: Moved = if value.is_null() {
            Moved::default()
        } else {
            serde_yaml::from_value(value).map_err(|why| E::custom(format!("runtimes::{runtime}: {why}")))?
        };
        runtimes.insert(runtime, moved.endpoint);
    }
    Ok(())
}

impl JsonSchema for Runtimes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Runtimes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = RuntimeName::ALL.iter().map(|runtime| runtime.name()).collect();
        let moved = json_schema!({
            "type": "object",
            "propertyNames": {"enum": names},
            "additionalProperties": {
                "type": ["object", "null"],
                "properties": {"endpoint": {"type": "string", "description": "Its socket, `unix:///...`"}},
                "additionalProperties": false,
            },
        });
        json_schema!({
            "anyOf": [{"type": "array", "items": {"anyOf": [{"enum": names}, moved]}}, moved],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Body;

    fn decode(yaml: &str) -> Result<ContainerSettings, String> {
        Body::from_yaml("processors::container", yaml).unwrap().decode().map_err(|why| why.to_string())
    }

    #[test]
    fn a_runtime_can_be_left_out_or_moved() {
        let settings = decode("runtimes: [docker, {containerd: {endpoint: unix:///run/k3s/c.sock}}]").unwrap();
        let expected = [(RuntimeName::Docker, None), (RuntimeName::Containerd, Some("unix:///run/k3s/c.sock".into()))];
        assert_eq!(settings.runtimes.0, BTreeMap::from(expected.clone()));
        let as_map = decode("runtimes: {docker: , containerd: {endpoint: unix:///run/k3s/c.sock}}").unwrap();
        assert_eq!(as_map.runtimes.0, BTreeMap::from(expected));
        let again: Runtimes = serde_json::from_value(serde_json::to_value(&settings.runtimes).unwrap()).unwrap();
        assert_eq!(again, settings.runtimes);
        assert_eq!(decode("runtimes: []").unwrap().runtimes.0.len(), 0);
        assert_eq!(decode("").unwrap(), ContainerSettings::default());
    }

    #[test]
    fn mistakes_are_told_with_the_remedy() {
        let all = [
            ("runtimes: [dokcer]", "did you mean `docker`?"),
            ("runtimes: {docker: {endpont: x}}", "did you mean `endpoint`"),
            ("runtimes: {docker: {endpoint: tcp://x}}", "must be a socket"),
            ("cache_size: 3", "processors::container::cache_size: is 3, must be 100 to 10000000"),
            ("name_wait: 2m", "must be 0s to 60s"),
            ("kubernetes: {auth: token_file}", "kubernetes::token_file: is required"),
            ("kubernetes: {source: kublet}", "kublet"),
            ("kubernetes: {endpoint: node:10250}", "must begin with https://"),
            ("environment: ['OTEL_*']", "no wildcards"),
            ("nam_wait: 2s", "nam_wait"),
        ];
        for (yaml, expected) in all {
            let problems = decode(yaml).unwrap_err();
            assert!(problems.contains(expected), "{yaml}: {problems}");
        }
    }
}
