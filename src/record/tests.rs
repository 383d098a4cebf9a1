use std::io::{Cursor, Read, Write};

use super::*;
use crate::model::{BootNs, CgroupKey, ProcessKey};
use crate::timeline::{Comm, Current, Event, Named, Record, SwitchOut, WakeupKind};

/// One of every event, then many switches, so that there are several blocks.
fn entries() -> Vec<Entry> {
    let named = |tid: u32| Named::new(tid, Comm::new(format!("t{tid}\u{ff}").as_bytes()));
    let out = |text: &str| SwitchOut::from_text(text.as_bytes());
    let key = CgroupKey { id: 1 << 40, serial: 7 };
    let mut events = vec![
        Event::Switch { prev: named(0), out: out("R"), next: named(5) },
        Event::Switch { prev: named(5), out: out("R+"), next: Named { tid: 6, comm: None } },
        Event::Wakeup { task: named(5), kind: WakeupKind::Waking, target_cpu: 3 },
        Event::Wakeup { task: named(5), kind: WakeupKind::Wakeup, target_cpu: 3 },
        Event::Wakeup { task: named(9), kind: WakeupKind::New, target_cpu: 1023 },
        Event::Migrate { task: named(5), to: 1 },
        Event::Fork { parent: 5, child: named(10), same_process: Some(true) },
        Event::Fork { parent: 0, child: named(11), same_process: None },
        Event::Exit { task: named(5) },
        Event::Rename { task: named(5) },
        Event::TakeOver { from: 6, to: 5 },
        Event::Identity {
            tid: 5,
            process: ProcessKey { pid: 4, start: BootNs(u64::MAX) },
            start: BootNs(1),
            kernel_thread: true,
            cgroup: key,
        },
        Event::Lost { count: 1 << 33, everywhere: true },
    ];
    events.extend((0..40_000u32).map(|at| Event::Switch {
        prev: named(at % 300),
        out: out("S"),
        next: named((at + 1) % 300),
    }));
    let mut entries = vec![Entry::Cgroup { key, path: "/a/b".into() }];
    entries.extend(events.into_iter().enumerate().map(|(at, event)| {
        let current =
            (at % 3 == 0).then_some(Current { tid: 5, pid: (at % 2 == 0).then_some(4), interrupt: at % 6 == 0 });
        // times that go back are kept too
        let at_ns = 1_000_000 + (at as u64) * 997 - if at % 5 == 0 { 2_000 } else { 0 };
        Entry::Record(Record { at: BootNs(at_ns), cpu: at as u32 % 4, event, current })
    }));
    entries
}

fn file(entries: &[Entry]) -> Vec<u8> {
    let facts = Facts { kernel_release: "6.18".into(), ..Facts::default() };
    let mut writer = Writer::new(Vec::new(), &facts).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish().unwrap()
}

/// Entries and damages of a file.
fn read(bytes: &[u8]) -> (Vec<Entry>, Vec<Damage>) {
    let (mut entries, mut damages) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(bytes).unwrap();
    while reader
        .next_block(&mut |part| match part {
            Part::Facts(facts) => assert_eq!(facts.kernel_release, "6.18"),
            Part::Entry(entry) => entries.push(entry),
            Part::Damage(damage) => damages.push(damage),
        })
        .unwrap()
    {}
    (entries, damages)
}

