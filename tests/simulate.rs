//! A seeded scheduler drives the reference machine: CPUs, migrations, reused ids, exits, skewed clocks, lost
//! events. Every interval must be one that happened; time must add up; nothing may be invented over a loss.
//!
//! `SCHEDSCOPE_SIMULATED_EVENTS=1000000` makes it long. A failure is cut down to a short list of events.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a simulated world that breaks its own rules ends the test")]

#[path = "simulate/contexts.rs"]
mod contexts;
#[path = "simulate/mutate.rs"]
mod mutate;
#[path = "simulate/requests.rs"]
mod requests;
#[path = "simulate/texts.rs"]
mod texts;

use std::collections::{BTreeMap, HashMap};

use schedscope::model::{BootNs, Cycle, SchedState};
use schedscope::timeline::{
    Comm, Event, Limits, Machine, Named, Observer, Record, SwitchOut, ThreadTotals, WakeupKind,
};

/// What may happen in a world.
#[derive(Debug, Clone, Copy)]
struct World {
    cpus: u32,
    threads: u32,
    /// Stamps of CPU n are ahead by n times this, ns.
    skew_ns: u64,
    /// One of so many events is lost, with a mark; 0: none.
    lose_one_in: u64,
    seed: u64,
}

/// A stay that really happened, by the stamps as they are recorded.
type Stay = (u64, u64);

/// The truth about one thread id.
#[derive(Debug, Default)]
struct Truth {
    waits: Vec<Stay>,
    runs: Vec<Stay>,
    blocks: Vec<Stay>,
    voluntary: u64,
    involuntary: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Absent,
    Blocked { since: u64 },
    Queued { since: u64 },
    Running { since: u64 },
}

struct Simulation {
    world: World,
    random: fastrand::Rng,
    now: u64,
    states: Vec<State>,
    running: Vec<u32>,
    queue: Vec<u32>,
    truth: BTreeMap<u32, Truth>,
    events: Vec<Record>,
}

fn named(tid: u32) -> Named {
    Named::new(tid, Comm::from(format!("t{tid}").as_str()))
}

