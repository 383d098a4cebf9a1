//! Delivery over real sockets: small loopback servers that misbehave, and counters that must add up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what was still running")]
#![allow(unreachable_pub, reason = "modules of one test binary; nothing outside can reach them anyway")]

#[path = "delivery/credentials.rs"]
mod credentials;
#[path = "delivery/endpoint.rs"]
mod endpoint;
#[path = "delivery/grpc.rs"]
mod grpc;
#[path = "delivery/http.rs"]
mod http_faults;
#[path = "delivery/raw.rs"]
mod raw;
#[path = "delivery/secured.rs"]
mod secured;
#[path = "delivery/secured_receiver.rs"]
mod secured_receiver;
#[path = "delivery/sender.rs"]
mod sender;