#[test]
fn what_was_written_is_read() {
    let entries = entries();
    let bytes = file(&entries);
    let (got, damages) = read(&bytes);
    assert_eq!(damages, []);
    assert!(got == entries);
    assert!(bytes.len() < entries.len() * 8, "{} bytes for {} entries", bytes.len(), entries.len());
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_blocks() {
    let entries = entries();
    let bytes = file(&entries);
    for cut in (12..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        let (got, damages) = read(&bytes[..cut]);
        assert_eq!(damages.len(), 1, "cut at {cut}: {damages:?}");
        assert!(entries.starts_with(&got), "cut at {cut}");
    }
}

#[test]
fn a_damaged_block_costs_no_other() {
    let entries = entries();
    let bytes = file(&entries);
    for at in (12..bytes.len()).step_by(1009) {
        let mut broken = bytes.clone();
        broken[at] ^= 0x10;
        let (got, damages) = read(&broken);
        assert!(!damages.is_empty(), "a flipped bit at {at} was not seen");
        let told: u64 = damages.iter().filter_map(|damage| damage.records).sum();
        assert_eq!(got.len() as u64 + told, entries.len() as u64, "at {at}: {damages:?}");
    }
}

#[test]
fn a_block_left_out_is_told() {
    let bytes = file(&entries());
    let second = bytes.windows(4).enumerate().filter(|(_, four)| *four == block::BLOCK_MAGIC).nth(1).unwrap().0;
    let third = bytes.windows(4).enumerate().filter(|(_, four)| *four == block::BLOCK_MAGIC).nth(2).unwrap().0;
    let shorter = [&bytes[..second], &bytes[third..]].concat();
    let (_, damages) = read(&shorter);
    assert!(damages.iter().any(|damage| damage.what.contains("missing")), "{damages:?}");
}

#[test]
fn another_version_is_refused_with_its_number() {
    let mut bytes = file(&[]);
    bytes[10] = 9;
    let Err(why) = Reader::new(bytes.as_slice()) else { panic!("read") };
    assert!(why.to_string().contains("version 9"), "{why}");
}

fn chunks(bytes: Vec<u8>) -> Vec<Chunk> {
    let mut input = Input::open(Box::new(Cursor::new(bytes))).unwrap();
    let mut chunks = Vec::new();
    while input.next(&mut |chunk| chunks.push(chunk)) {}
    chunks
}

const TEXT: &str = "            bash-12      [001] d..2.  2.500000: sched_wakeup: comm=x pid=7 prio=120 target_cpu=001";

#[test]
fn every_packing_is_told_by_its_first_bytes() {
    let plain = file(&entries());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(TEXT.as_bytes()).unwrap();
    let zstd = zstd::encode_all(plain.as_slice(), 1).unwrap();
    let count = |bytes| chunks(bytes).iter().filter(|chunk| matches!(chunk, Chunk::Record(_))).count();
    assert_eq!(count(plain), 40_013);
    assert_eq!(count(zstd), 40_013);
    assert_eq!(count(gzip.finish().unwrap()), 1);
    assert_eq!(count(TEXT.into()), 1);
}

#[test]
fn a_cut_gzip_gives_what_it_holds_and_says_so() {
    let lines = format!("{TEXT}\n").repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let mut packed = gzip.finish().unwrap();
    packed.truncate(packed.len() / 2);
    let chunks = chunks(packed);
    let records = chunks.iter().filter(|chunk| matches!(chunk, Chunk::Record(_))).count();
    assert!(records > 5_000, "{records}");
    let Some(Chunk::Unreadable { why, .. }) = chunks.last() else { panic!("{:?}", chunks.last()) };
    assert_eq!(why, "the file is cut off");
}

#[test]
fn endless_lines_are_left_out_and_told() {
    let long = "x".repeat(3_000_000);
    let text = format!("{TEXT}\n{long}\n{TEXT}\n{}", "y".repeat(100_000));
    let chunks = chunks(text.into());
    let lines: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Unreadable { place, .. } => Some(*place),
            _ => None,
        })
        .collect();
    assert_eq!(lines, [Place::Line(2), Place::Line(4)]);
    assert_eq!(chunks.len(), 4);
}

/// A source that gives one byte at a time.
struct Slowly(Cursor<Vec<u8>>);

impl Read for Slowly {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let one = buffer.len().min(1);
        self.0.read(&mut buffer[..one])
    }
}

#[test]
fn a_pipe_may_give_any_portion() {
    let text = format!("{TEXT}\n{TEXT}");
    let mut input = Input::open(Box::new(Slowly(Cursor::new(text.into_bytes())))).unwrap();
    let mut records = 0;
    while input.next(&mut |chunk| records += usize::from(matches!(chunk, Chunk::Record(_)))) {}
    assert_eq!(records, 2);
}
