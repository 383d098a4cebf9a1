//! The registry sent over OTLP at an interval, through the OpenTelemetry SDK.
//!
//! The SDK's instruments observe the registry's counters; they hold no numbers of their own, so a page for
//! Prometheus and an OTLP receiver are told the same. Refuses to know: the config.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry_otlp::{MetricExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};

use super::process::ProcessUse;
use super::{InstrumentKind, Telemetry};

/// Where and how often.
#[derive(Clone)]
pub struct OtlpTarget {
    /// URL of a gRPC receiver.
    pub endpoint: String,
    /// Sent with each request; may be secret.
    pub headers: Vec<(String, String)>,
    /// Between two reports.
    pub interval: Duration,
    /// Of one report.
    pub timeout: Duration,
}

/// A reader of the registry that sends by itself. Clones share it.
#[derive(Clone)]
pub struct OtlpReader {
    provider: SdkMeterProvider,
    meter: Meter,
    telemetry: Telemetry,
    known: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl OtlpReader {
    /// Starts to report; call it inside the runtime that carries the connection, which is made lazily.
    ///
    /// # Errors
    /// Where the endpoint or a header cannot be used.
    pub fn start(
        telemetry: &Telemetry,
        since: Instant,
        resource: &BTreeMap<String, String>,
        target: &OtlpTarget,
    ) -> Result<Self, String> {
        let exporter = MetricExporter::builder()
            .with_tonic()
            .with_endpoint(&target.endpoint)
            .with_timeout(target.timeout)
            .with_metadata(metadata(&target.headers)?)
            .build()
            .map_err(|error| format!("{}: {error}", target.endpoint))?;
        let attributes = resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let provider = SdkMeterProvider::builder()
            .with_resource(Resource::builder_empty().with_attributes(attributes).build())
            .with_reader(PeriodicReader::builder(exporter).with_interval(target.interval).build())
            .build();
        let meter = provider.meter("schedscope");
        observe_process(&meter, since);
        let reader = Self { provider, meter, telemetry: telemetry.clone(), known: Arc::default() };
        reader.follow();
        Ok(reader)
    }

    /// Takes up what has been registered since; to be called now and then, for counters come as components do.
    pub fn follow(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for series in self.telemetry.snapshot() {
            let name = series.key.name;
            if !known.insert(name) {
                continue;
            }
            let telemetry = self.telemetry.clone();
            let values = move || {
                let all = telemetry.snapshot().into_iter().filter(move |series| series.key.name == name);
                all.map(|series| {
                    let attributes = series.key.attributes.into_iter().map(|(key, value)| KeyValue::new(key, value));
                    (series.value, attributes.collect::<Vec<_>>())
                })
            };
            match series.kind {
                InstrumentKind::Counter => {
                    let counter = self.meter.u64_observable_counter(name).with_unit(series.unit);
                    let observe = move |to: &dyn AsyncInstrument<u64>| {
                        values().for_each(|(value, of)| to.observe(value, &of));
                    };
                    let _counter = counter.with_callback(observe).build();
                }
                InstrumentKind::Gauge => {
                    let gauge = self.meter.u64_observable_gauge(name).with_unit(series.unit);
                    let observe = move |to: &dyn AsyncInstrument<u64>| {
                        values().for_each(|(value, of)| to.observe(value, &of));
                    };
                    let _gauge = gauge.with_callback(observe).build();
                }
            }
        }
    }

    /// Sends a last report and ends. Blocks for up to `timeout`.
    pub fn stop(&self, timeout: Duration) {
        self.follow();
        // An endpoint that is gone is no news at the end; the SDK logs it.
        let _ = self.provider.shutdown_with_timeout(timeout);
    }
}

fn observe_process(meter: &Meter, since: Instant) {
    let read = move || ProcessUse::read(since);
    let _uptime = meter
        .f64_observable_counter("otelcol_process_uptime")
        .with_unit("s")
        .with_callback(move |to| to.observe(read().uptime_seconds, &[]))
        .build();
    let _cpu = meter
        .f64_observable_counter("otelcol_process_cpu_seconds")
        .with_unit("s")
        .with_callback(move |to| read().cpu_seconds.into_iter().for_each(|seconds| to.observe(seconds, &[])))
        .build();
    let _memory = meter
        .u64_observable_gauge("otelcol_process_memory_rss")
        .with_unit("By")
        .with_callback(move |to| read().resident_bytes.into_iter().for_each(|bytes| to.observe(bytes, &[])))
        .build();
}

/// Errors name the header, never its value.
fn metadata(headers: &[(String, String)]) -> Result<MetadataMap, String> {
    let mut map = MetadataMap::new();
    for (name, value) in headers {
        let key: MetadataKey<_> =
            name.to_lowercase().parse().map_err(|_| format!("header `{name}`: not a header name"))?;
        let mut value: MetadataValue<_> =
            value.parse().map_err(|_| format!("header `{name}`: its value cannot be sent"))?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}
