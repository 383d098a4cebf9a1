//! Under an outage the agent's memory stays in the bound that its config gives, what is over it is refused to the
//! sender, and once the Collector is back it takes again.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::json;

use crate::needs::part;
use crate::program::{Program, eventually, free_address};
use crate::support::agent::Agent;
use crate::support::{folder, http};

const LIMIT_MIB: f64 = 200.0;
const SPANS: usize = 1000;
/// More requests than find room.
const REQUESTS_MAX: usize = 3000;

pub(crate) fn stays_in_its_bound_and_takes_again() -> Result<()> {
    let folder = folder()?;
    let (inlet, outlet) = (free_address()?, free_address()?);
    let mut agent = Agent::start(folder.path(), &config(inlet, outlet))?;
    let body = spans();
    let (mut taken, mut peak) = (0, 0_f64);
    for _ in 0..REQUESTS_MAX {
        let outcome = http::ask(inlet, "POST", "/v1/traces", &body);
        peak = peak.max(agent.resident_mib()?);
        match outcome {
            Ok(_) => taken += 1,
            Err(error) if error.to_string().contains(" 503 ") => break,
            Err(error) => return Err(error),
        }
    }
    ensure!(taken > 10 && taken < REQUESTS_MAX, "{taken} of {REQUESTS_MAX} requests were taken");
    // a sender that goes on all the same changes nothing
    for _ in 0..200 {
        let _refused = http::ask(inlet, "POST", "/v1/traces", &body);
        peak = peak.max(agent.resident_mib()?);
    }
    let mut collector = receiving(outlet, folder.path())?;
    let again = eventually("room", Duration::from_secs(60), || {
        peak = peak.max(agent.resident_mib()?);
        match http::ask(inlet, "POST", "/v1/traces", &body) {
            Ok(_) => Ok(Some(agent.resident_mib()?)),
            Err(error) if error.to_string().contains(" 503 ") => Ok(None),
            Err(error) => bail!(error),
        }
    });
    let again = again.with_context(|| agent.output())?;
    println!(
        "  {taken} requests of {SPANS} spans taken; at most {peak:.0} MiB of {LIMIT_MIB}, {again:.0} when it took again"
    );
    ensure!(peak < LIMIT_MIB * 1.1, "{peak} MiB of {LIMIT_MIB}");
    agent.stop()?;
    collector.stop(Signal::TERM)?;
    Ok(())
}

fn config(inlet: SocketAddr, outlet: SocketAddr) -> String {
    format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{inlet}'}}}}}}}}
processors: {{memory_limiter: {{check_interval: 100ms, limit_mib: {LIMIT_MIB}}}}}
exporters:
  otlp_grpc:
    endpoint: '{outlet}'
    tls: {{insecure: true}}
    sending_queue: {{queue_size: 100000}}
    retry_on_failure: {{max_elapsed_time: 0s, max_interval: 1s}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], processors: [memory_limiter], exporters: [otlp_grpc]}}}}
"
    )
}

fn spans() -> String {
    let span = |number: usize| {
        json!({
            "traceId": format!("{:032x}", number + 1), "spanId": format!("{:016x}", number + 1), "kind": 2,
            "name": "GET /checkout", "startTimeUnixNano": "1796083737505788035", "endTimeUnixNano": "1796083737605788035",
            "attributes": [
                {"key": "url.path", "value": {"stringValue": format!("/checkout/{number}")}},
                {"key": "thread.id", "value": {"intValue": number.to_string()}},
                {"key": "user.name", "value": {"stringValue": format!("somebody with a long name {number}")}},
            ],
        })
    };
    let all: Vec<_> = (0..SPANS).map(span).collect();
    json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": all}]}]}).to_string()
}

/// A Collector at the address that the agent has been trying.
fn receiving(at: SocketAddr, folder: &Path) -> Result<Program> {
    let file = folder.join("receiving.yaml");
    let config = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}
exporters: {{file: {{path: /dev/null}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}}}
"
    );
    fs::write(&file, config)?;
    let mut command = Command::new(part("collector").map_err(anyhow::Error::msg)?);
    let mut collector = Program::start("receiving", command.arg("--config").arg(&file), folder)?;
    collector.listens(at)?;
    Ok(collector)
}
