//! A real Collector that is killed, paused, slow, refusing and replaced on another port, and an agent that is
//! killed in between, with its queue on disk: whatever the agent has acknowledged to its clients is in the
//! Collector's file at the end.
//!
//! Runs for `SCHEDSCOPE_FAULT_SECONDS` (40).

mod client;
mod scene;
mod soak;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::client::Clients;
use self::scene::{Places, Scene};
pub(crate) use self::soak::stays_flat_and_accounts_for_all;
use crate::support::folder;

/// One fault, from a Collector and an agent that run to a Collector and an agent that run.
type Fault = (&'static str, fn(&mut Scene) -> Result<()>);

const COLLECTOR_KILLED: Fault = ("the Collector is killed", |scene| {
    scene.kill_collector();
    scene.wait(2500);
    scene.start_collector()
});

const COLLECTOR_SLOW: Fault = ("the Collector is slow", |scene| {
    for _ in 0..10 {
        scene.pause_collector(true)?;
        scene.wait(250);
        scene.pause_collector(false)?;
        scene.wait(30);
    }
    Ok(())
});

const COLLECTOR_REFUSES: Fault = ("the Collector refuses", |scene| {
    scene.kill_collector();
    scene.start_refusing_collector()?;
    scene.wait(2500);
    scene.kill_collector();
    scene.start_collector()
});

const FAULTS: &[Fault] = &[
    COLLECTOR_KILLED,
    ("the Collector is paused, the agent killed meanwhile", |scene| {
        scene.pause_collector(true)?;
        scene.wait(2000);
        scene.kill_agent();
        scene.start_agent()?;
        scene.wait(1000);
        scene.pause_collector(false)
    }),
    COLLECTOR_SLOW,
    COLLECTOR_REFUSES,
    ("the Collector moves to another port", |scene| {
        scene.kill_collector();
        scene.move_collector()?;
        scene.start_collector()?;
        scene.reload_agent()
    }),
    ("the agent is killed while it sends", |scene| {
        scene.kill_agent();
        scene.wait(300);
        scene.start_agent()
    }),
    ("both are killed at once", |scene| {
        scene.kill_collector();
        scene.kill_agent();
        scene.start_agent()?;
        scene.wait(500);
        scene.start_collector()
    }),
];

/// Rest between two faults: what is queued goes out.
const REST_MS: u64 = 1500;

pub(crate) fn lose_nothing_that_was_acknowledged() -> Result<()> {
    let seconds = std::env::var("SCHEDSCOPE_FAULT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let folder = folder()?;
    let mut scene = Scene::start(folder.path(), config)?;
    let clients = Clients::start(scene.places.agent);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0usize;
    for (what, fault) in FAULTS.iter().cycle() {
        if Instant::now() >= end && rounds >= FAULTS.len() {
            break;
        }
        fault(&mut scene).map_err(|error| error.context(*what))?;
        scene.wait(REST_MS);
        rounds += 1;
    }
    let sent = clients.stop()?;
    scene.finish()?;
    let received = scene.received()?;
    let unique: HashSet<u64> = received.iter().copied().collect();
    let lost = sent.acknowledged.difference(&unique).count();
    println!(
        "  {rounds} faults in {seconds} s: {} spans acknowledged ({} calls failed and were repeated), {} received, {} of them twice \
         or more, {lost} lost",
        sent.acknowledged.len(),
        sent.failed_calls,
        received.len(),
        received.len() - unique.len()
    );
    ensure!(sent.acknowledged.len() > 1000, "too few to tell anything");
    ensure!(lost == 0, "{lost} spans were acknowledged and never arrived");
    Ok(())
}

/// Spans through a queue on disk.
fn config(places: &Places) -> String {
    let (at, to, files) = (places.agent, places.collector, places.folder.display());
    format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}\n\
         extensions: {{file_storage: {{directory: '{files}/queue', create_directory: true, timeout: 5s}}}}\n\
         exporters:\n  otlp_grpc:\n    endpoint: '{to}'\n    tls: {{insecure: true}}\n    timeout: 1s\n\
         \x20   sending_queue: {{storage: file_storage, queue_size: 100000}}\n\
         \x20   retry_on_failure: {{initial_interval: 50ms, max_interval: 500ms, max_elapsed_time: 0s}}\n\
         service:\n  extensions: [file_storage]\n  shutdown_timeout: 2s\n  telemetry: {{metrics: {{level: none}}}}\n\
         \x20 pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_grpc]}}}}\n"
    )
}
