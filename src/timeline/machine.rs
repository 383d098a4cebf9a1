//! Pure: the reference machine: raw events in, cycles and totals out.
//!
//! It is told times and never reads a clock. Events of one CPU come in the order in which they happened;
//! those of different CPUs may be out of order by the skew of their clocks. Nothing is invented over a
//! gap. Where the source says that it lost events, every open wait and block is in doubt, and so are the
//! runs on the CPUs it names. Where a switch is found missing, it is the CPU's run and the waits queued there.
//! A mark that comes late cannot take back what other CPUs showed between the loss and it.
//! Throttled time cannot be told from these events (`Cycle::throttled_ns` is `None`, waits include it).

use std::sync::Arc;

use super::event::{Current, Event, Named, Record, WakeupKind};
use super::state::SwitchOut;
use super::thread::{Phase, Thread};
use super::threads::{Limits, Threads};
use super::totals::{Discards, ThreadTotals};
use crate::model::{BootNs, CgroupKey, Cycle, ProcessKey, RunEnd, Task, Waker};

/// Takes what the machine finds, as soon as it is certain.
pub trait Observer {
    /// A cycle is closed.
    fn cycle(&mut self, cycle: Cycle);

    /// A wait of known length ended on this CPU.
    fn wait_ended(&mut self, _tid: u32, _cpu: u32, _ns: u64) {}

    /// A thread's life is over, or it had to be forgotten; nothing more comes of it.
    fn life_ended(&mut self, _totals: ThreadTotals) {}
}

impl Observer for Vec<Cycle> {
    fn cycle(&mut self, cycle: Cycle) {
        self.push(cycle);
    }
}

/// More CPUs than any kernel can be built for (`NR_CPUS` is at most 8192).
const MAX_CPUS: usize = 16_384;

/// What a CPU is known to do.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Whom it runs: 0 idle; `None`: not known.
    running: Option<u32>,
    last: BootNs,
    seen: bool,
    /// How often a switch was missed here: who was queued here before may have run unseen.
    missed: u64,
}

/// The machine. See the module for what it promises.
#[derive(Debug, Default)]
pub struct Machine {
    slots: Vec<Slot>,
    threads: Threads,
    /// How often the source lost events: a wait or block that began before the latest loss is in doubt.
    losses: u64,
    discards: Discards,
    switches: u64,
    now: BootNs,
}

impl Machine {
    /// An empty machine.
    pub fn new(limits: Limits) -> Self {
        Self { threads: Threads::new(limits), ..Self::default() }
    }

    /// Takes one event.
    pub fn on(&mut self, record: &Record, out: &mut impl Observer) {
        let Some(cpu) = self.slot_of(record) else {
            return;
        };
        self.now = self.now.max(record.at);
        let at = record.at;
        if let Some(current) = record.current {
            self.check_current(cpu, current, &record.event);
        }
        match record.event {
            Event::Switch { prev, out: state, next } => self.on_switch(at, cpu, (prev, state, next), out),
            Event::Wakeup { task, kind, target_cpu } => self.on_wakeup(record, cpu, task, (kind, target_cpu), out),
            Event::Migrate { task, to } => self.on_migrate(at, task, to, out),
            Event::Fork { parent, child, same_process } => self.on_fork(at, parent, child, same_process, out),
            Event::Exit { task } => {
                if let Some(thread) = self.known(task, at, out) {
                    thread.exiting = true;
                }
            }
            Event::Rename { task } => {
                self.known(task, at, out);
            }
            Event::TakeOver { from, to } => self.on_take_over(cpu, from, to, out),
            Event::Identity { tid, process, start, kernel_thread, cgroup } => {
                let named = Named { tid, comm: None };
                if let Some(thread) = self.known(named, at, out) {
                    let task = &thread.task;
                    let old = (task.process, task.start, task.kernel_thread, task.cgroup);
                    if old != (process, start, kernel_thread, cgroup) {
                        thread.retask(|task| {
                            (task.process, task.start, task.kernel_thread, task.cgroup) =
                                (process, start, kernel_thread, cgroup);
                        });
                    }
                }
            }
            Event::Lost { count, everywhere } => {
                self.discards.lost_events = self.discards.lost_events.saturating_add(count);
                self.losses += 1;
                self.open_gap(if everywhere { 0..self.slots.len() } else { cpu..cpu + 1 });
            }
        }
    }

    /// The record's CPU as an index; `None` where no kernel has such a CPU. Looks after its clock.
    fn slot_of(&mut self, record: &Record) -> Option<usize> {
        let cpu = record.cpu as usize;
        if cpu >= MAX_CPUS {
            self.discards.impossible_cpus += 1;
            return None;
        }
        if cpu >= self.slots.len() {
            self.slots.resize(cpu + 1, Slot::default());
        }
        let slot = self.slots.get_mut(cpu)?;
        if matches!(record.event, Event::Lost { .. }) {
            // its time is that of its neighbours
            return Some(cpu);
        }
        // one CPU's clock cannot go back: it was set, or another capture begins here
        let went_back = slot.seen && record.at < slot.last;
        (slot.seen, slot.last) = (true, record.at);
        if went_back {
            self.discards.clock_anomalies += 1;
            self.losses += 1;
            self.open_gap(cpu..cpu + 1);
        }
        Some(cpu)
    }

