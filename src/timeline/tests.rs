use super::*;
use crate::model::{BlockState, BootNs, Cycle, RunEnd, SchedState};

/// `prev/STATE>next`, `+tid` wakeup, `!tid` waking, `*tid` wakeup_new, `lost N`, `fork parent child`, `exit tid`,
/// `exec from to`, `name tid NAME`; each behind `TIME CPU`.
fn record(line: &str) -> Record {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [at, cpu, what, rest @ ..] = words.as_slice() else { panic!("{line}") };
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|why| panic!("{line}: {text}: {why}"));
    let named = |tid: &str| Named { tid: number(tid), comm: None };
    let wakeup = |tid, kind| Event::Wakeup { task: named(tid), kind, target_cpu: 0 };
    let event = match (*what, rest) {
        ("lost", [count]) => Event::Lost { count: number(count).into(), everywhere: false },
        ("fork", [parent, child]) => Event::Fork { parent: number(parent), child: named(child), same_process: None },
        ("exit", [tid]) => Event::Exit { task: named(tid) },
        ("exec", [from, to]) => Event::TakeOver { from: number(from), to: number(to) },
        ("name", [tid, name]) => Event::Rename { task: Named { tid: number(tid), comm: Some(Comm::from(*name)) } },
        (what, []) => match what.split_at(1) {
            ("+", tid) => wakeup(tid, WakeupKind::Wakeup),
            ("!", tid) => wakeup(tid, WakeupKind::Waking),
            ("*", tid) => wakeup(tid, WakeupKind::New),
            _ => {
                let (prev, next) = what.split_once('>').unwrap();
                let (prev, state) = prev.split_once('/').unwrap();
                Event::Switch { prev: named(prev), out: SwitchOut::from_text(state.as_bytes()), next: named(next) }
            }
        },
        _ => panic!("{line}"),
    };
    Record::new(at.parse().unwrap(), number(cpu), event)
}

/// Plays the lines and checks the identity of every thread on the way.
fn play(lines: &str) -> (Machine, Vec<Cycle>) {
    let mut machine = Machine::new(Limits::default());
    let mut cycles = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        machine.on(&record(line), &mut cycles);
        for totals in machine.totals_at(machine.now()) {
            let sum: u64 = SchedState::ALL.iter().map(|state| totals.ns(*state)).sum();
            assert_eq!(sum, totals.lifetime_ns, "after {line}: {totals:?}");
        }
    }
    (machine, cycles)
}

fn totals(machine: &Machine, tid: u32, at: u64) -> ThreadTotals {
    machine.totals_at(BootNs(at)).find(|totals| totals.task.tid == tid).unwrap()
}

/// `block+wait+run end` of each cycle of a thread.
fn drawn(cycles: &[Cycle], tid: u32) -> Vec<String> {
    let part = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), |ns| ns.to_string());
    let of = cycles.iter().filter(|cycle| cycle.task.tid == tid);
    of.map(|cycle| {
        format!("{}+{}+{} {}", part(cycle.block_ns), part(cycle.wait_ns), cycle.run_ns, cycle.run_end.name())
    })
    .collect()
}

#[test]
fn a_cycle_is_block_wait_run() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         200 0 7/D>9
         350 0 +7
         400 0 9/R>7
         430 0 7/R>9
         500 0 9/S>7
         510 0 7/Z>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "150+50+30 preempted", "0+70+10 exited"]);
    assert_eq!(
        cycles.iter().filter(|cycle| cycle.task.tid == 7).map(|cycle| cycle.block_state).nth(1),
        Some(BlockState::Uninterruptible)
    );
    let waker = cycles.iter().filter_map(|cycle| cycle.waker.as_ref()).next().unwrap();
    assert_eq!(waker.tid, 9);
    assert!(machine.totals_at(BootNs(600)).all(|totals| totals.task.tid == 9));
}

#[test]
fn open_slices_are_in_the_totals() {
    let (machine, _) = play(
        "100 0 0/R>7
         150 1 +8",
    );
    assert_eq!(totals(&machine, 7, 5_000).ns(SchedState::Running), 4_900);
    assert_eq!(totals(&machine, 8, 5_000).ns(SchedState::Waiting), 4_850);
    assert_eq!(machine.open_waits(BootNs(5_000)).map(|(task, ns)| (task.tid, ns)).collect::<Vec<_>>(), [(8, 4_850)]);
}

#[test]
fn nothing_is_invented_over_a_gap() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         110 1 0/R>8
         150 1 +9
         200 0 lost 5
         300 1 8/S>9
         400 0 6/S>0
         500 1 9/S>0
         600 1 +7
         700 1 0/S>7
         800 1 7/S>0",
    );
    assert_eq!(drawn(&cycles, 8), ["?+?+190 blocked"], "the other CPU's run is whole");
    assert_eq!(drawn(&cycles, 9), ["?+?+200 blocked"], "a wait over a gap has no length");
    assert_eq!(drawn(&cycles, 7), ["?+100+100 blocked"], "its first run has no end");
    assert_eq!(drawn(&cycles, 6), Vec::<String>::new());
    let discards = machine.discards();
    assert_eq!(
        (discards.lost_events, discards.gaps, discards.runs_without_end, discards.runs_without_start),
        (5, 1, 1, 1)
    );
    assert_eq!(totals(&machine, 7, 800).ns(SchedState::Unknown), 500);
}