impl Simulation {
    fn new(world: World) -> Self {
        Self {
            world,
            random: fastrand::Rng::with_seed(world.seed),
            now: 1_000_000_000,
            states: vec![State::Absent; world.threads as usize + 1],
            running: vec![0; world.cpus as usize],
            queue: Vec::new(),
            truth: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    fn stamp(&self, cpu: u32) -> u64 {
        self.now + u64::from(cpu) * self.world.skew_ns
    }

    fn emit(&mut self, cpu: u32, event: Event) {
        self.events.push(Record::new(self.stamp(cpu), cpu, event));
    }

    fn truth(&mut self, tid: u32) -> &mut Truth {
        self.truth.entry(tid).or_default()
    }

    /// One thing happens.
    fn step(&mut self) {
        self.now += 1 + self.random.u64(0..20_000);
        let cpu = self.random.u32(0..self.world.cpus);
        let tid = self.random.u32(1..=self.world.threads);
        match self.states[tid as usize] {
            State::Absent => self.wake(cpu, tid, WakeupKind::New),
            State::Blocked { .. } if self.random.bool() => self.wake(cpu, tid, WakeupKind::Wakeup),
            State::Queued { .. } if self.random.u8(0..4) == 0 => {
                let to = self.random.u32(0..self.world.cpus);
                self.emit(cpu, Event::Migrate { task: named(tid), to });
            }
            _ => self.switch(cpu),
        }
    }

    fn wake(&mut self, cpu: u32, tid: u32, kind: WakeupKind) {
        let at = self.stamp(cpu);
        if let State::Blocked { since } = self.states[tid as usize] {
            self.truth(tid).blocks.push((since, at));
        }
        self.states[tid as usize] = State::Queued { since: at };
        self.queue.push(tid);
        let target_cpu = self.random.u32(0..self.world.cpus);
        self.emit(cpu, Event::Wakeup { task: named(tid), kind, target_cpu });
    }

    fn switch(&mut self, cpu: u32) {
        let prev = self.running[cpu as usize];
        let next = if self.queue.is_empty() { 0 } else { self.queue.remove(self.random.usize(0..self.queue.len())) };
        if prev == 0 && next == 0 {
            return;
        }
        let at = self.stamp(cpu);
        let mut out = "R";
        if prev != 0 {
            let State::Running { since } = self.states[prev as usize] else { panic!("{prev} does not run") };
            out = ["R", "R+", "S", "D", "S", "X"][self.random.usize(0..6)];
            let truth = self.truth(prev);
            truth.runs.push((since, at));
            *(if out.starts_with('R') { &mut truth.involuntary } else { &mut truth.voluntary }) += 1;
            self.states[prev as usize] = match out {
                "R" | "R+" => {
                    self.queue.push(prev);
                    State::Queued { since: at }
                }
                "X" => State::Absent,
                _ => State::Blocked { since: at },
            };
        }
        if next != 0 {
            let State::Queued { since } = self.states[next as usize] else { panic!("{next} is not queued") };
            self.truth(next).waits.push((since, at));
            self.states[next as usize] = State::Running { since: at };
        }
        self.running[cpu as usize] = next;
        self.emit(
            cpu,
            Event::Switch { prev: named(prev), out: SwitchOut::from_text(out.as_bytes()), next: named(next) },
        );
    }

    /// The events as they arrive: some lost, with a mark in their place.
    fn recorded(&mut self) -> Vec<Record> {
        let mut losing = vec![false; self.world.cpus as usize];
        let mut arrived = Vec::with_capacity(self.events.len());
        for event in std::mem::take(&mut self.events) {
            let odds = self.world.lose_one_in;
            let cpu = event.cpu as usize;
            // losses come in bursts, as a full buffer gives them
            let goes_on = losing[cpu] && self.random.u8(0..3) != 0;
            losing[cpu] = odds != 0 && (goes_on || self.random.u64(0..odds) == 0);
            if losing[cpu] {
                arrived.push(Record::new(event.at.0, event.cpu, Event::Lost { count: 1, everywhere: false }));
            } else {
                arrived.push(event);
            }
        }
        arrived
    }
}

#[derive(Default)]
struct Seen {
    cycles: Vec<Cycle>,
    waits: BTreeMap<u32, Vec<u64>>,
    lives: Vec<ThreadTotals>,
}

impl Observer for Seen {
    fn cycle(&mut self, cycle: Cycle) {
        self.cycles.push(cycle);
    }

    fn wait_ended(&mut self, tid: u32, _cpu: u32, ns: u64) {
        self.waits.entry(tid).or_default().push(ns);
    }

    fn life_ended(&mut self, totals: ThreadTotals) {
        self.lives.push(totals);
    }
}

/// What must hold of any events at all; that nothing overlaps only where no clock was set.
fn check_identity(records: &[Record], clock_was_set: bool) -> Result<(Machine, Seen), String> {
    let mut machine = Machine::new(Limits::default());
    let mut seen = Seen::default();
    for record in records {
        machine.on(record, &mut seen);
    }
    let now = machine.now();
    let open: Vec<ThreadTotals> = machine.totals_at(now).collect();
    for life in seen.lives.iter().chain(&open) {
        let sum: u64 = SchedState::ALL.iter().map(|state| life.ns(*state)).sum();
        if sum != life.lifetime_ns {
            return Err(format!("states of {} add up to {sum}, its life is {}", life.task.tid, life.lifetime_ns));
        }
        if life.task.tid == 0 {
            return Err("the idle task has an account".to_owned());
        }
    }
    // a reused id is another thread: clocks of two CPUs may put its begin before the end of the one before
    let mut ends: HashMap<(u32, BootNs), u64> = HashMap::new();
    for cycle in &seen.cycles {
        let begin = cycle.start().0;
        let last = ends.insert((cycle.task.tid, cycle.task.start), cycle.end.0).unwrap_or(0);
        if begin < last && !clock_was_set {
            return Err(format!("cycles of {} overlap: {begin} is before {last}", cycle.task.tid));
        }
    }
    seen.lives.extend(open);
    Ok((machine, seen))
}

/// Whether a stay of this length that ends at `end` happened, up to the skew of the clocks.
fn happened(stays: &[Stay], end: u64, ns: u64, slack: u64) -> bool {
    let near = stays.partition_point(|stay| stay.1 + slack < end);
    stays[near..]
        .iter()
        .take_while(|stay| stay.1 <= end + slack)
        .any(|stay| (stay.1 - stay.0.min(stay.1)).abs_diff(ns) <= slack)
}

/// What must hold against the truth.
fn check_truth(world: World, records: &[Record], truth: &BTreeMap<u32, Truth>) -> Result<(), String> {
    let (machine, seen) = check_identity(records, false)?;
    let slack = world.skew_ns * u64::from(world.cpus);
    for cycle in &seen.cycles {
        let tid = cycle.task.tid;
        let of = truth.get(&tid).ok_or_else(|| format!("thread {tid} never lived"))?;
        let run_start = cycle.run_start().0;
        if !happened(&of.runs, cycle.end.0, cycle.run_ns, slack) {
            return Err(format!("{tid} never ran for {} ns until {}", cycle.run_ns, cycle.end.0));
        }
        if let Some(wait) = cycle.wait_ns
            && !happened(&of.waits, run_start, wait, slack)
        {
            return Err(format!("{tid} never waited for {wait} ns until {run_start}"));
        }
        if let (Some(wait), Some(block)) = (cycle.wait_ns, cycle.block_ns)
            && block > 0
            && !happened(&of.blocks, run_start - wait, block, slack)
        {
            return Err(format!("{tid} was never blocked for {block} ns until {}", run_start - wait));
        }
    }
    let discards = machine.discards();
    if world.lose_one_in == 0 {
        let runs: usize = truth.values().map(|of| of.runs.len()).sum();
        // where clocks are skewed a run may be given up, and is counted then
        let given_up = if world.skew_ns > 0 { discards.runs_without_start as usize } else { 0 };
        if seen.cycles.len() + given_up != runs {
            return Err(format!("{} cycles of {runs} runs; {discards:?}", seen.cycles.len()));
        }
        let (mut voluntary, mut involuntary) = (0, 0);
        for life in &seen.lives {
            voluntary += life.voluntary;
            involuntary += life.involuntary;
        }
        let wanted = truth.values().fold((0, 0), |sum, of| (sum.0 + of.voluntary, sum.1 + of.involuntary));
        if (voluntary, involuntary) != wanted {
            return Err(format!("{voluntary} voluntary and {involuntary} involuntary switches, there were {wanted:?}"));
        }
    }
    if world.lose_one_in == 0 && world.skew_ns == 0 {
        let waits: usize = truth.values().map(|of| of.waits.len()).sum();
        let got: usize = seen.waits.values().map(Vec::len).sum();
        if got != waits || discards.clock_anomalies + discards.gaps + discards.waits_without_start > 0 {
            return Err(format!("{got} waits of {waits}; {discards:?}"));
        }
        let unknown: u64 = seen.lives.iter().map(|life| life.ns(SchedState::Unknown)).sum();
        if unknown > 0 {
            return Err(format!("{unknown} ns unknown although nothing was lost"));
        }
    }
    Ok(())
}

/// The shortest list of events, by leaving out ever smaller portions, that still fails.
fn shrink(records: &[Record], fails: impl Fn(&[Record]) -> bool) -> Vec<Record> {
    let mut kept = records.to_vec();
    // events behind the first failure do not matter
    let (mut low, mut high) = (0, kept.len());
    while low < high {
        let middle = (low + high) / 2;
        if fails(&kept[..middle]) { high = middle } else { low = middle + 1 }
    }
    kept.truncate(high);
    let mut portion = (kept.len() / 2).max(1);
    while portion > 0 && kept.len() <= 2_000 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + portion).min(kept.len()));
            if fails(&fewer) { kept = fewer } else { at += portion }
        }
        portion /= 2;
    }
    kept
}