    /// Events are missing on these CPUs.
    fn open_gap(&mut self, cpus: std::ops::Range<usize>) {
        self.discards.gaps += 1;
        for cpu in cpus {
            let Some(slot) = self.slots.get_mut(cpu) else {
                continue;
            };
            slot.missed += 1;
            let ran = slot.running.take();
            if let Some(thread) = ran.and_then(|tid| self.threads.get_mut(tid)) {
                thread.doubt(&mut self.discards);
            }
        }
    }

    fn on_switch(
        &mut self,
        at: BootNs,
        cpu: usize,
        (prev, state, next): (Named, SwitchOut, Named),
        out: &mut impl Observer,
    ) {
        self.switches += 1;
        self.runs(cpu, prev.tid);
        if prev.tid != 0 {
            self.leave(at, cpu as u32, prev, state, out);
        }
        if next.tid != 0 {
            // on another CPU by our account: its switch-out there was missed
            let elsewhere = self.threads.get(next.tid).and_then(|thread| match thread.phase {
                Phase::Running { cpu: on, .. } if on as usize != cpu => Some(on as usize),
                _ => None,
            });
            if let Some(slot) = elsewhere.and_then(|on| self.slots.get_mut(on)) {
                slot.running = None;
            }
            let (discards, losses) = (&mut self.discards, self.losses);
            if let Some(thread) = self.threads.named(next, at, discards, out) {
                let doubt = missed_on(&self.slots, thread.queued_on);
                if let Some(ns) = thread.switch_in(at, cpu as u32, (losses, doubt), discards) {
                    out.wait_ended(next.tid, cpu as u32, ns);
                }
            }
        }
        if let Some(slot) = self.slots.get_mut(cpu) {
            slot.running = Some(next.tid);
        }
    }

    /// `prev` of a switch leaves its CPU.
    fn leave(&mut self, at: BootNs, cpu: u32, prev: Named, state: SwitchOut, out: &mut impl Observer) {
        let losses = self.losses;
        let discards = &mut self.discards;
        let Some(thread) = self.threads.named(prev, at, discards, out) else {
            return;
        };
        if state.involuntary() {
            thread.totals.involuntary += 1;
        } else {
            thread.totals.voluntary += 1;
        }
        let next = if state.runnable() {
            (Phase::Queued { waking: false }, RunEnd::Preempted)
        } else if state.state.ends_life() {
            (Phase::Unknown, RunEnd::Exited)
        } else {
            (Phase::Blocked(state.state.block_state()), RunEnd::Blocked)
        };
        let ends = next.1 == RunEnd::Exited;
        if let Some(cycle) = thread.switch_out(at, cpu, losses, next, discards) {
            out.cycle(cycle);
        }
        thread.queued_on = Some(queue(&self.slots, cpu));
        if ends {
            self.threads.end(prev.tid, out);
        }
    }

    fn on_wakeup(
        &mut self,
        record: &Record,
        cpu: usize,
        task: Named,
        (kind, target_cpu): (WakeupKind, u32),
        out: &mut impl Observer,
    ) {
        if task.tid == 0 {
            return;
        }
        if kind == WakeupKind::New && self.threads.get(task.tid).is_some_and(|thread| !thread.fresh) {
            // a new life under an old id: the end of the old one was not seen
            self.threads.end(task.tid, out);
        }
        let waker = self.waker(record.current, cpu);
        let losses = self.losses;
        let discards = &mut self.discards;
        if let Some(thread) = self.threads.named(task, record.at, discards, out) {
            if kind == WakeupKind::New {
                thread.fresh = false;
                if thread.task.start == BootNs(0) {
                    thread.retask(|task| task.start = record.at);
                }
            }
            let doubt = missed_on(&self.slots, thread.queued_on);
            thread.wake(record.at, (losses, doubt), kind == WakeupKind::Waking, waker, discards);
            thread.queued_on = Some(queue(&self.slots, target_cpu));
        }
    }

    /// Who is on the CPU that recorded a wakeup.
    fn waker(&self, current: Option<Current>, cpu: usize) -> Option<Waker> {
        let running = || self.slots.get(cpu).and_then(|slot| slot.running);
        let tid = current.map(|current| current.tid).or_else(running)?;
        let interrupt = current.is_some_and(|current| current.interrupt);
        match self.threads.get(tid) {
            Some(thread) => {
                let task = &thread.task;
                Some(Waker { tid, comm: Arc::clone(&task.comm), cgroup: task.cgroup, interrupt })
            }
            None if tid == 0 => Some(Waker { tid, comm: "".into(), cgroup: CgroupKey::default(), interrupt }),
            None => None,
        }
    }

