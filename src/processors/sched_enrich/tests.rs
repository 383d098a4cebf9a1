//! Requests in, requests with children and sums out.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};

use super::*;
use crate::model::{
    BlockState, BootNs, CgroupKey, ClockOffset, Culprit, CulpritKind, Cycle, ProcessKey, Reasons, RunEnd, Task,
};
use crate::pipeline::otlp::attribute;
use crate::telemetry::Telemetry;

const MS: u64 = 1_000_000;
/// Wall time of the kernel's zero.
const WALL: u64 = 1_000_000 * MS;

/// A thread that is there.
fn tid() -> u32 {
    std::process::id()
}

/// This process, as the processor finds it: nobody else is sure to be there.
fn own() -> ProcessKey {
    Processes::new(Path::new("/")).find(std::process::id(), tid(), None, Instant::now()).unwrap().0
}

/// A cycle that begins with the end of the one before and runs last: lengths in ms.
fn cycle(end: u64, block: u64, wait: u64, throttle: u64, run: u64) -> Cycle {
    Cycle {
        task: Arc::new(Task { tid: tid(), process: own(), comm: "web".into(), ..Task::default() }),
        cgroup: CgroupKey { id: 4, serial: 4 },
        cpu: 1,
        end: BootNs(end * MS),
        run_ns: run * MS,
        run_end: if end == 1_000 { RunEnd::Throttled } else { RunEnd::Blocked },
        wait_ns: Some(wait * MS),
        throttled_ns: Some(throttle * MS),
        wait_before_throttle_ns: 0,
        block_ns: Some(block * MS),
        block_state: BlockState::Interruptible,
        waker: None,
        context: None,
        reasons: Reasons::default(),
        culprits: [Culprit {
            kind: CulpritKind::Task { tid: 99, comm: "batch".into(), cgroup: CgroupKey { id: 5, serial: 5 } },
            ns: wait * MS,
        }]
        .into(),
    }
}

fn span(id: u8, from_ms: u64, to_ms: u64) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![id; 8],
        start_time_unix_nano: WALL + from_ms * MS,
        end_time_unix_nano: WALL + to_ms * MS,
        flags: 1,
        attributes: vec![attribute("thread.id", tid())],
        ..Span::default()
    }
}

fn request(spans: Vec<Span>) -> Vec<ResourceSpans> {
    let attributes = vec![attribute("process.pid", std::process::id()), attribute("service.name", "shop")];
    let scope = ScopeSpans { spans, ..ScopeSpans::default() };
    vec![ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![scope],
        ..ResourceSpans::default()
    }]
}

struct World {
    processor: SchedEnrich,
    history: History,
    telemetry: Telemetry,
}

impl World {
    fn new(yaml: &str) -> Self {
        let body = crate::config::Body::from_yaml("processors::sched_enrich", yaml).unwrap();
        let context = BuildContext::new("sched_enrich".into(), Telemetry::default(), "0");
        let processor = SchedEnrich::new(body.decode().unwrap(), &context);
        let BuildContext { history, telemetry, .. } = context;
        let facts = HostFacts { throttle_source: "kernel", boot_id: "boot".into(), ..HostFacts::default() };
        assert!(history.open(&Arc::new(facts)));
        history.ask(own());
        history.began(own().pid, BootNs(1));
        let world = Self { processor, history, telemetry };
        world.deliver(Vec::new(), 1);
        world
    }

    fn deliver(&self, cycles: Vec<Cycle>, until_ms: u64) {
        let offset = ClockOffset { wall_minus_boot_ns: WALL as i64 };
        self.history.deliver(cycles, BootNs(until_ms * MS), offset);
    }

    /// What has come out by now: spans of the request, then its children.
    fn send(&mut self, spans: Vec<Span>) -> (Vec<Span>, Vec<Span>) {
        let mut out = Outbox::default();
        self.processor.process(Data::Traces(request(spans)), &mut out);
        parts(out)
    }

    fn look(&mut self) -> (Vec<Span>, Vec<Span>) {
        let mut out = Outbox::default();
        self.processor.tick(Instant::now(), &mut out);
        parts(out)
    }

