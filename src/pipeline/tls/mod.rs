//! What TLS of clients and of servers has in common: PEM files, versions, configurations that are read again.
//!
//! Refuses to know: who talks to whom, and which keys of the YAML say so beyond those shared.

pub(super) mod pem;
mod reload;

use rustls::{SupportedProtocolVersion, version};

pub use self::reload::Reloaded;

/// The protocol versions from `min_version` to `max_version`; the error names the key.
pub(super) fn versions(
    min_version: &str,
    max_version: &str,
) -> Result<Vec<&'static SupportedProtocolVersion>, (&'static str, String)> {
    let number = |key, text: &str, absent| match text {
        "" => Ok(absent),
        "1.2" => Ok(12),
        "1.3" => Ok(13),
        other => Err((key, format!("`{other}` is not supported; use 1.2 or 1.3"))),
    };
    let (min, max) = (number("min_version", min_version, 12)?, number("max_version", max_version, 13)?);
    if min > max {
        return Err(("max_version", "is below min_version".to_owned()));
    }
    let all = [(12, &version::TLS12), (13, &version::TLS13)];
    Ok(all.into_iter().filter(|(at, _)| (min..=max).contains(at)).map(|(_, version)| version).collect())
}
