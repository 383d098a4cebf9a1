//! Where the kubelet or the API server is, and how to authenticate: from settings, service account, kubeconfig.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::config::Opaque;
use crate::pipeline::client::tls::TlsSettings;
use crate::processors::container::settings::{KubernetesSettings, PodAuth};

/// Where a pod finds its own service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The kubelet's authenticated port.
const KUBELET_PORT: u16 = 10250;
/// Variables in which manifests pass the node's address.
const NODE_ADDRESS: [&str; 3] = ["K8S_NODE_IP", "NODE_IP", "HOST_IP"];

/// The bearer token of every request.
#[derive(Debug, Clone)]
pub(super) enum Token {
    /// None.
    Absent,
    /// Read again for every request: tokens are rotated.
    File(PathBuf),
    /// As it stands in a kubeconfig.
    Text(Opaque),
}

/// How to reach a server.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// Without a trailing slash.
    pub(super) base_url: String,
    pub(super) tls: TlsSettings,
    pub(super) token: Token,
}

/// The agent's own environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Access {
    /// The kubelet of this node; `None` where nothing says that there is one.
    pub(super) fn kubelet(settings: &KubernetesSettings, node: Option<&str>, of: Variables<'_>) -> Option<Self> {
        let base_url = if settings.endpoint.is_empty() {
            let address = NODE_ADDRESS.iter().find_map(|name| of(name)).filter(|address| !address.is_empty());
            // without a service account this is no pod: nothing was said about a kubelet
            let address = address.or_else(|| node.map(str::to_owned))?;
            format!("https://{}:{KUBELET_PORT}", bracketed(&address))
        } else {
            settings.endpoint.trim_end_matches('/').to_owned()
        };
        Self::with_auth(base_url, settings, of).ok()
    }

    /// The API server: the settings' endpoint, the kubeconfig's, or the in-cluster address.
    pub(super) fn api(settings: &KubernetesSettings, of: Variables<'_>) -> Result<Self, String> {
        if settings.auth == PodAuth::Kubeconfig {
            return Self::with_auth(settings.endpoint.trim_end_matches('/').to_owned(), settings, of);
        }
        let base_url = if settings.endpoint.is_empty() {
            let host = of("KUBERNETES_SERVICE_HOST").ok_or("no API server is known: set kubernetes::endpoint")?;
            let port = of("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into());
            format!("https://{}:{port}", bracketed(&host))
        } else {
            settings.endpoint.trim_end_matches('/').to_owned()
        };
        Self::with_auth(base_url, settings, of)
    }

    fn with_auth(base_url: String, settings: &KubernetesSettings, of: Variables<'_>) -> Result<Self, String> {
        let mut access = Self {
            base_url,
            tls: TlsSettings {
                ca_file: settings.ca_file.clone(),
                insecure_skip_verify: settings.insecure_skip_verify,
                ..TlsSettings::default()
            },
            token: Token::Absent,
        };
        match settings.auth {
            PodAuth::None => {}
            PodAuth::TokenFile => access.token = Token::File(settings.token_file.clone().into()),
            PodAuth::ServiceAccount => {
                access.token = Token::File(Path::new(SERVICE_ACCOUNT).join("token"));
                let authority = Path::new(SERVICE_ACCOUNT).join("ca.crt");
                if access.tls.ca_file.is_empty() && authority.is_file() {
                    access.tls.ca_file = authority.display().to_string();
                }
            }
            PodAuth::Kubeconfig => {
                let home = || Some(Path::new(&of("HOME")?).join(".kube/config"));
                let path = of("KUBECONFIG").map(PathBuf::from).or_else(home);
                let path = path.ok_or("auth: kubeconfig, and neither KUBECONFIG nor HOME is set")?;
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|why| format!("cannot read the kubeconfig {}: {why}", path.display()))?;
                access.take_kubeconfig(&text).map_err(|why| format!("{}: {why}", path.display()))?;
            }
        }
        Ok(access)
    }

    /// The current context of a kubeconfig; what the settings say wins.
    fn take_kubeconfig(&mut self, text: &str) -> Result<(), String> {
        let config: Kubeconfig = serde_yaml::from_str(text).map_err(|why| why.to_string())?;
        let context = config.contexts.iter().find(|one| one.name == config.current_context);
        let context = &context.ok_or("its current-context is not among its contexts")?.context;
        let cluster = config.clusters.iter().find(|one| one.name == context.cluster);
        let cluster = &cluster.ok_or("the cluster of its current context is missing")?.cluster;
        if self.base_url.is_empty() {
            self.base_url = cluster.server.trim_end_matches('/').to_owned();
        }
        if self.tls.ca_file.is_empty() {
            self.tls.ca_file = cluster.certificate_authority.clone();
            self.tls.ca_pem = pem(&cluster.certificate_authority_data)?;
        }
        self.tls.insecure_skip_verify |= cluster.insecure_skip_tls_verify;
        let Some(user) = config.users.iter().find(|one| one.name == context.user) else { return Ok(()) };
        let user = &user.user;
        self.tls.cert_file = user.client_certificate.clone();
        self.tls.cert_pem = pem(&user.client_certificate_data)?;
        self.tls.key_file = user.client_key.clone();
        self.tls.key_pem = pem(&user.client_key_data)?;
        if !user.token.is_empty() {
            self.token = Token::Text(Opaque::new(user.token.clone()));
        } else if !user.token_file.is_empty() {
            self.token = Token::File(user.token_file.clone().into());
        }
        Ok(())
    }
}

/// An address as it stands in a URL.
fn bracketed(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') { format!("[{address}]") } else { address.to_owned() }
}

fn pem(base64: &str) -> Result<Opaque, String> {
    let bytes = STANDARD.decode(base64).map_err(|why| format!("data that is no base64: {why}"))?;
    String::from_utf8(bytes).map(Opaque::new).map_err(|_| "data that is no PEM".to_owned())
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: String,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_is_at_the_nodes_address() {
        let settings = KubernetesSettings::default();
        let of = |name: &str| (name == "K8S_NODE_IP").then(|| "fd00::1".to_owned());
        assert_eq!(Access::kubelet(&settings, None, &of).unwrap().base_url, "https://[fd00::1]:10250");
        let nowhere = |_: &str| None;
        assert_eq!(Access::kubelet(&settings, Some("n1"), &nowhere).unwrap().base_url, "https://n1:10250");
        assert!(Access::kubelet(&settings, None, &nowhere).is_none());
        assert!(Access::api(&settings, &nowhere).unwrap_err().contains("set kubernetes::endpoint"));
    }

    #[test]
    fn a_kubeconfigs_current_context_counts() {
        let text = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
                    clusters: [{name: k, cluster: {server: 'https://h:6443/', certificate-authority-data: YQ==}}]\n\
                    users: [{name: u, user: {token: t}}]\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, text).unwrap();
        let of = |name: &str| (name == "KUBECONFIG").then(|| path.display().to_string());
        let settings = KubernetesSettings { auth: PodAuth::Kubeconfig, ..KubernetesSettings::default() };
        let access = Access::api(&settings, &of).unwrap();
        assert_eq!((access.base_url.as_str(), access.tls.ca_pem.reveal()), ("https://h:6443", "a"));
        assert!(matches!(access.token, Token::Text(token) if token.reveal() == "t"));
        std::fs::write(&path, "current-context: d\n").unwrap();
        assert!(Access::api(&settings, &of).unwrap_err().contains("current-context"));
    }
}