    fn on_fork(&mut self, at: BootNs, parent: u32, child: Named, same_process: Option<bool>, out: &mut impl Observer) {
        if self.threads.get(child.tid).is_some_and(|thread| !thread.fresh) {
            self.threads.end(child.tid, out);
        }
        let by = parent;
        let parent = self.threads.get(parent).map(|thread| (thread.task.process, thread.task.cgroup));
        let Some(thread) = self.known(child, at, out) else {
            return;
        };
        thread.fresh = true;
        thread.forked_by = by;
        thread.retask(|task| {
            if task.start == BootNs(0) {
                task.start = at;
            }
            if let Some((process, cgroup)) = parent {
                task.cgroup = cgroup;
                match same_process {
                    Some(true) => task.process = process,
                    Some(false) => task.process = ProcessKey { pid: task.tid, start: at },
                    None => {}
                }
            }
        });
    }

    /// A thread that execs while others of its process live gets the leader's id.
    fn on_take_over(&mut self, cpu: usize, from: u32, to: u32, out: &mut impl Observer) {
        let is_done = self.slots.get(cpu).is_some_and(|slot| slot.running == Some(to));
        if from == to || from == 0 || to == 0 || is_done {
            return;
        }
        self.threads.end(to, out);
        self.exchange(from, to);
    }

    /// A waiting thread is queued elsewhere.
    fn on_migrate(&mut self, at: BootNs, task: Named, to: u32, out: &mut impl Observer) {
        let losses = self.losses;
        let discards = &mut self.discards;
        if let Some(thread) = self.threads.named(task, at, discards, out) {
            thread.totals.migrations += 1;
            if missed_on(&self.slots, thread.queued_on) {
                thread.distrust(losses);
            }
            thread.queued_on = Some(queue(&self.slots, to));
        }
    }

    /// The source says that this thread is on the CPU: if we have another one there, it took over that one's id, or a
    /// switch was missed.
    fn runs(&mut self, cpu: usize, tid: u32) {
        let running = self.slots.get(cpu).and_then(|slot| slot.running);
        let Some(other) = running.filter(|running| *running != tid) else { return };
        if other == 0 || tid == 0 || !self.threads.took_over(other, tid) {
            return self.open_gap(cpu..cpu + 1);
        }
        self.exchange(other, tid);
    }

    fn exchange(&mut self, one: u32, other: u32) {
        self.threads.exchange(one, other);
        for slot in &mut self.slots {
            slot.running = match slot.running {
                Some(tid) if tid == one => Some(other),
                Some(tid) if tid == other => Some(one),
                same => same,
            };
        }
    }

    /// What the source says about the thread on the CPU: its process, and that it is there.
    fn check_current(&mut self, cpu: usize, current: Current, event: &Event) {
        if !matches!(event, Event::TakeOver { .. } | Event::Lost { .. }) {
            self.runs(cpu, current.tid);
        }
        if let Some(pid) = current.pid
            && let Some(thread) = self.threads.get_mut(current.tid)
            && thread.task.process.pid != pid
        {
            thread.retask(|task| task.process = ProcessKey { pid, start: BootNs(0) });
        }
    }

    fn known(&mut self, named: Named, at: BootNs, out: &mut impl Observer) -> Option<&mut Thread> {
        self.threads.named(named, at, &mut self.discards, out)
    }

    /// Every living thread's totals, what is open at `at` included; in no order.
    pub fn totals_at(&self, at: BootNs) -> impl Iterator<Item = ThreadTotals> + '_ {
        let doubt = |thread: &Thread| (self.losses, missed_on(&self.slots, thread.queued_on));
        self.threads.iter().map(move |thread| thread.totals_at(at, doubt(thread)))
    }

    /// One living thread's totals, what is open at `at` included.
    pub fn totals_of(&self, tid: u32, at: BootNs) -> Option<ThreadTotals> {
        let thread = self.threads.get(tid)?;
        Some(thread.totals_at(at, (self.losses, missed_on(&self.slots, thread.queued_on))))
    }

    /// Waits that are open at `at`: the thread, and for how long.
    pub fn open_waits(&self, at: BootNs) -> impl Iterator<Item = (&Arc<Task>, u64)> + '_ {
        let doubt = |thread: &Thread| (self.losses, missed_on(&self.slots, thread.queued_on));
        self.threads.iter().filter_map(move |thread| Some((&thread.task, thread.open_wait_ns(at, doubt(thread))?)))
    }

    /// What did not become a sample so far.
    pub fn discards(&self) -> Discards {
        self.discards
    }

    /// Switches seen, idle tasks' included.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The latest time an event had.
    pub fn now(&self) -> BootNs {
        self.now
    }

    /// CPUs with at least one event.
    pub fn cpus(&self) -> usize {
        self.slots.iter().filter(|slot| slot.seen).count()
    }
}

/// Where a thread is queued, and how many switches had been missed there.
fn queue(slots: &[Slot], cpu: u32) -> (u32, u64) {
    (cpu, slots.get(cpu as usize).map_or(0, |slot| slot.missed))
}

/// Whether a switch was missed on the CPU that a thread is queued on: it may have run there unseen.
fn missed_on(slots: &[Slot], queued_on: Option<(u32, u64)>) -> bool {
    queued_on.is_some_and(|(cpu, missed)| queue(slots, cpu).1 != missed)
}
