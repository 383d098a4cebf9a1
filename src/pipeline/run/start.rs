//! Starting a network: back to front, so that whatever gives data finds its taker ready.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::build::{Network, Segment, Sink, Source, Target, Way};
use super::chain::Chain;
use super::fanout::{Exit, Fanout};
use super::segment::SegmentTask;
use super::sink::{Post, SinkTask};
use super::{Failure, Running};
use crate::model::Wants;
use crate::pipeline::component::{Branch, Exporter, Extension, Gate, Outlet};
use crate::pipeline::delivery::{Delivery, Place};
use crate::pipeline::host::Host;
use crate::pipeline::receipt::Parcel;
use crate::telemetry::Telemetry;

/// Batches that wait before a segment or an exporter.
const INPUT_BATCHES: usize = 16;

/// The input of a segment or an exporter, while all is wired.
struct Entrance {
    name: String,
    sender: mpsc::Sender<Parcel>,
    gates: Vec<Arc<dyn Gate>>,
    wants: Wants,
}

/// All inputs, by index in the network.
#[derive(Default)]
struct Entrances {
    segments: Vec<Entrance>,
    exporters: Vec<Entrance>,
}

impl Entrances {
    fn at(&self, way: Way) -> &Entrance {
        match way {
            Way::Segment(segment) => &self.segments[segment],
            Way::Exporter(exporter) => &self.exporters[exporter],
        }
    }

    fn exit(&self, target: &Target) -> Exit {
        let entrance = self.at(target.way);
        Exit::new(entrance.name.clone(), target.signals.clone(), entrance.sender.clone())
    }
}

impl Running {
    /// Leaves in `self` whatever was started when a component fails.
    pub(super) async fn start(&mut self, network: Network, telemetry: &Telemetry) -> Result<(), Failure> {
        for (id, extension) in network.extensions {
            let extension: Arc<dyn Extension> = Arc::from(extension);
            self.extensions.push((Arc::clone(&id), Arc::clone(&extension)));
            extension.start().await.map_err(|error| Failure { kind: "extension", id, error })?;
        }
        let host = Host::new(self.extensions.iter().cloned().collect());
        let mut entrances = Entrances::default();
        for sink in network.exporters {
            let entrance = self.start_sink(sink, &host, telemetry).await?;
            entrances.exporters.push(entrance);
        }
        self.start_segments(network.segments, &network.sources, &mut entrances, telemetry);
        for source in network.sources {
            self.start_receiver(source, &entrances, telemetry).await?;
        }
        Ok(())
    }

    async fn start_sink(&mut self, sink: Sink, host: &Host, telemetry: &Telemetry) -> Result<Entrance, Failure> {
        let Sink { id, signal, built } = sink;
        let exporter: Arc<dyn Exporter> = Arc::from(built.exporter);
        self.exporters.push((Arc::clone(&id), Arc::clone(&exporter)));
        let failed = |error| Failure { kind: "exporter", id: Arc::clone(&id), error };
        exporter.start(host).await.map_err(failed)?;
        let post = match built.delivery {
            None => Post::direct(exporter, &id, signal, telemetry),
            Some(settings) => {
                let place = Place { id: Arc::clone(&id), signal, telemetry: telemetry.clone() };
                Post::Delivered(Delivery::start(exporter, settings, place, host).await.map_err(failed)?)
            }
        };
        let (sender, input) = mpsc::channel(INPUT_BATCHES);
        let task = SinkTask::new(Arc::clone(&id), input, post);
        let handle = tokio::spawn(task.run(self.sink_stop.clone(), self.deadline.subscribe()));
        self.sinks.push((Arc::clone(&id), handle));
        Ok(Entrance { name: id.to_string(), sender, gates: Vec::new(), wants: Wants::default() })
    }

    fn start_segments(
        &mut self,
        segments: Vec<Segment>,
        sources: &[Source],
        entrances: &mut Entrances,
        telemetry: &Telemetry,
    ) {
        let mut inputs = Vec::with_capacity(segments.len());
        for segment in &segments {
            let (sender, input) = mpsc::channel(INPUT_BATCHES);
            let name = segment.processors.first().map_or_else(String::new, |built| built.id.to_string());
            entrances.segments.push(Entrance { name, sender, gates: segment.gates.clone(), wants: segment.wants });
            inputs.push(input);
        }
        for (at, (segment, input)) in segments.into_iter().zip(inputs).enumerate() {
            let exits = segment.targets.iter().map(|target| entrances.exit(target)).collect();
            let is_entry = sources.iter().flat_map(|source| &source.entries).any(|(_, way)| *way == Way::Segment(at));
            let task = SegmentTask::new(
                Chain::new(segment.processors, telemetry),
                input,
                Fanout::new(exits, telemetry),
                is_entry,
            );
            let handle = tokio::spawn(task.run(self.segment_stop.clone()));
            self.segments.push((entrances.segments[at].name.as_str().into(), handle));
        }
    }

    async fn start_receiver(
        &mut self,
        source: Source,
        entrances: &Entrances,
        telemetry: &Telemetry,
    ) -> Result<(), Failure> {
        let Source { id, mut receiver, entries } = source;
        let branches = entries
            .iter()
            .map(|(signal, way)| {
                let entrance = entrances.at(*way);
                Branch {
                    signal: *signal,
                    input: entrance.sender.clone(),
                    gates: entrance.gates.clone(),
                    wants: entrance.wants,
                }
            })
            .collect();
        let outlet = Outlet::new(branches).counted(telemetry, &id, "");
        let started = receiver.start(outlet).await;
        self.receivers.push((Arc::clone(&id), receiver));
        started.map_err(|error| Failure { kind: "receiver", id, error })
    }
}
