//! Switches without end: pairs of threads that pass a byte to and fro. Played by this test binary as a child.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The word that makes this binary a load instead of a runner.
pub(crate) const WORD: &str = "--switch-load";

/// What the load counted of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    pub(super) round_trips: u64,
    /// Of its threads, as the kernel counts.
    pub(super) running_s: f64,
    pub(super) switches: u64,
}

/// Runs pairs for so many seconds behind a command that executes its arguments; `one_cpu` pins them all.
pub(super) fn run(mut wrapped: Command, seconds: f64, pairs: usize, one_cpu: bool) -> Result<std::process::Child> {
    let pinned = if one_cpu { "1" } else { "0" };
    wrapped.args([WORD, &seconds.to_string(), &pairs.to_string(), pinned]);
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the load")
}

/// The path of this binary.
pub(super) fn program() -> Result<String> {
    Ok(std::env::current_exe()?.display().to_string())
}

/// Waits for a load's account.
pub(super) fn account(child: std::process::Child) -> Result<Account> {
    let Output { status, stdout, .. } = child.wait_with_output()?;
    ensure!(status.success(), "the load ended with {status}");
    let text = String::from_utf8(stdout)?;
    let mut fields = text.split_whitespace();
    let mut next = || fields.next().context("a short account");
    Ok(Account { round_trips: next()?.parse()?, running_s: next()?.parse()?, switches: next()?.parse()? })
}

/// As a child: runs the load and prints its account; `None` where the arguments ask for something else.
pub(crate) fn as_child(arguments: &[String]) -> Option<ExitCode> {
    let [word, seconds, pairs, pinned] = arguments else { return None };
    if word != WORD {
        return None;
    }
    let (seconds, pairs) = (seconds.parse().ok()?, pairs.parse().ok()?);
    if pinned == "1" {
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first).ok()?;
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let threads: Vec<_> = (0..pairs).flat_map(|_| pair(end)).collect();
    let mut sum = Account::default();
    for thread in threads {
        let one = thread.join().ok()?.ok()?;
        sum.round_trips += one.round_trips;
        sum.running_s += one.running_s;
        sum.switches += one.switches;
    }
    println!("{} {} {}", sum.round_trips, sum.running_s, sum.switches);
    Some(ExitCode::SUCCESS)
}

type Half = std::thread::JoinHandle<Result<Account>>;

fn pair(end: Instant) -> Vec<Half> {
    let (Ok((read_a, write_a)), Ok((read_b, write_b))) = (std::io::pipe(), std::io::pipe()) else { return Vec::new() };
    let first = std::thread::spawn(move || half(read_b, write_a, Some(end)));
    let second = std::thread::spawn(move || half(read_a, write_b, None));
    vec![first, second]
}

/// The half with an end begins each round and hangs up at the end; the other follows until then.
fn half(mut from: impl Read, mut to: impl Write, end: Option<Instant>) -> Result<Account> {
    let mut account = Account::default();
    let mut byte = [0];
    loop {
        if let Some(end) = end {
            if account.round_trips % 256 == 0 && Instant::now() >= end {
                break;
            }
            to.write_all(&byte)?;
        }
        if from.read(&mut byte)? == 0 {
            break;
        }
        match end {
            Some(_) => account.round_trips += 1,
            None => to.write_all(&byte)?,
        }
    }
    drop(to);
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let ran: f64 = schedstat.split_whitespace().next().context("schedstat")?.parse()?;
    account.running_s = ran / 1e9;
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    account.switches = counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum();
    Ok(account)
}
