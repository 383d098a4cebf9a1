//! `memory_limiter`: refuses new data at the entry of its pipelines while the agent uses too much memory.
//!
//! It takes every signal, so it stands first. A refusal is retryable: `otlp` answers its sender so, `sched`
//! drops and counts. There is nothing to reclaim as Go's collector has, so the hard limit only changes the
//! words of the refusal. Refuses to know: what the data is.

mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Period, Section};
use crate::pipeline::factory::Built;
use crate::pipeline::{BuildContext, Data, Gate, Outbox, Processor, ProcessorFactory, Refused, Settings, Signal};
use crate::telemetry::Telemetry;

/// `memory_limiter`.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    name: "memory_limiter",
    aliases: &[],
    about: "Refuses new data while the agent uses more memory than it may",
    stability: "beta",
    converts: &[
        (Signal::Sched, Signal::Sched),
        (Signal::Traces, Signal::Traces),
        (Signal::Metrics, Signal::Metrics),
        (Signal::Logs, Signal::Logs),
    ],
    needs_receiver: None,
    settings: Settings::of::<MemoryLimiterSettings>(),
    build,
};

/// Keys of `memory_limiter`. The soft limit, above which data is refused, is the limit less the spike limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryLimiterSettings {
    /// How often memory is read; must be above 0s, 1s is a good value.
    pub check_interval: Period,
    /// The hard limit in MiB of resident memory; this or `limit_percentage`.
    pub limit_mib: u64,
    /// Below the hard limit by this much, in MiB, data is refused; 0: a fifth of `limit_mib`.
    pub spike_limit_mib: u64,
    /// The hard limit in percent of the memory that the agent's cgroup, else the host, has.
    pub limit_percentage: u64,
    /// As `spike_limit_mib`, in percent; 0: a fifth of `limit_percentage`.
    pub spike_limit_percentage: u64,
}

impl Section for MemoryLimiterSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.check_interval.0.is_zero() {
            at.problem("check_interval", "must be above 0s; 1s is a good value");
        }
        if self.limit_mib == 0 && self.limit_percentage == 0 {
            at.problem("", "needs limit_mib or limit_percentage");
        }
        if self.limit_mib > 0 && self.spike_limit_mib >= self.limit_mib {
            at.problem("spike_limit_mib", format!("must be below limit_mib, which is {}", self.limit_mib));
        }
        for (key, value) in
            [("limit_percentage", self.limit_percentage), ("spike_limit_percentage", self.spike_limit_percentage)]
        {
            if value > 100 {
                at.problem(key, format!("is {value}, must be 0 to 100"));
            }
        }
        if self.limit_percentage > 0 && self.spike_limit_percentage >= self.limit_percentage {
            at.problem(
                "spike_limit_percentage",
                format!("must be below limit_percentage, which is {}", self.limit_percentage),
            );
        }
    }
}

/// Bytes above which data is refused, and above which it is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    soft_bytes: u64,
    hard_bytes: u64,
}

impl Limits {
    /// `limit_mib` wins over `limit_percentage`, as in the Collector.
    fn of(settings: &MemoryLimiterSettings, total_bytes: u64) -> Self {
        const MIB: u64 = 1 << 20;
        let percent = |percentage: u64| total_bytes / 100 * percentage;
        let (hard_bytes, spike_bytes) = if settings.limit_mib > 0 {
            (settings.limit_mib * MIB, settings.spike_limit_mib * MIB)
        } else {
            (percent(settings.limit_percentage), percent(settings.spike_limit_percentage))
        };
        let spike_bytes = if spike_bytes == 0 { hard_bytes / 5 } else { spike_bytes };
        Self { soft_bytes: hard_bytes - spike_bytes.min(hard_bytes), hard_bytes }
    }
}

fn build(body: &Body, context: &BuildContext) -> Built<dyn Processor> {
    let settings: MemoryLimiterSettings = body.decode()?;
    let limits = Limits::of(&settings, if settings.limit_mib > 0 { 0 } else { usage::available_bytes() });
    let gate = MemoryGate {
        id: context.id.clone(),
        limits,
        check_interval_ns: settings.check_interval.as_ns(),
        since: Instant::now(),
        next_check_ns: AtomicU64::new(0),
        used_bytes: AtomicU64::new(0),
        telemetry: context.telemetry.clone(),
        read: usage::resident_bytes,
    };
    Ok(Box::new(MemoryLimiter { gate: Arc::new(gate) }))
}

/// Passes everything on; the work is done by its gate, before data enters the pipeline.
struct MemoryLimiter {
    gate: Arc<MemoryGate>,
}

impl Processor for MemoryLimiter {
    fn process(&mut self, data: Data, out: &mut Outbox) {
        out.send(data);
    }

    fn gate(&self) -> Option<Arc<dyn Gate>> {
        Some(self.gate.clone())
    }
}

struct MemoryGate {
    id: Arc<str>,
    limits: Limits,
    check_interval_ns: u64,
    since: Instant,
    next_check_ns: AtomicU64,
    used_bytes: AtomicU64,
    telemetry: Telemetry,
    read: fn() -> Option<u64>,
}