#[test]
fn a_missed_switch_is_a_gap() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         200 0 8/S>9
         250 0 9/S>0",
    );
    assert_eq!(drawn(&cycles, 9), ["?+?+50 blocked"]);
    assert_eq!(cycles.len(), 1);
    assert_eq!(machine.discards().gaps, 1);
}

#[test]
fn a_second_wakeup_does_not_restart_the_wait() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         200 0 7/S>0
         300 1 +7
         350 1 +7
         400 0 0/R>7
         450 1 +7
         500 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "100+100+100 blocked"]);
    assert_eq!((machine.discards().wakeups_of_queued, machine.discards().wakeups_of_running), (1, 1));
}

#[test]
fn waking_names_the_waker_and_wakeup_the_time() {
    let (_, cycles) = play(
        "100 0 0/R>7
         150 1 0/R>5
         200 0 7/S>0
         300 1 !7
         310 0 +7
         400 0 0/R>7
         500 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "110+90+100 blocked"]);
    assert_eq!(cycles[1].waker.as_ref().map(|waker| waker.tid), Some(5));
}

#[test]
fn a_waking_during_the_switch_out_begins_the_wait_there() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         150 1 0/R>5
         199 1 !7
         200 0 7/S>9
         260 0 9/S>7
         300 0 7/S>0
         400 0 0/R>7
         450 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "0+60+40 blocked", "?+?+50 blocked"]);
    assert_eq!(machine.discards().waits_without_start, 4, "the first of each thread, and the last");
}

#[test]
fn a_reused_id_is_another_thread() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         200 0 7/S>0
         900 0 fork 1 7
         910 0 *7
         950 0 0/R>7
         960 0 7/X>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "?+40+10 exited"]);
    assert_eq!(cycles[1].task.start, BootNs(900));
    assert_eq!(machine.totals_at(BootNs(960)).count(), 0);
}

#[test]
fn an_exec_by_another_thread_keeps_its_run() {
    let (_, cycles) = play(
        "100 0 0/R>8
         150 0 exec 8 7
         160 0 name 7 new
         200 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked"]);
    assert_eq!(&*cycles[0].task.comm, "new");
}

/// The leader's id is on the CPU before the exec is told (here never); 9 waits there, and its wait is not in doubt.
#[test]
fn an_exec_is_seen_by_the_id_that_changes() {
    let leader_first = "100 0 0/R>7
         110 0 fork 7 8
         120 0 *9
         130 0 7/Z>8
         200 0 7/S>9
         230 0 9/S>0";
    // the leader has begun to end, is still on the other CPU, and leaves it under the thread's old id
    let leader_last = "100 0 0/R>7
         110 0 fork 7 8
         115 1 0/R>8
         120 1 *9
         125 0 exit 7
         200 1 7/S>9
         210 0 8/X>0
         230 1 9/S>0";
    for lines in [leader_first, leader_last] {
        let (machine, cycles) = play(lines);
        assert_eq!(machine.discards().gaps, 0, "{lines}");
        assert_eq!(drawn(&cycles, 9), ["?+80+30 blocked"], "{lines}");
        assert!(drawn(&cycles, 7).iter().any(|cycle| cycle.ends_with("blocked")), "{lines}: {cycles:?}");
    }
}

#[test]
fn skew_shortens_the_block_and_gives_no_wait() {
    let (machine, cycles) = play(
        "100 0 0/R>7
         200 0 7/S>0
         350 1 +7
         320 0 0/R>7
         400 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "?+?+80 blocked"]);
    assert_eq!(machine.discards().clock_anomalies, 1);
    assert_eq!(totals(&machine, 7, 400).ns(SchedState::Interruptible), 120);
}

#[test]
fn a_clock_that_was_set_begins_anew() {
    let (machine, cycles) = play(
        "900000000000 0 0/R>7
         900000000100 0 7/S>0
         1000 0 0/R>7
         1500 0 7/S>0
         1600 0 +7
         1700 0 0/R>7
         1800 0 7/S>0",
    );
    assert_eq!(drawn(&cycles, 7), ["?+?+100 blocked", "?+?+500 blocked", "100+100+100 blocked"]);
    assert!(machine.discards().clock_anomalies >= 1);
}

#[test]
fn threads_are_bounded_and_the_forgotten_counted() {
    let mut machine = Machine::new(Limits { threads: 100 });
    let mut cycles: Vec<Cycle> = Vec::new();
    for tid in 1..10_000u32 {
        machine.on(&record(&format!("{tid} 0 +{tid}")), &mut cycles);
    }
    assert!(machine.totals_at(BootNs(1)).count() <= 100);
    assert!(machine.discards().threads_forgotten >= 9_899);
    assert_eq!(cycles.iter().filter(|cycle| cycle.run_end == RunEnd::Exited).count(), 0);
}
