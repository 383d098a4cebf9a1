//! Certificates and keys from a PEM file or from the config itself. Every error begins with its key.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{Checker, Opaque};

/// Whether either is there.
pub(in crate::pipeline) fn given(file: &str, pem: &Opaque) -> bool {
    !file.is_empty() || !pem.reveal().is_empty()
}

/// Tells what is given twice: `keys` are the file, the text, and their key without its ending.
pub(in crate::pipeline) fn validate_once(keys: &[(&String, &Opaque, &str)], at: &mut Checker<'_>) {
    for (file, pem, key) in keys {
        if !file.is_empty() && !pem.reveal().is_empty() {
            at.problem(&format!("tls::{key}_pem"), format!("is given beside {key}_file; keep one of them"));
        }
    }
}

fn read(key: &str, file: &str, pem: &Opaque) -> Result<Vec<u8>, String> {
    if file.is_empty() {
        return Ok(pem.reveal().as_bytes().to_vec());
    }
    std::fs::read(Path::new(file)).map_err(|error| format!("{key}: cannot read {file}: {error}"))
}

/// All certificates of a chain or of a set of authorities.
pub(in crate::pipeline) fn certificates(
    key: &str,
    file: &str,
    pem: &Opaque,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(key, file, pem)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!("{key}: holds no certificate in PEM form")),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("{key}: {error}")),
    }
}

/// The first private key.
pub(in crate::pipeline) fn private_key(key: &str, file: &str, pem: &Opaque) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read(key, file, pem)?).map_err(|error| format!("{key}: {error}"))
}

/// Adds the authorities of a file to a store.
pub(in crate::pipeline) fn add_authorities(
    roots: &mut RootCertStore,
    key: &str,
    file: &str,
    pem: &Opaque,
) -> Result<(), String> {
    for authority in certificates(key, file, pem)? {
        roots.add(authority).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(())
}
