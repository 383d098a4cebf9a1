//! The agent against real parts: podman containers, an OpenTelemetry Collector, a Jaeger.
//!
//! `make test` builds the parts and runs this; `cargo test --test real -- NAME` runs one of them. A test says
//! what it needs; where this machine lacks it, the test is listed as `not run`, and with CI=true that fails.

fn main() {}
