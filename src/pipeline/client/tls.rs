//! TLS of a client: the Collector's `tls` keys, and the rustls configuration they describe, read again
//! after `reload_interval` so that a renewed certificate needs no restart.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verifier::{Anyone, UnderName};
use crate::config::{Checker, Opaque, Period};
use crate::pipeline::tls::pem::{add_authorities, certificates, given, private_key, validate_once};
use crate::pipeline::tls::{Reloaded, versions};

/// How a connection is secured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// Plaintext, for an endpoint without a scheme.
    pub insecure: bool,
    /// TLS without checking who answers.
    pub insecure_skip_verify: bool,
    /// PEM file of the certificate authorities to trust; absent: those of the system.
    pub ca_file: String,
    /// The same, in place.
    pub ca_pem: Opaque,
    /// Trust the system's authorities besides those given.
    pub include_system_ca_certs_pool: bool,
    /// PEM file of the client's certificate (mutual TLS).
    pub cert_file: String,
    /// The same, in place.
    pub cert_pem: Opaque,
    /// PEM file of the client's key.
    pub key_file: String,
    /// The same, in place.
    pub key_pem: Opaque,
    /// Lowest version: `1.2` or `1.3`.
    pub min_version: String,
    /// Highest version; empty: the highest there is.
    pub max_version: String,
    /// The name that the certificate must be for, where it is not the endpoint's host.
    pub server_name_override: String,
    /// The files are read again at the first connection after this long; 0 for never.
    pub reload_interval: Period,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            insecure: false,
            insecure_skip_verify: false,
            ca_file: String::new(),
            ca_pem: Opaque::default(),
            include_system_ca_certs_pool: false,
            cert_file: String::new(),
            cert_pem: Opaque::default(),
            key_file: String::new(),
            key_pem: Opaque::default(),
            min_version: "1.2".to_owned(),
            max_version: String::new(),
            server_name_override: String::new(),
            reload_interval: Period::default(),
        }
    }
}

impl TlsSettings {
    /// Tells every mistake that shows without reading a file.
    pub fn validate(&self, at: &mut Checker<'_>) {
        let once = [
            (&self.ca_file, &self.ca_pem, "ca"),
            (&self.cert_file, &self.cert_pem, "cert"),
            (&self.key_file, &self.key_pem, "key"),
        ];
        validate_once(&once, at);
        if given(&self.cert_file, &self.cert_pem) && !given(&self.key_file, &self.key_pem) {
            at.problem("tls::cert_file", "needs key_file or key_pem beside it");
        }
        if given(&self.key_file, &self.key_pem) && !given(&self.cert_file, &self.cert_pem) {
            at.problem("tls::key_file", "needs cert_file or cert_pem beside it");
        }
        if let Err((key, message)) = versions(&self.min_version, &self.max_version) {
            at.problem(&format!("tls::{key}"), message);
        }
        if !self.server_name_override.is_empty() && ServerName::try_from(self.server_name_override.as_str()).is_err() {
            at.problem("tls::server_name_override", "is neither a host name nor an IP address");
        }
    }

    /// Reads the files and makes a configuration that offers these protocols (ALPN).
    pub fn load(&self, protocols: &[&str]) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = versions(&self.min_version, &self.max_version)
            .map_err(|(key, message)| format!("tls::{key}: {message}"))?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?;
        let builder = builder.dangerous().with_custom_certificate_verifier(self.verifier(&provider)?);
        let mut config = if given(&self.cert_file, &self.cert_pem) {
            let chain = certificates("tls::cert_file", &self.cert_file, &self.cert_pem)?;
            let key = private_key("tls::key_file", &self.key_file, &self.key_pem)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| format!("tls::cert_file: {error}"))?
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        if self.insecure_skip_verify {
            return Ok(Arc::new(Anyone(provider.clone())));
        }
        let roots = Arc::new(self.roots()?);
        let inner = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| format!("tls::ca_file: {error}"))?;
        if self.server_name_override.is_empty() {
            return Ok(inner);
        }
        let name = ServerName::try_from(self.server_name_override.clone())
            .map_err(|error| format!("tls::server_name_override: {error}"))?;
        Ok(Arc::new(UnderName { inner, name }))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let own = given(&self.ca_file, &self.ca_pem);
        if own {
            add_authorities(&mut roots, "tls::ca_file", &self.ca_file, &self.ca_pem)?;
        }
        if !own || self.include_system_ca_certs_pool {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if roots.is_empty() {
            return Err("no certificate authority is known on this system; set tls::ca_file".to_owned());
        }
        Ok(roots)
    }
}

/// A client's configuration that is read again when it is old. Clones share it.
#[derive(Clone)]
pub struct Tls {
    server_name: Option<String>,
    config: Reloaded<ClientConfig>,
}

impl Tls {
    /// Reads the files; what is wrong with them is told at the start, not at the first connection.
    pub fn load(settings: &TlsSettings, protocols: &'static [&'static str]) -> Result<Self, String> {
        let server_name = Some(settings.server_name_override.clone()).filter(|name| !name.is_empty());
        let settings = settings.clone();
        let config = Reloaded::new(settings.reload_interval.0, move || settings.load(protocols))?;
        Ok(Self { server_name, config })
    }

    /// The configuration for the next connection. Files that cannot be read leave the old one in use.
    pub fn current(&self) -> Arc<ClientConfig> {
        self.config.current()
    }

    /// The name to ask the server for, where it is not the endpoint's host.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }
}
