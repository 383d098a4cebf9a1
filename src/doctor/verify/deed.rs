//! What is done to the load while it runs: moves, stops, a cgroup made late. Each is taken back at the end.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::unistd;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Group;
use super::load::Kind;
use super::stage::Stage;
use super::unrest::{Policy, set_policy};
use crate::host::TaskSwitches;
use crate::receivers::sched::Meter;

/// Between two deeds to one group.
const EVERY: Duration = Duration::from_millis(250);
/// For a task to be stopped; it first has to get a CPU.
const STOP_MAX: Duration = Duration::from_secs(2);
/// For a cgroup to be throttled: some periods.
const THROTTLED_MAX: Duration = Duration::from_secs(1);

/// Does to each group what is to be done, until the time is over.
pub(super) fn play(
    stage: &mut Stage,
    groups: &mut [Group],
    length: Duration,
    meter: &mut Meter<'_>,
) -> Result<(), String> {
    let end = Instant::now() + length;
    let mut is_away = false;
    // what was done is taken back, however late it became
    while is_away || Instant::now() < end {
        std::thread::sleep(EVERY.min(end.saturating_duration_since(Instant::now())));
        is_away = !is_away && Instant::now() + EVERY < end;
        for group in groups.iter_mut().filter(|group| group.not_played.is_none()) {
            group.act(stage, is_away)?;
            if group.part.has_two() && !meter.offers().open_iterator {
                // as the agent does when it hears of a move: what the other threads did until now is the old cgroup's
                meter.read()?;
            }
        }
    }
    Ok(())
}

impl Group {
    fn act(&mut self, stage: &mut Stage, is_away: bool) -> Result<(), String> {
        match self.part.kind {
            Kind::Moved => self.workers.iter().try_for_each(|worker| stage.enter(self.side(is_away), worker.pid())),
            Kind::ThreadMoved => {
                self.second_threads().into_iter().try_for_each(|tid| stage.enter_thread(self.side(is_away), tid))
            }
            Kind::Late => self.go_late(stage),
            Kind::Policies => self.change_policy(is_away),
            Kind::Stopped => self.stop(is_away),
            Kind::Traced => self.trace(is_away),
            Kind::Frozen => stage.freeze(&self.path, is_away),
            Kind::Plain | Kind::Short | Kind::Inside => Ok(()),
        }
    }

    fn side(&self, is_away: bool) -> &str {
        self.away.as_ref().filter(|_| is_away).unwrap_or(&self.path)
    }

    /// One thread of each worker that is not its first.
    fn second_threads(&self) -> Vec<u32> {
        let second = |pid: u32| {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
            threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).find(|tid| *tid != pid)
        };
        self.workers.iter().filter_map(|worker| second(worker.pid())).collect()
    }

    /// The second cgroup comes into being while the parent has no quota left.
    fn go_late(&mut self, stage: &mut Stage) -> Result<(), String> {
        if self.away.is_some() {
            return Ok(());
        }
        let owner = self.quota_owner.clone().unwrap_or_default();
        let give_up = Instant::now() + THROTTLED_MAX;
        let first = stage.throttled_periods(&owner);
        while stage.throttled_periods(&owner) == first && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        let away = stage.group(&format!("{}/second", self.part.name))?;
        self.workers.iter().try_for_each(|worker| stage.enter(&away, worker.pid()))?;
        self.away = Some(away);
        Ok(())
    }

    /// Through all of them; SCHED_FIFO for no longer than it takes.
    fn change_policy(&mut self, is_away: bool) -> Result<(), String> {
        let policies = if is_away { [Policy::Fifo, Policy::Batch] } else { [Policy::Idle, Policy::Other] };
        for worker in &self.workers {
            for policy in policies {
                // one that is refused leaves the one before; none at all is told
                let set = set_policy(worker.pid(), policy);
                self.not_played = set.err().filter(|_| policy != Policy::Fifo).or_else(|| self.not_played.take());
            }
        }
        Ok(())
    }

    fn stop(&mut self, is_away: bool) -> Result<(), String> {
        let begun = Instant::now();
        for worker in &self.workers {
            let sleeps = sleeps_of(worker.pid());
            let signal = if is_away { Signal::STOP } else { Signal::CONT };
            kill_process(pid(worker.pid())?, signal).map_err(|error| format!("{signal:?}: {error}"))?;
            if is_away {
                await_stop(worker.pid(), sleeps);
            }
        }
        self.stopped.note(begun, is_away);
        Ok(())
    }

    fn trace(&mut self, is_away: bool) -> Result<(), String> {
        let begun = Instant::now();
        for worker in &self.workers {
            let traced = unistd::Pid::from_raw(i32::try_from(worker.pid()).unwrap_or(0));
            if is_away {
                if let Err(error) = ptrace::seize(traced, ptrace::Options::empty()) {
                    self.not_played = Some(format!("ptrace is not allowed here: {error}"));
                    return Ok(());
                }
                let sleeps = sleeps_of(worker.pid());
                ptrace::interrupt(traced).map_err(|error| format!("ptrace: {error}"))?;
                waitpid(Some(pid(worker.pid())?), WaitOptions::empty()).map_err(|error| format!("ptrace: {error}"))?;
                await_stop(worker.pid(), sleeps);
            } else if self.stopped.since.is_some() {
                ptrace::detach(traced, None).map_err(|error| format!("ptrace: {error}"))?;
            }
        }
        self.stopped.note(begun, is_away);
        Ok(())
    }
}

/// How long a task was stopped, as far as we can tell from outside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stops {
    /// From when it was seen stopped to when it was let go.
    least: Duration,
    /// From when it was told to stop to when it had been let go.
    most: Duration,
    /// Both begins of a stop that goes on.
    since: Option<(Instant, Instant)>,
}

impl Stops {
    /// `begun`: before it was told.
    fn note(&mut self, begun: Instant, is_away: bool) {
        let now = Instant::now();
        if let Some((told, seen)) = self.since.take() {
            self.least += begun - seen;
            self.most += now - told;
        }
        self.since = is_away.then_some((begun, now));
    }

    /// The length within what we know that is nearest to `seconds`.
    pub(super) fn nearest(&self, seconds: f64) -> f64 {
        seconds.clamp(self.least.as_secs_f64(), self.most.as_secs_f64())
    }
}

fn pid(pid: u32) -> Result<Pid, String> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no such pid").to_string())
}

/// How often a task has left its CPU of its own.
fn sleeps_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    TaskSwitches::parse(&status).map_or(0, |switches| switches.voluntary)
}

/// Waits until a task has left its CPU to stop. Its state says so earlier, when it may yet be preempted: then it
/// waits for a CPU, to stop there.
fn await_stop(pid: u32, sleeps: u64) {
    let give_up = Instant::now() + STOP_MAX;
    while Instant::now() < give_up {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
        if is_stopped && sleeps_of(pid) > sleeps {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
