//! Keeps the agent's own cost below a share of the host's CPU: over it, fewer cycles become spans; totals stay whole.
//!
//! The cost is the process' CPU time and, by a sample of its own runs, what the switch program takes. Refuses to
//! know: how the kernel chooses cycles.

use std::time::Duration;

use super::clock;
use super::driver::Driver;
use crate::telemetry::{Meter, Telemetry};

/// A judgement rests on so much time at least.
const WINDOW: Duration = Duration::from_secs(10);
/// Each halves the rates: down to a 256th.
const STEPS_MAX: u32 = 8;
/// Below this part of the limit for [`CALM_WINDOWS`] windows, a step is taken back: each about doubles what spans cost.
const CALM: f64 = 0.4;
const CALM_WINDOWS: u32 = 3;

/// CPU time that was used up to a moment, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    at_ns: u64,
    process_ns: u64,
    programs_ns: u64,
}

impl Spent {
    fn now(driver: &Driver<'_>) -> Self {
        Self { at_ns: clock::boot_now().0, process_ns: clock::process_cpu_ns(), programs_ns: driver.own_ns() }
    }

    /// Of all CPUs, since an earlier moment.
    fn share(self, before: Self, cpus: usize) -> f64 {
        let used = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let all = used(self.at_ns, before.at_ns) * cpus.max(1) as f64;
        (used(self.process_ns, before.process_ns) + used(self.programs_ns, before.programs_ns)) / all.max(1.0)
    }
}

/// What is decided from one window to the next. Pure.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Control {
    steps: u32,
    calm: u32,
}

impl Control {
    /// Takes the share of one window and the limit.
    fn judge(&mut self, share: f64, limit: f64) {
        if share > limit {
            self.calm = 0;
            self.steps = (self.steps + 1).min(STEPS_MAX);
            return;
        }
        self.calm = if share < limit * CALM { self.calm + 1 } else { 0 };
        if self.calm >= CALM_WINDOWS {
            self.calm = 0;
            self.steps = self.steps.saturating_sub(1);
        }
    }
}

/// The watch over one driver.
pub(super) struct Overhead {
    /// Of all CPUs.
    limit: f64,
    cpus: usize,
    /// The first window begins when the start is over.
    before: Option<Spent>,
    control: Control,
    share: Meter,
    steps: Meter,
}

impl Overhead {
    /// With a limit in percent of all CPUs.
    pub(super) fn new(limit_percent: f64, telemetry: &Telemetry) -> Self {
        let attributes = [("receiver", "sched")];
        Self {
            limit: limit_percent / 100.0,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            before: None,
            control: Control::default(),
            share: telemetry.gauge("sched.receiver.overhead", "{ppm}", &attributes),
            steps: telemetry.gauge("sched.receiver.selection.tightened", "{step}", &attributes),
        }
    }

    /// Looks, and where a window is over, judges; as often as totals are collected.
    pub(super) fn step(&mut self, driver: &Driver<'_>) {
        let now = Spent::now(driver);
        let Some(before) = self.before else {
            self.before = Some(now);
            return;
        };
        if u128::from(now.at_ns.saturating_sub(before.at_ns)) < WINDOW.as_nanos() {
            return;
        }
        self.before = Some(now);
        let (share, steps) = (now.share(before, self.cpus), self.control.steps);
        self.control.judge(share, self.limit);
        self.share.set((share * 1e6) as u64);
        self.steps.set(u64::from(self.control.steps));
        if self.control.steps == steps {
            return;
        }
        driver.tighten(self.control.steps);
        let (limit, percent, part) = (self.limit * 100.0, share * 100.0, 1_u32 << self.control.steps);
        match self.control.steps {
            0 => tracing::info!(
                "sched: {percent:.2} % of the host's CPU is well below overhead_limit ({limit} %); selection is as configured again"
            ),
            now if now < steps => tracing::info!(
                "sched: {percent:.2} % of the host's CPU is well below overhead_limit ({limit} %); up to a {part}th of the configured rates becomes spans"
            ),
            _ => tracing::warn!(
                "sched: the agent takes {percent:.2} % of the host's CPU, more than overhead_limit ({limit} %); up to a {part}th of the configured rates becomes spans, totals stay complete"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_all_cpus() {
        let before = Spent { at_ns: 1_000, process_ns: 50, programs_ns: 7 };
        let now = Spent { at_ns: 2_000, process_ns: 60, programs_ns: 17 };
        assert!((now.share(before, 2) - 0.01).abs() < 1e-12);
        assert!(before.share(now, 0).is_finite());
    }

    #[test]
    fn it_tightens_at_once_and_loosens_slowly() {
        let mut control = Control::default();
        for _ in 0..20 {
            control.judge(0.02, 0.01);
        }
        assert_eq!(control.steps, STEPS_MAX);
        for share in [0.001, 0.001, 0.009, 0.001, 0.001] {
            control.judge(share, 0.01);
        }
        assert_eq!(control.steps, STEPS_MAX, "it was not calm for long enough");
        control.judge(0.001, 0.01);
        assert_eq!(control.steps, STEPS_MAX - 1);
        for _ in 0..3 * STEPS_MAX {
            control.judge(0.0, 0.01);
        }
        assert_eq!(control, Control::default());
    }
}
