//! Prints what the `sched` receiver gives: cycles as they come, totals every second. Needs root.

#![allow(clippy::print_stdout)] // an example shows what it got

use std::time::Duration;

use schedscope::config::Body;
use schedscope::model::{SchedState, Wants};
use schedscope::pipeline::component::Branch;
use schedscope::pipeline::{BuildContext, Data, Outlet, Signal};
use schedscope::receivers::sched::FACTORY;
use schedscope::telemetry::Telemetry;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = BuildContext::new("sched".into(), Telemetry::default(), "example");
    let body = Body::from_yaml("receivers::sched", "collection_interval: 1s")?;
    let mut receiver = (FACTORY.build)(&body, &context)?;
    let (input, mut output) = tokio::sync::mpsc::channel(64);
    receiver
        .start(Outlet::new(vec![Branch {
            signal: Signal::Sched,
            input,
            gates: Vec::new(),
            wants: Wants { cycles: true, blocks: true, ..Wants::default() },
        }]))
        .await?;
    let end = tokio::time::Instant::now() + Duration::from_secs(5);
    while let Ok(Some(parcel)) = tokio::time::timeout_at(end, output.recv()).await {
        let Data::Sched(batch) = parcel.data else { continue };
        for cycle in &batch.cycles {
            println!(
                "{:>16} {:>7} {:?}",
                cycle.task.comm,
                cycle.task.tid,
                cycle.intervals().map(|i| (i.kind, i.end.since(i.start))).collect::<Vec<_>>()
            );
        }
        for (key, totals) in batch.collection.iter().flat_map(|collection| &collection.cgroups) {
            let path = batch.cgroups.get(key).and_then(|facts| facts.path.clone());
            let times: Vec<String> = SchedState::ALL
                .into_iter()
                .filter_map(|state| {
                    totals.times.get(state).map(|ns| format!("{} {:.3}", state.name(), ns as f64 / 1e9))
                })
                .collect();
            println!(
                "{path:?} {} threads, {} vol {} invol, {}",
                totals.threads,
                totals.voluntary,
                totals.involuntary,
                times.join(", ")
            );
        }
    }
    receiver.shutdown().await;
    Ok(())
}
