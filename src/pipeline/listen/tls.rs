//! TLS of a server: the Collector's `tls` keys of receivers, and the rustls configuration they describe.

use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Checker, Opaque, Period};
use crate::pipeline::tls::pem::{add_authorities, certificates, given, private_key, validate_once};
use crate::pipeline::tls::{Reloaded, versions};

/// How a server shows who it is, and whom it lets in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTlsSettings {
    /// PEM file of the server's certificate and its chain.
    pub cert_file: String,
    /// The same, in place.
    pub cert_pem: Opaque,
    /// PEM file of the server's key.
    pub key_file: String,
    /// The same, in place.
    pub key_pem: Opaque,
    /// PEM file of the authorities that clients' certificates must be from (mutual TLS); empty: none is asked for.
    pub client_ca_file: String,
    /// Lowest version: `1.2` or `1.3`.
    pub min_version: String,
    /// Highest version; empty: the highest there is.
    pub max_version: String,
    /// All these files are read again at the first connection after this long; 0 for never.
    pub reload_interval: Period,
}

impl Default for ServerTlsSettings {
    fn default() -> Self {
        Self {
            cert_file: String::new(),
            cert_pem: Opaque::default(),
            key_file: String::new(),
            key_pem: Opaque::default(),
            client_ca_file: String::new(),
            min_version: "1.2".to_owned(),
            max_version: String::new(),
            reload_interval: Period::default(),
        }
    }
}

/// A server's configuration that is read again when it is old.
pub type ServerTls = Reloaded<ServerConfig>;

impl ServerTlsSettings {
    /// Tells every mistake that shows without reading a file, at keys below `prefix`.
    pub fn validate(&self, prefix: &str, at: &mut Checker<'_>) {
        at.below(prefix, |at| {
            let once = [(&self.cert_file, &self.cert_pem, "cert"), (&self.key_file, &self.key_pem, "key")];
            validate_once(&once, at);
            if !given(&self.cert_file, &self.cert_pem) {
                at.problem("tls::cert_file", "is missing: a server must show a certificate; or leave `tls` out");
            }
            if !given(&self.key_file, &self.key_pem) {
                at.problem("tls::key_file", "is missing: the key of the certificate");
            }
            if let Err((key, message)) = versions(&self.min_version, &self.max_version) {
                at.problem(&format!("tls::{key}"), message);
            }
        });
    }

    /// Reads the files; what is wrong with them is told with the key.
    ///
    /// # Errors
    /// A file cannot be read or does not fit.
    pub fn load(&self, protocols: &'static [&'static str]) -> Result<ServerTls, String> {
        let settings = self.clone();
        Reloaded::new(self.reload_interval.0, move || settings.configuration(protocols))
    }

    fn configuration(&self, protocols: &[&str]) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = versions(&self.min_version, &self.max_version)
            .map_err(|(key, message)| format!("tls::{key}: {message}"))?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?;
        let builder = if self.client_ca_file.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            add_authorities(&mut roots, "tls::client_ca_file", &self.client_ca_file, &Opaque::default())?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| format!("tls::client_ca_file: {error}"))?)
        };
        let chain = certificates("tls::cert_file", &self.cert_file, &self.cert_pem)?;
        let key = private_key("tls::key_file", &self.key_file, &self.key_pem)?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| format!("tls::cert_file: {error}"))?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }
}
