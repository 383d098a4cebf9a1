use std::io::Cursor;
use std::time::Duration;

use super::*;
use crate::model::{BootNs, CgroupKey, LossReason, OwnerKind, SchedState};
use crate::pipeline::component::Branch;
use crate::record::Entry;
use crate::timeline::{Comm, Event, Named, Record, SwitchOut, WakeupKind};

const TEXT: &str = "\
          <idle>-0       (-------) [000] d..2.  10.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=7 next_prio=120
             web-7       (      7) [000] d..2.  10.000100: sched_switch: prev_comm=web prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
CPU:0 [LOST 3 EVENTS]
          <idle>-0       (-------) [000] dNh4.  31.000000: sched_wakeup: comm=web pid=7 prio=120 target_cpu=000
what is this
          <idle>-0       (-------) [000] d..2.  31.000400: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=7 next_prio=120
";

fn batches(feed: &mut Feed, bytes: impl Into<Vec<u8>>) -> Vec<SchedBatch> {
    let mut input = Input::open(Box::new(Cursor::new(bytes.into()))).unwrap();
    let mut batches = Vec::new();
    while input.next(&mut |chunk| batches.extend(feed.take(chunk))) {}
    batches.push(feed.finish());
    batches
}

fn settings() -> FeedSettings {
    FeedSettings {
        name: "x.txt".into(),
        backend: "replay",
        wall_minus_boot_ns: Some(5),
        collection_interval_ns: 10_000_000_000,
        starvation_ns: STARVATION_NS,
        ..FeedSettings::default()
    }
}

#[test]
fn text_becomes_batches_with_an_owner_of_its_own() {
    let batches = batches(&mut Feed::new(settings()), TEXT);
    assert_eq!(batches.len(), 2, "a collection is due after 10 s of the trace, and at the end");
    assert_eq!(batches[0].cycles.len(), 1);
    assert_eq!(batches[0].cycles[0].task.process.pid, 7);
    let owner = &batches[0].owners[&CgroupKey::default()];
    assert_eq!((&*owner.display_name, owner.kind), ("x.txt", OwnerKind::Unit));
    assert_eq!(batches[0].offset.wall_minus_boot_ns, 5);
    let last = batches[1].collection.as_ref().unwrap();
    assert_eq!(last.losses.get(LossReason::RingFull), 3);
    assert_eq!(last.losses.get(LossReason::Decode), 1);
    let (_, totals) = &last.cgroups[0];
    assert_eq!(totals.times.get(SchedState::Running), Some(100_000));
    assert_eq!(totals.times.get(SchedState::Throttled), None);
    assert_eq!(totals.times.get(SchedState::Unknown), Some(20_999_900_000 + 400_000), "two gaps");
    assert_eq!(batches[1].delivered_until, BootNs(31_000_400_000));
}

#[test]
fn totals_follow_a_thread_from_cgroup_to_cgroup() {
    let keys = [1, 2].map(|id| CgroupKey { id, serial: id });
    let mut writer = crate::record::Writer::new(Vec::new(), &crate::record::Facts::default()).unwrap();
    let named = |tid| Named::new(tid, Comm::from("t"));
    let switch = |prev, state: &str, next| Event::Switch {
        prev: named(prev),
        out: SwitchOut::from_text(state.as_bytes()),
        next: named(next),
    };
    let identity = |cgroup| Event::Identity {
        tid: 7,
        process: Default::default(),
        start: BootNs(1),
        kernel_thread: false,
        cgroup,
    };
    let second = 1_000_000_000;
    let events = [
        (1, identity(keys[0])),
        (1, switch(0, "R", 7)),
        (12, switch(7, "R", 0)),
        (13, identity(keys[1])),
        (14, switch(0, "R", 7)),
        (16, switch(7, "S", 0)),
        (17, Event::Wakeup { task: named(7), kind: WakeupKind::Wakeup, target_cpu: 0 }),
    ];
    writer.push(&Entry::Cgroup { key: keys[0], path: "/a".into() }).unwrap();
    for (at, event) in events {
        writer.push(&Entry::Record(Record::new(at * second, 0, event))).unwrap();
    }
    let batches = batches(&mut Feed::new(settings()), writer.finish().unwrap());
    let last = batches.last().unwrap().collection.as_ref().unwrap();
    let running = |key: CgroupKey| {
        let (_, totals) = last.cgroups.iter().find(|(known, _)| *known == key).unwrap();
        totals.times.get(SchedState::Running)
    };
    assert_eq!((running(keys[0]), running(keys[1])), (Some(11 * second), Some(2 * second)));
    let named = &batches[0].cgroups;
    assert_eq!(named[&keys[0]].path.as_deref(), Some("/a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_room_and_says_when_the_input_has_ended() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TEXT).unwrap();
    let telemetry = Telemetry::default();
    let context = BuildContext::new("replay".into(), telemetry.clone(), "0");
    let settings = ReplaySettings { path: file.path().display().to_string(), ..ReplaySettings::default() };
    let mut receiver = Replay::new(settings, &context);
    let (input, mut taken) = mpsc::channel(1);
    let branch = Branch { signal: Signal::Sched, input, gates: Vec::new(), wants: Default::default() };
    receiver.start(Outlet::new(vec![branch])).await.unwrap();
    let mut got = 0;
    while telemetry.health().ended_inputs().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
        got += usize::from(taken.try_recv().is_ok());
    }
    got += usize::from(taken.try_recv().is_ok());
    assert_eq!(got, 2);
    assert_eq!(telemetry.sum("otelcol_receiver_replay_records"), 4);
    assert_eq!(telemetry.sum("otelcol_receiver_replay_unreadable"), 1);
    receiver.shutdown().await;
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let context = BuildContext::new("replay".into(), Telemetry::default(), "0");
    let settings = ReplaySettings { path: "/nonexistent/x.txt".into(), ..ReplaySettings::default() };
    let why = Replay::new(settings, &context).start(Outlet::default()).await.unwrap_err();
    assert!(why.message.contains("/nonexistent/x.txt: No such file"), "{why}");
}
