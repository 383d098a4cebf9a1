//! What every client of ours needs beside its protocol: TLS settings, headers, the request's bytes, errors
//! told in full. Meets the exporters here because components do not import each other.

mod backward;
pub mod deflate;
pub mod failure;
pub mod headers;
mod metrics;
pub mod payload;
mod resource;
pub mod secret;
pub mod signing;
pub mod tls;
mod traces;
mod verifier;

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest answer that is read, compressed or not: 4 MiB, as the OTLP specification has it.
pub const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The `User-Agent` of this build, such as `schedscope/0.1.0 (linux/x86_64)`.
pub fn user_agent(version: &str) -> String {
    format!("schedscope/{version} ({}/{})", std::env::consts::OS, std::env::consts::ARCH)
}

/// A loopback address, or the name for one: no proxy leads there, and what is sent to it is seen by nobody else.
pub fn is_this_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Which extension signs the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Id of an authentication extension, such as `bearertokenauth`.
    pub authenticator: String,
}
