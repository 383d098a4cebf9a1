//! The background tasks that learn names: made with the processor, started with its first batch, ended with it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::kubernetes::{self, PodStore};
use super::names::catalog::Worker;
use super::names::{Book, runtimes};
use super::settings::{ContainerSettings, KubernetesSettings};
use crate::pipeline::BuildContext;

/// A source that waits for its start.
type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// All sources of one processor; dropping them ends them.
pub(super) struct Sources {
    waiting: Vec<Task>,
    running: JoinSet<()>,
}

impl Sources {
    /// The sources that the settings ask for, with the places where they put what they learn.
    /// `sidecar`: the agent cannot see the host's processes.
    pub(super) fn new(settings: &ContainerSettings, context: &BuildContext, sidecar: bool) -> (Self, Book, PodStore) {
        let mut builder = Book::builder(settings.cache_size, &context.telemetry, &context.id);
        let asked: Vec<_> = settings
            .runtimes
            .0
            .iter()
            .map(|(runtime, endpoint)| {
                let questions = builder.source(runtime.name(), runtimes::containers_of(*runtime));
                (*runtime, endpoint.clone(), questions)
            })
            .collect();
        let book = builder.finish();
        let labels: Arc<[String]> = settings.labels.clone().into();
        let mut waiting: Vec<Task> = Vec::new();
        for (runtime, endpoint, questions) in asked {
            let open = runtimes::open(runtime, endpoint, Arc::clone(&labels));
            let worker = Worker::new(open, questions, book.answers(runtime.name()), &context.telemetry);
            waiting.push(Box::pin(worker.run()));
        }
        let of = [("source", "kubernetes"), ("outcome", "failed")];
        let failures = context.telemetry.counter("otelcol_processor_container_lookups", "{lookup}", &of);
        let node = node_name(&settings.kubernetes);
        let (pods, watch) = kubernetes::open(&settings.kubernetes, node, labels, sidecar, failures);
        waiting.extend(watch.map(|watch| -> Task { Box::pin(watch.run()) }));
        (Self { waiting, running: JoinSet::new() }, book, pods)
    }

    /// Starts what has not been started; without a runtime (a replay in a test) nothing is asked.
    pub(super) fn start(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            for task in self.waiting.drain(..) {
                self.running.spawn_on(task, &runtime);
            }
        }
    }
}

/// The name of this node: the settings', else `K8S_NODE_NAME` of the agent's own environment.
pub(super) fn node_name(settings: &KubernetesSettings) -> Option<String> {
    let given = Some(settings.node.clone()).filter(|node| !node.is_empty());
    given.or_else(|| std::env::var("K8S_NODE_NAME").ok()).filter(|node| !node.is_empty())
}
