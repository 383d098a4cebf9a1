//! What the scheduler knows of a worker, changed while it runs: policy, priority, CPUs, name, program.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_name;
use rustix::time::{ClockId, clock_gettime};

use super::habit::{Habit, SUBCOMMAND, allowed_cpus, burn_until, own_program, pin};

/// Between two changes.
const TURN: Duration = Duration::from_millis(10);
/// Between two programs in one process: to begin one takes some milliseconds.
const PROGRAM: Duration = Duration::from_millis(100);

/// A scheduling policy, by its letter for `chrt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Other,
    Batch,
    Idle,
    Fifo,
}

/// Gives a thread a policy. By util-linux' or busybox' `chrt`: no safe library has the call.
///
/// # Errors
/// Why this host does not allow it.
pub(super) fn set_policy(tid: u32, policy: Policy) -> Result<(), String> {
    let (letter, priority) = match policy {
        Policy::Other => ("-o", "0"),
        Policy::Batch => ("-b", "0"),
        Policy::Idle => ("-i", "0"),
        Policy::Fifo => ("-f", "1"),
    };
    let mut chrt = Command::new("chrt");
    let output = chrt.args([letter, "-p", priority, &tid.to_string()]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("chrt, which sets a policy: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", "))
}

/// What a habit begins with.
///
/// # Errors
/// Why this host does not allow it.
pub(super) fn take_policy(habit: Habit) -> Result<(), String> {
    let own = std::process::id();
    match habit {
        Habit::Nice => setpriority_process(None, 10).map_err(|error| format!("nice: {error}")),
        Habit::Idle => set_policy(own, Policy::Idle),
        Habit::Batch => set_policy(own, Policy::Batch),
        Habit::Fifo => set_policy(own, Policy::Fifo),
        _ => Ok(()),
    }
}

pub(super) fn renice_until(end: Instant) {
    let cpus = allowed_cpus();
    let first = getpriority_process(None).unwrap_or(0);
    let mut turn: usize = 0;
    while Instant::now() < end {
        burn_until(end.min(Instant::now() + TURN));
        turn += 1;
        // lowering it again needs a right that we may not have
        let _ = setpriority_process(None, if turn.is_multiple_of(2) { first } else { first + 3 });
        let of =
            [cpus.first(), cpus.get(1).or_else(|| cpus.first())].into_iter().flatten().copied().collect::<Vec<_>>();
        if let Some(cpu) = of.get(turn / 2 % of.len().max(1)) {
            pin(&[*cpu]);
        }
    }
    let _ = setpriority_process(None, first);
}

/// A clock that goes on through a change of program.
pub(super) fn clock() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Runs for a moment and then becomes this program anew; returns when the time is over.
///
/// # Errors
/// Where the program cannot be begun.
pub(super) fn exec_until(end: Instant, next: Habit) -> io::Result<()> {
    set_name(c"a name for now")?;
    burn_until(end.min(Instant::now() + PROGRAM));
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(());
    }
    let mut anew = Command::new(own_program()?);
    anew.args([SUBCOMMAND, next.name(), &(clock() + left).as_millis().to_string()]);
    if next == Habit::Executed {
        return Err(anew.exec());
    }
    let failed = std::thread::spawn(move || anew.exec()).join();
    Err(failed.unwrap_or_else(|_| io::Error::other("a thread broke")))
}