impl MemoryGate {
    /// Memory as of at most `check_interval` ago. Whoever comes first after that reads it anew.
    fn used_bytes(&self) -> u64 {
        let now_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.next_check_ns.load(Ordering::Acquire);
        let mine = now_ns >= due_ns
            && self
                .next_check_ns
                .compare_exchange(
                    due_ns,
                    now_ns.saturating_add(self.check_interval_ns),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok();
        if mine && let Some(used_bytes) = (self.read)() {
            let before = self.used_bytes.swap(used_bytes, Ordering::AcqRel);
            self.tell_crossing(before, used_bytes);
        }
        self.used_bytes.load(Ordering::Acquire)
    }

    fn tell_crossing(&self, before_bytes: u64, used_bytes: u64) {
        let soft = self.limits.soft_bytes;
        if before_bytes < soft && used_bytes >= soft {
            tracing::warn!(otelcol.component.id = %self.id, used_mib = used_bytes >> 20, soft_limit_mib = soft >> 20,
                "memory usage is above the soft limit, refusing data; see limit_mib");
        } else if before_bytes >= soft && used_bytes < soft {
            tracing::info!(otelcol.component.id = %self.id, used_mib = used_bytes >> 20,
                "memory usage is back within limits, taking data again");
        }
    }

    fn count(&self, outcome: [&'static str; 3], data: &Data) {
        let [spans, points, records] = outcome;
        let (name, unit) = match data.signal() {
            Signal::Traces => (spans, "{span}"),
            Signal::Metrics => (points, "{datapoint}"),
            Signal::Logs => (records, "{record}"),
            Signal::Sched => return,
        };
        self.telemetry.counter(name, unit, &[("processor", self.id.as_ref())]).add(data.items() as u64);
    }
}

impl Gate for MemoryGate {
    fn admit(&self, data: &Data) -> Result<(), Refused> {
        let used_bytes = self.used_bytes();
        if used_bytes < self.limits.soft_bytes {
            self.count(
                [
                    "otelcol_processor_memory_limiter_accepted_spans",
                    "otelcol_processor_memory_limiter_accepted_metric_points",
                    "otelcol_processor_memory_limiter_accepted_log_records",
                ],
                data,
            );
            return Ok(());
        }
        self.count(
            [
                "otelcol_processor_memory_limiter_refused_spans",
                "otelcol_processor_memory_limiter_refused_metric_points",
                "otelcol_processor_memory_limiter_refused_log_records",
            ],
            data,
        );
        let which = if used_bytes >= self.limits.hard_bytes { "hard" } else { "soft" };
        Err(Refused {
            reason: format!(
                "data refused due to high memory usage ({} MiB, above the {which} limit)",
                used_bytes >> 20
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64 as Fake;

    use super::*;

    static FAKE_BYTES: Fake = Fake::new(0);

    fn gate(telemetry: &Telemetry) -> MemoryGate {
        MemoryGate {
            id: "memory_limiter".into(),
            limits: Limits { soft_bytes: 80 << 20, hard_bytes: 100 << 20 },
            check_interval_ns: 0,
            since: Instant::now(),
            next_check_ns: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            telemetry: telemetry.clone(),
            read: || Some(FAKE_BYTES.load(Ordering::Relaxed)),
        }
    }

    #[test]
    fn refuses_above_the_soft_limit_and_takes_again_below() {
        let telemetry = Telemetry::default();
        let gate = gate(&telemetry);
        let data = Data::Traces(Vec::new());
        for (mib, admitted) in [(10, true), (80, false), (120, false), (79, true)] {
            FAKE_BYTES.store(mib << 20, Ordering::Relaxed);
            assert_eq!(gate.admit(&data).is_ok(), admitted, "{mib}");
        }
        FAKE_BYTES.store(120 << 20, Ordering::Relaxed);
        assert!(gate.admit(&data).unwrap_err().reason.contains("120 MiB, above the hard limit"));
    }

    #[test]
    fn limits_follow_the_collector() {
        let mib =
            |limit_mib, spike_limit_mib| MemoryLimiterSettings { limit_mib, spike_limit_mib, ..Default::default() };
        assert_eq!(Limits::of(&mib(100, 0), 0), Limits { soft_bytes: 80 << 20, hard_bytes: 100 << 20 });
        assert_eq!(Limits::of(&mib(100, 30), 0), Limits { soft_bytes: 70 << 20, hard_bytes: 100 << 20 });
        let percent = MemoryLimiterSettings { limit_percentage: 50, spike_limit_percentage: 10, ..Default::default() };
        assert_eq!(Limits::of(&percent, 1000), Limits { soft_bytes: 400, hard_bytes: 500 });
    }

    #[test]
    fn says_what_is_missing() {
        let told = |yaml: &str| (FACTORY.settings.check)(&Body::from_yaml("p", yaml).unwrap()).to_string();
        assert_eq!(
            told("{}"),
            "p::check_interval: must be above 0s; 1s is a good value\np: needs limit_mib or limit_percentage"
        );
        assert_eq!(
            told("{check_interval: 1s, limit_mib: 10, spike_limit_mib: 10}"),
            "p::spike_limit_mib: must be below limit_mib, which is 10"
        );
        assert!(told("{check_interval: 1s, limit_percentage: 101}").contains("must be 0 to 100"));
        assert_eq!(told("{check_interval: 1s, limit_mib: 10}"), "");
    }
}
