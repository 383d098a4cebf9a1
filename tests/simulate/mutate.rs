//! Damaged inputs: whole recordings and texts, changed at random, through the readers and the machine. Nothing may
//! panic or hang, and what is read keeps the identity.
//!
//! `SCHEDSCOPE_MUTATIONS=10000000` makes it long.

use std::io::Cursor;

use schedscope::model::{BootNs, CgroupKey, Cycle, ProcessKey, SchedState};
use schedscope::record::{Chunk, Entry, Facts, Input, Writer};
use schedscope::timeline::{Comm, Event, Limits, Machine, Named, Record, SwitchOut, WakeupKind};

const TEXTS: [&str; 4] = [
    "          <idle>-0       [000] d..2.  10.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=7 next_prio=120
             web-7       [000] d..2.  10.000100: sched_switch: prev_comm=web prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0       [001] dNh4.  10.000300: sched_wakeup: comm=web pid=7 prio=120 target_cpu=001
CPU:0 [LOST 3 EVENTS]
             web-7       [001] d..2.  10.000500: sched_migrate_task: comm=a b pid=8 prio=120 orig_cpu=1 dest_cpu=0
",
    "            perf  7627 [000]  2349.970377:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000
            perf  7627 [000]  2349.970380:       sched:sched_switch: prev_comm=perf prev_pid=7627 prev_prio=120 prev_state=R+ ==> next_comm=migration/0 next_pid=18 next_prio=0
",
    "            bash-12    [001]     2.500000: sched_switch:         bash:12 [120] S ==> swapper/1:0 [120]
            bash-12    [001]     2.500100: sched_wakeup:         x:7 [120] success=1 CPU:001
",
    "            bash-12      ( 12) [001] d..2.  2.500000: sched_process_fork: comm=bash pid=12 child_comm=bash child_pid=13
            bash-13      ( 12) [001] d..2.  2.500001: task_rename: pid=13 oldcomm=bash newcomm=\\xff\\xfe oom_score_adj=0
",
];

/// A recording with every kind of entry.
fn recording() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Facts { backend: "x".into(), ..Facts::default() }).unwrap();
    let key = CgroupKey { id: 9, serial: 4 };
    writer.push(&Entry::Cgroup { key, path: "/a/b".into() }).unwrap();
    let task = |tid: u32| Named::new(tid, Comm::from(format!("t{tid}").as_str()));
    for at in 0..400u64 {
        let event = match at % 8 {
            0 => Event::Identity {
                tid: 7,
                process: ProcessKey { pid: 7, start: BootNs(1) },
                start: BootNs(1),
                kernel_thread: false,
                cgroup: key,
            },
            1 => Event::Wakeup { task: task(7), kind: WakeupKind::Wakeup, target_cpu: 1 },
            2 => Event::Fork { parent: 7, child: task(8), same_process: Some(true) },
            3 => Event::Lost { count: 2, everywhere: false },
            4 => Event::Migrate { task: task(8), to: 3 },
            5 => Event::Exit { task: task(8) },
            _ => Event::Switch { prev: task(7), out: SwitchOut::from_text(b"S"), next: task(0) },
        };
        writer.push(&Entry::Record(Record::new(1_000 + at * 500, (at % 4) as u32, event))).unwrap();
        if at % 50 == 49 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

/// One byte changed, or as `mutate` does: what is nearly right goes deepest.
pub(crate) fn scratch(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if bytes.is_empty() || random.u8(0..3) == 0 {
        return mutate(bytes, random);
    }
    let at = random.usize(0..bytes.len());
    bytes[at] = random.u8(..);
}

/// Some bytes flipped, cut, doubled, or put elsewhere.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(0..bytes.len());
        let end = (at + random.usize(1..40)).min(bytes.len());
        match random.u8(0..6) {
            0 => bytes[at] ^= 1 << random.u8(0..8),
            1 => bytes[at] = random.u8(..),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece: Vec<u8> = bytes[at..end].to_vec();
                let to = random.usize(0..bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes.splice(at..at, b"\n prev_pid=-1 ==> 99999999999999999999\0\xff".iter().copied()).for_each(drop),
        }
    }
}

/// Reads it to its end; gives why it is wrong.
fn read(bytes: &[u8]) -> Result<(), String> {
    let Ok(mut input) = Input::open(Box::new(Cursor::new(bytes.to_vec()))) else { return Ok(()) };
    let mut machine = Machine::new(Limits::default());
    let mut ended: Vec<Cycle> = Vec::new();
    let mut turns = 0usize;
    while input.next(&mut |chunk| {
        if let Chunk::Record(record) = chunk {
            machine.on(&record, &mut ended);
        }
    }) {
        turns += 1;
        if turns > bytes.len() + 10 {
            return Err("it does not end".into());
        }
    }
    for totals in machine.totals_at(machine.now()) {
        let sum: u64 = SchedState::ALL.into_iter().map(|state| totals.ns(state)).fold(0, u64::saturating_add);
        if sum != totals.lifetime_ns {
            return Err(format!("states sum to {sum} of a life of {}", totals.lifetime_ns));
        }
    }
    Ok(())
}

/// How many, by default.
pub(crate) fn rounds() -> usize {
    std::env::var("SCHEDSCOPE_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

#[test]
fn damaged_inputs_are_read_to_their_end() {
    let mut seeds: Vec<Vec<u8>> = TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    seeds.push(recording());
    seeds.push(zstd::encode_all(TEXTS[0].as_bytes(), 1).unwrap());
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..rounds() {
        let mut bytes = seeds[round % seeds.len()].clone();
        mutate(&mut bytes, &mut random);
        if let Err(why) = read(&bytes) {
            panic!("round {round}: {why}\n{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
