//! A small HTTP service with ordinary `opentelemetry` instrumentation that also publishes the active span of each
//! thread, so that schedscope's intervals land inside its traces. See README.md beside this file.
//!
//! `GET /checkout?cpu_ms=30&sleep_ms=12` computes, asks a pretended database, computes again.

mod thread_context;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Uri;
use axum::routing::get;
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

use thread_context::Active;

const SERVICE: &str = "shop-web";

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let process = KeyValue::new("process.pid", i64::from(std::process::id()));
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().build()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name(SERVICE).with_attribute(process).build())
        .with_batch_exporter(exporter)
        .build();
    global::set_tracer_provider(provider.clone());
    thread_context::publish_resource(&[("service.name", SERVICE)])?;

    let port: u16 = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(8080);
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    let service = Router::new().route("/checkout", get(checkout));
    let ended = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, service).with_graceful_shutdown(ended).await?;
    provider.shutdown()?;
    Ok(())
}

/// The work stays on one thread of the blocking pool; its span begins and ends there, names that thread, and is
/// published there.
async fn checkout(uri: Uri) -> String {
    let ms = |name: &str, usual: u64| {
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let given = pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok());
        Duration::from_millis(given.unwrap_or(usual).min(10_000))
    };
    let (cpu, sleep) = (ms("cpu_ms", 30), ms("sleep_ms", 12));
    let work = tokio::task::spawn_blocking(move || {
        let tracer = global::tracer(SERVICE);
        let span = tracer.span_builder("GET /checkout").with_kind(SpanKind::Server).with_attributes([thread()]);
        let context = Context::current_with_span(span.start(&tracer));
        {
            let _attached = context.clone().attach();
            let _published = Active::current();
            compute(cpu / 2);
            select_orders(sleep);
            compute(cpu / 2);
        }
        context.span().end();
    });
    let outcome = work.await;
    if outcome.is_ok() { "ok\n".to_owned() } else { "failed\n".to_owned() }
}

/// A child span around something that blocks.
fn select_orders(sleep: Duration) {
    let tracer = global::tracer(SERVICE);
    let mut span = tracer.span_builder("SELECT orders").with_attributes([thread()]).start(&tracer);
    {
        let _published = Active::of(span.span_context());
        std::thread::sleep(sleep);
    }
    span.end();
}

/// The thread's id as the operating system has it: what `sched_enrich` looks a span's thread up by.
fn thread() -> KeyValue {
    KeyValue::new("thread.id", i64::from(rustix::thread::gettid().as_raw_nonzero().get()))
}

/// Wants a CPU for so long, by the thread's own CPU clock.
fn compute(cpu: Duration) {
    let used = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (begun, limit) = (used(), Instant::now() + Duration::from_secs(60));
    while used() - begun < cpu && Instant::now() < limit {
        std::hint::spin_loop();
    }
}
