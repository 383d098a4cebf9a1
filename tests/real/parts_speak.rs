//! That the real parts and our reading of them work, told by data whose truth is known: without these, a
//! failure further on could be the test's own.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use crate::program::eventually;
use crate::support::collector::Collector;
use crate::support::container::Podman;
use crate::support::jaeger::Jaeger;
use crate::support::{folder, http, span};

/// A window with one thread that ran 20 ms and was throttled 80 ms.
fn trace() -> String {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let span = |id: u8, parent: &str, name: &str, from_ms: u128, to_ms: u128| {
        format!(
            r#"{{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000{id:02x}","parentSpanId":"{parent}","name":"{name}",
            "kind":1,"startTimeUnixNano":"{}","endTimeUnixNano":"{}","attributes":[{{"key":"thread.id","value":{{"intValue":"7"}}}}]}}"#,
            now_ns + from_ms * 1_000_000,
            now_ns + to_ms * 1_000_000
        )
    };
    let spans = [
        span(1, "", "sched.window", 0, 1000),
        span(2, "0000000000000001", "sched.thread sh", 0, 1000),
        span(3, "0000000000000002", "sched.run", 0, 20),
        span(4, "0000000000000002", "sched.throttle", 20, 100),
    ];
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"hand made"}}}}]}},
        "scopeSpans":[{{"scope":{{"name":"test"}},"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    )
}

const METRICS: &str = r#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"container.id","value":{"stringValue":"abc"}}]},
    "scopeMetrics":[{"scope":{"name":"test"},"metrics":[{"name":"linux.sched.time","unit":"s","sum":{"aggregationTemporality":2,"isMonotonic":true,
    "dataPoints":[{"startTimeUnixNano":"1000","timeUnixNano":"2000","asDouble":1.5,
    "attributes":[{"key":"linux.sched.state","value":{"stringValue":"running"}}]}]}}]}]}]}"#;

pub(crate) fn collector_writes_what_it_gets() -> Result<()> {
    let folder = folder()?;
    let mut collector = Collector::start(folder.path())?;
    http::ask(collector.http, "POST", "/v1/metrics", METRICS)?;
    http::ask(collector.http, "POST", "/v1/traces", &trace())?;
    collector.stop()?;
    let points = collector.points()?;
    ensure!(points.len() == 1 && points[0].metric == "linux.sched.time", "{points:?}");
    ensure!(points[0].value == 1.5 && points[0].unit == "s" && points[0].time_ns == 2000, "{points:?}");
    ensure!(points[0].attributes["linux.sched.state"] == "running", "{points:?}");
    ensure!(points[0].resource["container.id"] == "abc", "{points:?}");
    let spans = collector.spans()?;
    span::is_well_formed(&spans, 0)?;
    ensure!(spans.len() == 4 && span::total(&spans, "sched.throttle") == 0.08, "{spans:?}");
    Ok(())
}

pub(crate) fn jaeger_answers_with_what_it_gets() -> Result<()> {
    let folder = folder()?;
    let mut jaeger = Jaeger::start(folder.path())?;
    http::ask(jaeger.http, "POST", "/v1/traces", &trace())?;
    let spans = eventually("the trace", Duration::from_secs(10), || {
        let spans = jaeger.spans("hand made")?;
        Ok((spans.len() == 4).then_some(spans))
    })?;
    ensure!(jaeger.services()?.contains(&"hand made".to_owned()), "{:?}", jaeger.services()?);
    ensure!(jaeger.warnings("hand made")?.is_empty(), "{:?}", jaeger.warnings("hand made")?);
    span::is_well_formed(&spans, 1000)?;
    ensure!((span::total(&spans, "sched.throttle") - 0.08).abs() < 1e-5, "{spans:?}");
    ensure!(spans[0].attributes["thread.id"] == 7 && spans[0].resource["service.name"] == "hand made", "{spans:?}");
    Ok(())
}

pub(crate) fn podman_throttles_for_real() -> Result<()> {
    let folder = folder()?;
    let mut podman = Podman::start(folder.path())?;
    let script = "while [ ! -e /shared/stop ]; do :; done; sleep 1000";
    let container = podman.run("limited", 0.2, script, &[])?;
    ensure!(container.id.len() == 64 && container.name == "limited", "{container:?}");
    ensure!(container.quota_us * 5 == container.period_us, "{container:?}");
    std::thread::sleep(Duration::from_secs(2));
    fs::write(podman.work("limited").join("stop"), "")?;
    std::thread::sleep(Duration::from_millis(500));
    let accounts = container.accounts()?;
    println!("  {accounts:?}");
    ensure!(accounts.running > 0.2 && accounts.throttled > 0.1, "{accounts:?}");
    // one busy thread: what it did not run it was throttled
    ensure!(accounts.run_delay > accounts.throttled * 0.95, "{accounts:?}");
    podman.remove(&container)
}