    fn missed(&self, why: &str) -> u64 {
        let all = self.telemetry.snapshot().into_iter();
        let is_meant = |(key, value): &(&'static str, String)| *key == "reason" && value == why;
        all.filter(|series| series.key.attributes.iter().any(is_meant)).map(|series| series.value).sum()
    }
}

fn parts(mut out: Outbox) -> (Vec<Span>, Vec<Span>) {
    let (mut own, mut children) = (Vec::new(), Vec::new());
    for data in out.drain() {
        let Data::Traces(resources) = data else { continue };
        for scope in resources.into_iter().flat_map(|resource| resource.scope_spans) {
            let is_ours = scope.scope.is_some_and(|scope| scope.name == crate::pipeline::otlp::SCOPE);
            if is_ours { &mut children } else { &mut own }.extend(scope.spans);
        }
    }
    (own, children)
}

fn number(span: &Span, key: &str) -> Option<f64> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?;
    match value.value? {
        Value::DoubleValue(number) => Some(number),
        Value::IntValue(number) => Some(number as f64),
        Value::BoolValue(flag) => Some(f64::from(u8::from(flag))),
        _ => None,
    }
}

/// Whole ms of run, wait, throttle, block, then switches.
fn sums(span: &Span) -> [u64; 6] {
    let ms = |word: &str| (number(span, &format!("linux.sched.{word}.time")).unwrap() * 1e3).round() as u64;
    let count = |word: &str| number(span, &format!("linux.sched.switches.{word}")).unwrap() as u64;
    [ms("run"), ms("wait"), ms("throttle"), ms("block"), count("voluntary"), count("involuntary")]
}

/// A second of a thread: it ran to 1000, was throttled, ran, slept, waited, ran to 1100.
fn cycles() -> Vec<Cycle> {
    vec![cycle(1_000, 0, 0, 0, 20), cycle(1_060, 0, 0, 40, 20), cycle(1_100, 10, 10, 0, 20)]
}

/// Check that a held request comes out with sums that close, cut at its edges, and with children that touch.
#[test]
fn sums_close() {
    let mut world = World::new("{}");
    assert!(world.send(vec![span(1, 990, 1_090)]).0.is_empty(), "nothing has come so far");
    assert!(world.processor.next_tick().is_some());
    world.deliver(cycles(), 1_200);
    let (own, children) = world.look();
    assert_eq!(sums(&own[0]), [40, 10, 40, 10, 1, 1]);
    assert_eq!(number(&own[0], "linux.sched.incomplete"), None);
    let told: Vec<(&str, u64, u64)> = children
        .iter()
        .map(|span| {
            let ms = |at: u64| (at - WALL) / MS;
            (span.name.as_str(), ms(span.start_time_unix_nano), ms(span.end_time_unix_nano))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("sched.run", 990, 1_000),
            ("sched.throttle", 1_000, 1_040),
            ("sched.run", 1_040, 1_060),
            ("sched.block", 1_060, 1_070),
            ("sched.wait", 1_070, 1_080),
            ("sched.run", 1_080, 1_090),
        ]
    );
    let parent = |span: &Span| (span.trace_id.clone(), span.parent_span_id.clone(), span.flags);
    assert!(children.iter().all(|span| parent(span) == (vec![1; 16], vec![1; 8], 1)));
    assert!(world.processor.next_tick().is_none(), "nothing is held");
}

/// Check that an interval goes to the innermost span alone, and the sums to every one.
#[test]
fn nested() {
    let mut world = World::new("{}");
    world.deliver(cycles(), 1_200);
    world.send(vec![span(1, 990, 1_090), span(2, 1_050, 1_085)]);
    let (own, children) = world.look();
    assert_eq!(sums(&own[0]), [40, 10, 40, 10, 1, 1]);
    assert_eq!(sums(&own[1]), [15, 10, 0, 10, 1, 0]);
    let under = |id: u8| {
        let of = children.iter().filter(move |span| span.parent_span_id == [id; 8]);
        of.map(|span| (span.name.as_str(), (span.start_time_unix_nano - WALL) / MS)).collect::<Vec<_>>()
    };
    assert_eq!(under(1), [("sched.run", 990), ("sched.throttle", 1_000), ("sched.run", 1_040), ("sched.run", 1_085)]);
    assert_eq!(under(2), [("sched.run", 1_050), ("sched.block", 1_060), ("sched.wait", 1_070), ("sched.run", 1_080)]);
}

