//! A real Collector that is killed, paused, slow, refusing and replaced on another port, and an agent that is
//! killed in between, with its queue on disk: whatever the agent has acknowledged to its clients is in the
//! Collector's file at the end.
//!
//! Runs for `SCHEDSCOPE_FAULT_SECONDS` (40).

mod client;
mod scene;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::client::Clients;
use self::scene::Scene;
use crate::support::folder;

/// One fault, from a Collector and an agent that run to a Collector and an agent that run.
type Fault = (&'static str, fn(&mut Scene) -> Result<()>);

const FAULTS: &[Fault] = &[
    ("the Collector is killed", |scene| {
        scene.kill_collector();
        scene.wait(2500);
        scene.start_collector()
    }),
    ("the Collector is paused, the agent killed meanwhile", |scene| {
        scene.pause_collector(true)?;
        scene.wait(2000);
        scene.kill_agent();
        scene.start_agent()?;
        scene.wait(1000);
        scene.pause_collector(false)
    }),
    ("the Collector is slow", |scene| {
        for _ in 0..10 {
            scene.pause_collector(true)?;
            scene.wait(250);
            scene.pause_collector(false)?;
            scene.wait(30);
        }
        Ok(())
    }),
    ("the Collector refuses", |scene| {
        scene.kill_collector();
        scene.start_refusing_collector()?;
        scene.wait(2500);
        scene.kill_collector();
        scene.start_collector()
    }),
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
    let mut scene = Scene::start(folder.path())?;
    let clients = Clients::start(scene.agent_address());
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
