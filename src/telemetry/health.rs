//! Whether the agent does its work: its phase, and what a component says it cannot do meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Where in its life the agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Components are being started.
    #[default]
    Starting,
    /// Every component has started.
    Ready,
    /// The pipelines drain.
    Stopping,
}

/// The phase, and the components that run with less than was asked of them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    degraded: BTreeMap<String, String>,
    ended_inputs: BTreeSet<String>,
}

impl Health {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Enters a phase. A new start forgets what components said before it.
    pub fn enter(&self, phase: Phase) {
        self.with(|state| {
            state.phase = phase;
            if phase == Phase::Starting {
                state.degraded.clear();
                state.ended_inputs.clear();
            }
        });
    }

    /// A component runs with less than was asked of it; the reason is shown to whoever asks.
    pub fn degrade(&self, component: &str, reason: impl Into<String>) {
        self.with(|state| state.degraded.insert(component.to_owned(), reason.into()));
    }

    /// A component does all that was asked of it again.
    pub fn recover(&self, component: &str) {
        self.with(|state| state.degraded.remove(component));
    }

    /// A receiver has delivered all that its input holds; nothing more will come of it (a file, not a kernel).
    pub fn input_ended(&self, receiver: &str) {
        self.with(|state| state.ended_inputs.insert(receiver.to_owned()));
    }

    /// Receivers whose input has ended, in order of id.
    pub fn ended_inputs(&self) -> Vec<String> {
        self.with(|state| state.ended_inputs.iter().cloned().collect())
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        self.with(|state| state.phase)
    }

    /// Component id and reason, in order of id.
    pub fn degraded(&self) -> Vec<(String, String)> {
        self.with(|state| state.degraded.iter().map(|(id, reason)| (id.clone(), reason.clone())).collect())
    }

    /// Ready, with nothing degraded.
    pub fn is_well(&self) -> bool {
        self.with(|state| state.phase == Phase::Ready && state.degraded.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_well_only_when_ready_and_nothing_is_degraded() {
        let health = Health::default();
        assert!(!health.is_well());
        health.enter(Phase::Ready);
        assert!(health.is_well());
        health.degrade("sched", "no BPF");
        assert!(!health.is_well());
        assert_eq!(health.degraded(), [("sched".to_owned(), "no BPF".to_owned())]);
        health.recover("sched");
        assert!(health.is_well());
    }

    #[test]
    fn a_new_start_forgets_old_reasons() {
        let health = Health::default();
        health.degrade("sched", "no BPF");
        health.enter(Phase::Starting);
        health.enter(Phase::Ready);
        assert!(health.is_well());
    }
}