/// Check that an inner span that came before keeps its intervals, in a request of its own.
#[test]
fn nested_in_requests() {
    let mut world = World::new("{}");
    world.deliver(cycles(), 1_200);
    world.send(vec![span(2, 1_050, 1_085)]);
    let inner = world.look().1.len();
    world.send(vec![span(1, 990, 1_090)]);
    let (own, children) = world.look();
    assert_eq!((inner, children.len(), sums(&own[0])), (4, 4, [40, 10, 40, 10, 1, 1]));
    let names: Vec<&str> = children.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["sched.run", "sched.throttle", "sched.run", "sched.run"]);
}

/// Check that a hole, and a begin before anything was kept, are said and not filled.
#[test]
fn incomplete() {
    let mut world = World::new("{}");
    let mut holed = cycles();
    holed.remove(1);
    world.deliver(holed, 1_200);
    world.send(vec![span(1, 990, 1_090)]);
    let (own, _) = world.look();
    assert_eq!(sums(&own[0]), [20, 10, 0, 10, 0, 1]);
    assert_eq!(number(&own[0], "linux.sched.incomplete"), Some(1.0));
    world.send(vec![span(1, 500, 1_090)]);
    assert_eq!(number(&world.look().0[0], "linux.sched.incomplete"), Some(1.0));
}

/// Check what passes as it came, and is counted under its reason.
#[test]
fn nothing_wrong() {
    let mut world = World::new("{wait: 0s}");
    world.deliver(cycles(), 1_200);
    let none = |(own, children): (Vec<Span>, Vec<Span>)| {
        assert!(own.iter().all(|span| number(span, "linux.sched.run.time").is_none()) && children.is_empty());
    };
    let other = |key: &str| Span { attributes: vec![attribute(key, 9_u32)], ..span(1, 990, 1_090) };
    none(world.send(vec![other("http.status")]));
    none(world.send(vec![Span { flags: 0x100, ..span(1, 990, 1_090) }]));
    none(world.send(vec![Span { end_time_unix_nano: WALL - 5, start_time_unix_nano: WALL - 9, ..span(1, 0, 0) }]));
    // blocked and throttled while it is said to begin or to end here: a task that moved, or a managed id
    none({
        world.send(vec![span(1, 1_020, 1_090)]);
        world.look()
    });
    none({
        world.send(vec![span(1, 1_045, 1_075)]);
        world.look()
    });
    none({
        world.send(vec![other("thread.id")]);
        world.look()
    });
    none({
        world.send(vec![span(1, 2_000, 2_100)]);
        world.look()
    });
    let counted =
        ["no_thread_id", "not_sampled", "before_watch", "other_thread", "not_told", "unknown_thread", "queue_full"];
    assert_eq!(counted.map(|why| world.missed(why)), [1, 1, 1, 2, 1, 1, 0]);
}

/// Check that what has no room passes on at once.
#[test]
fn no_room() {
    let mut world = World::new("{max_held_spans: 3}");
    assert!(world.send(vec![span(1, 990, 1_090), span(2, 990, 1_090)]).0.is_empty());
    assert_eq!(world.send(vec![span(1, 990, 1_090), span(2, 990, 1_090)]).0.len(), 2);
    assert_eq!(world.missed("queue_full"), 2);
    let mut out = Outbox::default();
    world.processor.flush(&mut out);
    assert_eq!(parts(out).0.len(), 2, "what is held comes at the end");
}

/// Check that each half can be had alone, and that the longest children stay.
#[test]
fn halves() {
    let mut world = World::new("{attributes: false, max_children_per_span: 2}");
    world.deliver(cycles(), 1_200);
    world.send(vec![span(1, 990, 1_090)]);
    let (own, children) = world.look();
    assert_eq!((number(&own[0], "linux.sched.run.time"), children.len()), (None, 2));
    assert_eq!(number(&own[0], "linux.sched.dropped_intervals"), Some(4.0));
    assert_eq!(children[0].name, "sched.throttle");
    let mut world = World::new("{children: false}");
    world.deliver(cycles(), 1_200);
    world.send(vec![span(1, 990, 1_090)]);
    assert!(world.look().1.is_empty());
}
