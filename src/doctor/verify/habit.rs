//! The load: small programs that are this binary again, each with one habit. They say `ready` (or `cannot` and why),
//! begin when they read a line, say `done`, and then sleep until their input ends, so that their counters can be
//! read at rest.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::unrest;

/// The subcommand that a worker is started with.
pub const SUBCOMMAND: &str = "doctor-load";
/// Short processes that are there at a time.
const STORM: usize = 4;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Uses all the CPU it gets.
    Burn,
    /// Burns at nice 10.
    Nice,
    /// Burns by SCHED_IDLE.
    Idle,
    /// Burns by SCHED_BATCH.
    Batch,
    /// Sleeps a millisecond at a time.
    Sleep,
    /// The same by SCHED_FIFO.
    Fifo,
    /// Two threads that wake each other through pipes.
    Pipe,
    /// Three threads that burn.
    Team,
    /// Burns, and changes its own priority and CPUs meanwhile.
    Restless,
    /// Burns, takes another name, and begins its program anew, from its first thread.
    Exec,
    /// The same from a second thread, which takes over the first one's id.
    ExecThread,
    /// What the first of these becomes; its time ends when the clock shows it, not after it.
    Executed,
    /// What the second becomes.
    ExecutedThread,
    /// Starts a thread after the other, each short.
    Threads,
    /// Starts processes, some at a time, each short.
    Processes,
    /// Ends at once.
    Nothing,
}

impl Habit {
    const ALL: [(Self, &'static str); 16] = [
        (Self::Burn, "burn"),
        (Self::Nice, "nice"),
        (Self::Idle, "idle"),
        (Self::Batch, "batch"),
        (Self::Sleep, "sleep"),
        (Self::Fifo, "fifo"),
        (Self::Pipe, "pipe"),
        (Self::Team, "team"),
        (Self::Restless, "restless"),
        (Self::Exec, "exec"),
        (Self::ExecThread, "exec-thread"),
        (Self::Executed, "executed"),
        (Self::ExecutedThread, "executed-thread"),
        (Self::Threads, "threads"),
        (Self::Processes, "processes"),
        (Self::Nothing, "nothing"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(habit, _)| *habit == self).map_or("", |(_, name)| name)
    }

    /// By its word on the command line.
    pub fn parse(word: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == word)
            .map(|(habit, _)| *habit)
            .ok_or_else(|| format!("no habit `{word}`"))
    }

    /// Has begun already, before it came to be this program.
    fn has_begun(self) -> bool {
        matches!(self, Self::Executed | Self::ExecutedThread)
    }
}

/// CPUs that we may use, ascending.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

pub(super) fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    // without the right to choose, the load is less mixed and still load
    let _ = sched_setaffinity(None, &set);
}

/// The body of a worker. `cpu`: the only one it uses.
///
/// # Errors
/// Where its input or output breaks.
pub fn work(
    habit: Habit,
    length: Duration,
    cpu: Option<usize>,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<()> {
    if habit == Habit::Nothing {
        return Ok(());
    }
    if let Some(cpu) = cpu {
        pin(&[cpu]);
    }
    let partner = if habit == Habit::Pipe { Some(Partner::start()?) } else { None };
    let team = if habit == Habit::Team { Some(Team::start(length)) } else { None };
    if let Err(why) = unrest::take_policy(habit) {
        writeln!(out, "cannot {why}")?;
        return out.flush();
    }
    if !habit.has_begun() {
        writeln!(out, "ready")?;
        out.flush()?;
        input.read_line(&mut String::new())?;
    }
    let length = if habit.has_begun() { length.saturating_sub(unrest::clock()) } else { length };
    let end = Instant::now() + length;
    match habit {
        Habit::Burn | Habit::Nice | Habit::Idle | Habit::Batch => burn_until(end),
        Habit::Sleep | Habit::Fifo => sleep_until(end),
        Habit::Restless => unrest::renice_until(end),
        Habit::Exec | Habit::Executed => unrest::exec_until(end, Habit::Executed)?,
        Habit::ExecThread | Habit::ExecutedThread => unrest::exec_until(end, Habit::ExecutedThread)?,
        Habit::Threads => threads_until(end),
        Habit::Processes => processes_until(end)?,
        Habit::Pipe => partner.iter().try_for_each(|partner| partner.play_until(end))?,
        Habit::Team => team.iter().for_each(|team| team.play_until(end)),
        Habit::Nothing => {}
    }
    writeln!(out, "done")?;
    out.flush()?;
    io::copy(input, &mut io::sink()).map(drop)
}

pub(super) fn burn_until(end: Instant) {
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn sleep_until(end: Instant) {
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
        burn_until(Instant::now() + Duration::from_micros(100));
    }
}

fn threads_until(end: Instant) {
    while Instant::now() < end {
        let short = std::thread::spawn(|| burn_until(Instant::now() + Duration::from_micros(300)));
        let _ = short.join();
    }
}

fn processes_until(end: Instant) -> io::Result<()> {
    let own = own_program()?;
    let start = |_| Command::new(&own).args([SUBCOMMAND, Habit::Nothing.name(), "0"]).stdin(Stdio::null()).spawn();
    while Instant::now() < end {
        let storm: Vec<_> = (0..STORM).map(start).collect();
        for child in storm {
            child?.wait()?;
        }
    }
    Ok(())
}

/// The other end of two pipes.
struct Partner {
    to: io::PipeWriter,
    from: io::PipeReader,
}

impl Partner {
    fn start() -> io::Result<Self> {
        let ((mut hears, to), (from, mut says)) = (io::pipe()?, io::pipe()?);
        std::thread::spawn(move || {
            let mut byte = [0; 1];
            while hears.read_exact(&mut byte).is_ok() && says.write_all(&byte).is_ok() {}
        });
        Ok(Self { to, from })
    }

    fn play_until(&self, end: Instant) -> io::Result<()> {
        let (mut to, mut from, mut byte) = (&self.to, &self.from, [0; 1]);
        while Instant::now() < end {
            to.write_all(&byte)?;
            from.read_exact(&mut byte)?;
        }
        Ok(())
    }
}

/// Two threads that burn beside the first, and then sleep as long as the process lives.
struct Team {
    go: Arc<Barrier>,
}

impl Team {
    fn start(length: Duration) -> Self {
        let go = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let go = Arc::clone(&go);
            std::thread::spawn(move || {
                go.wait();
                burn_until(Instant::now() + length);
                loop {
                    std::thread::park();
                }
            });
        }
        Self { go }
    }

    fn play_until(&self, end: Instant) {
        self.go.wait();
        burn_until(end);
    }
}

pub(super) fn own_program() -> io::Result<PathBuf> {
    // the link, not what it points to: that may have been replaced since
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { std::env::current_exe() }
}
