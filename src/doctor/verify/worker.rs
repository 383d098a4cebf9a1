//! The load: small programs that are this binary again, each with one habit. They say `ready`, begin when they
//! read a line, say `done`, and then sleep until their input ends, so that their counters can be read at rest.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The subcommand that a worker is started with.
pub const SUBCOMMAND: &str = "doctor-load";

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Uses all the CPU it gets.
    Burn,
    /// Sleeps a millisecond at a time.
    Sleep,
    /// Two threads that wake each other through pipes.
    Pipe,
    /// Burns, and changes its own priority and CPUs meanwhile.
    Restless,
    /// Starts a thread after the other, each short.
    Threads,
    /// Starts a process after the other, each short.
    Processes,
    /// Ends at once.
    Nothing,
}

impl Habit {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Burn, "burn"),
        (Self::Sleep, "sleep"),
        (Self::Pipe, "pipe"),
        (Self::Restless, "restless"),
        (Self::Threads, "threads"),
        (Self::Processes, "processes"),
        (Self::Nothing, "nothing"),
    ];

    fn name(self) -> &'static str {
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
}

/// CPUs that we may use, ascending.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn pin(cpus: &[usize]) {
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
    writeln!(out, "ready")?;
    out.flush()?;
    input.read_line(&mut String::new())?;
    let end = Instant::now() + length;
    match habit {
        Habit::Burn => burn_until(end),
        Habit::Sleep => sleep_until(end),
        Habit::Restless => be_restless(end),
        Habit::Threads => threads_until(end),
        Habit::Processes => processes_until(end)?,
        Habit::Pipe => partner.iter().try_for_each(|partner| partner.play_until(end))?,
        Habit::Nothing => {}
    }
    writeln!(out, "done")?;
    out.flush()?;
    io::copy(input, &mut io::sink()).map(drop)
}

fn burn_until(end: Instant) {
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

fn be_restless(end: Instant) {
    let cpus = allowed_cpus();
    let first = getpriority_process(None).unwrap_or(0);
    let mut turn: usize = 0;
    while Instant::now() < end {
        burn_until(end.min(Instant::now() + Duration::from_millis(10)));
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

fn threads_until(end: Instant) {
    while Instant::now() < end {
        let short = std::thread::spawn(|| burn_until(Instant::now() + Duration::from_micros(300)));
        let _ = short.join();
    }
}

fn processes_until(end: Instant) -> io::Result<()> {
    let own = own_program()?;
    while Instant::now() < end {
        Command::new(&own).args([SUBCOMMAND, Habit::Nothing.name(), "0"]).stdin(Stdio::null()).status()?;
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

fn own_program() -> io::Result<PathBuf> {
    // the link, not what it points to: that may have been replaced since
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { std::env::current_exe() }
}

/// A started worker; dropping it ends it.
pub(super) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts one, which waits for its turn.
    pub(super) fn start(habit: Habit, length: Duration, cpu: Option<usize>) -> io::Result<Self> {
        let mut command = Command::new(own_program()?);
        command.args([SUBCOMMAND, habit.name(), &length.as_millis().to_string()]);
        command.args(cpu.map(|cpu| cpu.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("a worker without an output"))?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next word.
    pub(super) fn says(&mut self, word: &str) -> Result<(), String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if read > 0 && line.trim_end() == word {
            Ok(())
        } else {
            Err(format!("a worker said `{}` for `{word}`", line.trim_end()))
        }
    }

    /// Lets it begin.
    pub(super) fn go(&mut self) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("a worker without an input")?;
        input.write_all(b"go\n").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