fn play(world: World, steps: usize) {
    let mut simulation = Simulation::new(world);
    for _ in 0..steps {
        simulation.step();
    }
    let records = simulation.recorded();
    let truth = &simulation.truth;
    if let Err(why) = check_truth(world, &records, truth) {
        let short = if check_identity(&records, false).is_err() {
            shrink(&records, |records| check_identity(records, false).is_err())
        } else {
            Vec::new()
        };
        let list: Vec<String> = short.iter().take(60).map(|record| format!("{record:?}")).collect();
        panic!("{world:?}: {why}\nevents that break the identity alone, if any:\n{}", list.join("\n"));
    }
}

/// A million by wish, fewer by default.
fn steps() -> usize {
    std::env::var("SCHEDSCOPE_SIMULATED_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(60_000)
}

#[test]
fn everything_is_accounted_when_nothing_is_lost() {
    play(World { cpus: 8, threads: 60, skew_ns: 0, lose_one_in: 0, seed: 1 }, steps());
}

#[test]
fn skewed_clocks_invent_nothing() {
    play(World { cpus: 4, threads: 20, skew_ns: 700, lose_one_in: 0, seed: 2 }, steps());
}

#[test]
fn losses_invent_nothing() {
    for seed in 3..8 {
        play(World { cpus: 4, threads: 30, skew_ns: 0, lose_one_in: 300, seed }, steps() / 5);
    }
}

#[test]
fn all_troubles_at_once_invent_nothing() {
    for seed in 10..15 {
        play(World { cpus: 16, threads: 100, skew_ns: 300, lose_one_in: 1000, seed }, steps() / 5);
    }
}

/// Any records in any order: the identity holds, nothing panics.
#[test]
fn nonsense_keeps_the_identity() {
    let mut random = fastrand::Rng::with_seed(77);
    for round in 0..40 {
        let records: Vec<Record> = (0..steps() / 60).map(|_| nonsense(&mut random)).collect();
        if let Err(why) = check_identity(&records, true) {
            let short = shrink(&records, |records| check_identity(records, true).is_err());
            panic!("round {round}: {why}\n{short:#?}");
        }
    }
}

fn nonsense(random: &mut fastrand::Rng) -> Record {
    let tid = |random: &mut fastrand::Rng| random.u32(0..6);
    let task = named(tid(random));
    let states = ["R", "R+", "S", "D", "X", "Z", "t", "?", "I"];
    let event = match random.u8(0..20) {
        0 => Event::Exit { task },
        1 => Event::Fork { parent: tid(random), child: task, same_process: Some(random.bool()) },
        2 => Event::TakeOver { from: tid(random), to: tid(random) },
        3 => Event::Lost { count: random.u64(0..9), everywhere: random.bool() },
        4 => Event::Migrate { task, to: random.u32(0..70_000) },
        5..=9 => {
            let kind = [WakeupKind::Waking, WakeupKind::Wakeup, WakeupKind::New][random.usize(0..3)];
            Event::Wakeup { task, kind, target_cpu: random.u32(0..4) }
        }
        _ => {
            let out = SwitchOut::from_text(states[random.usize(0..states.len())].as_bytes());
            Event::Switch { prev: task, out, next: named(tid(random)) }
        }
    };
    let at = match random.u8(0..100) {
        0 => random.u64(0..1 << 50),
        1 => 0,
        _ => 1_000_000 + random.u64(0..100_000_000),
    };
    Record { at: BootNs(at), ..Record::new(0, random.u32(0..4), event) }
}
