//! Pure: requests that wait until the cycles of all their threads have come, or their time is over.

use std::time::Instant;

use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

use super::enrich::Placed;

/// A request with those of its spans that something may be told of.
pub(super) type Request = (Vec<ResourceSpans>, Vec<Placed>);

struct Waiting {
    request: Request,
    spans: usize,
    due: Instant,
}

/// The requests, in order of arrival.
pub(super) struct Held {
    waiting: Vec<Waiting>,
    spans: usize,
    max_spans: usize,
}

fn count(data: &[ResourceSpans]) -> usize {
    data.iter().flat_map(|resource| &resource.scope_spans).map(|scope| scope.spans.len()).sum()
}

impl Held {
    pub(super) fn new(max_spans: usize) -> Self {
        Self { waiting: Vec::new(), spans: 0, max_spans }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Holds a request until `due` at the latest.
    ///
    /// # Errors
    /// The request, where there is no room.
    pub(super) fn hold(
        &mut self,
        data: Vec<ResourceSpans>,
        placed: Vec<Placed>,
        due: Instant,
    ) -> Result<(), Vec<ResourceSpans>> {
        let spans = count(&data);
        if self.spans + spans > self.max_spans {
            return Err(data);
        }
        self.spans += spans;
        self.waiting.push(Waiting { request: (data, placed), spans, due });
        Ok(())
    }

    /// Takes out those that are due or whose every span is told, or all.
    pub(super) fn ready(&mut self, now: Instant, all: bool, is_told: impl Fn(&Placed) -> bool) -> Vec<Request> {
        let is_ready = |waiting: &mut Waiting| all || waiting.due <= now || waiting.request.1.iter().all(&is_told);
        let ready: Vec<Waiting> = self.waiting.extract_if(.., is_ready).collect();
        self.spans -= ready.iter().map(|waiting| waiting.spans).sum::<usize>();
        ready.into_iter().map(|waiting| waiting.request).collect()
    }
}
