//! What is kept and what goes.

use super::*;
use crate::model::{BlockState, Reasons, RunEnd, Task};

const MS: u64 = 1_000_000;
const PROCESS: ProcessKey = ProcessKey { pid: 5, start: BootNs(100 * MS) };

fn cycle(tid: u32, end_ms: u64) -> Cycle {
    Cycle {
        task: Arc::new(Task { tid, process: PROCESS, ..Task::default() }),
        cgroup: CgroupKey::default(),
        cpu: 0,
        end: BootNs(end_ms * MS),
        run_ns: 2 * MS,
        run_end: RunEnd::Blocked,
        wait_ns: Some(MS),
        throttled_ns: Some(0),
        wait_before_throttle_ns: 0,
        block_ns: Some(7 * MS),
        block_state: BlockState::Interruptible,
        waker: None,
        context: None,
        reasons: Reasons::default(),
        culprits: Arc::default(),
    }
}

fn history(bounds: Bounds) -> History {
    let history = History::default();
    history.want(bounds);
    assert!(history.open(&Arc::default()));
    history
}

fn ends(history: &History, tid: u32) -> Vec<u64> {
    history.cycles(PROCESS, tid, BootNs(0), BootNs(u64::MAX)).iter().map(|cycle| cycle.end.0 / MS).collect()
}

/// Check that the oldest go first, by time without a word and for want of room counted.
#[test]
fn bounds() {
    let kept = history(Bounds { ns: 50 * MS, bytes: 1 << 20 });
    let offset = ClockOffset::default();
    let all = |from: u64| (from..from + 8).flat_map(|n| [cycle(1, n * 10), cycle(2, n * 10 + 1)]).collect();
    assert_eq!(kept.deliver(all(1), BootNs(100 * MS), offset), 0);
    assert_eq!(ends(&kept, 1), [50, 60, 70, 80]);
    assert_eq!(ends(&kept, 2), [51, 61, 71, 81]);
    let small = history(Bounds { ns: u64::MAX, bytes: 4 * 280 });
    assert!(small.deliver(all(1), BootNs(100 * MS), offset) >= 12);
    assert_eq!(ends(&small, 2).last(), Some(&81));
}

/// Check that a stretch of time gives the cycles that touch it, and that another process of that id gives nothing.
#[test]
fn stretches() {
    let history = history(Bounds { ns: u64::MAX, bytes: 1 << 20 });
    history.deliver((1..9).map(|n| cycle(1, n * 10)).collect(), BootNs(100 * MS), ClockOffset::default());
    let touching = |from: u64, to: u64| history.cycles(PROCESS, 1, BootNs(from * MS), BootNs(to * MS)).len();
    assert_eq!((touching(20, 30), touching(21, 31), touching(90, 95), touching(0, 5)), (1, 2, 0, 1));
    let other = ProcessKey { start: BootNs(999 * MS), ..PROCESS };
    assert!(history.cycles(other, 1, BootNs(0), BootNs(u64::MAX)).is_empty());
    assert_eq!((history.last_end(PROCESS, 1), history.last_end(other, 1)), (Some(BootNs(80 * MS)), None));
}

/// Check that a process is watched once, anew under a new start, and no longer once it has been silent.
#[test]
fn watches() {
    let history = history(Bounds { ns: MS, bytes: 1 << 20 });
    assert_eq!((history.ask(PROCESS), history.ask(PROCESS)), (Asked::Soon, Asked::Soon));
    assert_eq!(history.changes(), [Change::Watch(PROCESS)]);
    history.began(5, BootNs(7));
    let in_ticks = ProcessKey { start: BootNs(109 * MS), ..PROCESS };
    assert_eq!(history.ask(in_ticks), Asked::Since(BootNs(7)));
    let anew = ProcessKey { start: BootNs(5_000 * MS), ..PROCESS };
    assert_eq!(history.ask(anew), Asked::Soon);
    assert_eq!(history.changes(), [Change::Watch(anew)]);
    history.deliver(Vec::new(), BootNs(301_000 * MS), ClockOffset::default());
    assert_eq!(history.changes(), [Change::Forget(5)]);
    assert!(!history.open(&Arc::default()), "one receiver fills it");
}

/// Check that a wall clock that was set does not move what was before.
#[test]
fn clocks() {
    let history = history(Bounds { ns: 1000 * MS, bytes: 1 << 20 });
    let offset = |ms: u64| ClockOffset { wall_minus_boot_ns: (ms * MS) as i64 };
    history.deliver(Vec::new(), BootNs(100 * MS), offset(1000));
    history.deliver(Vec::new(), BootNs(200 * MS), offset(5000));
    let boot = |wall_ms: u64| history.boot(WallNs(wall_ms * MS)).0.0 / MS;
    assert_eq!((boot(1150), boot(5250), boot(1050)), (150, 250, 50));
    history.deliver(Vec::new(), BootNs(2000 * MS), offset(5000));
    assert_eq!(boot(5250), 250);
}
