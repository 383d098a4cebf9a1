//! Pure: the bytes of a ring record become a value. Mirrors `bpf/sched.h`; `driver::layout` proves that
//! the offsets used here are the skeleton's. Refuses to know: libbpf, what a record means.

/// Entries after a cycle record.
pub(super) const WHO_BYTES: usize = 32;
/// Size of a cycle record without entries.
pub(super) const CYCLE_BYTES: usize = 64;
/// Size of a cgroup record without its path.
pub(super) const CGROUP_BYTES: usize = 24;
/// Size of a node record without its name.
pub(super) const NODE_BYTES: usize = 24;
/// Where the totals of a thread record begin.
pub(super) const THREAD_TOTALS_AT: usize = 16;
/// Bytes of a thread's name in the kernel, its final NUL included.
pub(super) const COMM_BYTES: usize = 16;

/// A waker or a culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WhoEntry {
    /// Thread id, 0 for the idle task.
    pub tid: u32,
    /// Slot of its cgroup; 0: a kernel thread, or none.
    pub slot: u32,
    /// Charged, ns.
    pub ns: u64,
    /// Its name as the kernel has it.
    pub comm: [u8; COMM_BYTES],
}

/// The active span that a thread published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextEntry {
    /// W3C byte order.
    pub trace: [u8; 16],
    /// W3C byte order.
    pub span: [u8; 8],
    /// W3C trace flags.
    pub flags: u8,
    /// It was the same at both ends of the run.
    pub covers_run: bool,
    /// Told by other instrumentation.
    pub shared: bool,
}

/// A selected cycle; all times in ns, `clock` on the run queue's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CycleRecord {
    /// `enum run_end`.
    pub end: u8,
    /// `enum block_state`.
    pub state: u8,
    /// `enum cycle_flag`.
    pub flags: u8,
    /// The CPU.
    pub cpu: u16,
    /// `enum reason`.
    pub reasons: u8,
    /// The thread.
    pub tid: u32,
    /// Its cgroup's slot.
    pub slot: u32,
    /// Switch-out.
    pub clock: u64,
    /// Run slice.
    pub run: u64,
    /// Wait before it, net of throttled.
    pub wait: u64,
    /// Throttled part.
    pub throttled: u64,
    /// The part of the wait before the throttled part.
    pub wait_before: u64,
    /// Block before the wait.
    pub block: u64,
    /// Culprits of the wait.
    pub culprits: Vec<WhoEntry>,
    /// Waker that ended the block.
    pub waker: Option<WhoEntry>,
    /// The span that was active over the block and the wait.
    pub context: Option<ContextEntry>,
}

/// Who a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskRecord {
    /// A kernel thread.
    pub kernel_thread: bool,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// Slot of its cgroup.
    pub slot: u32,
    /// Its start, boot ns.
    pub start_boot: u64,
    /// Its process' start, boot ns.
    pub leader_start_boot: u64,
    /// Its name.
    pub comm: [u8; COMM_BYTES],
}

/// A cgroup came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupRecord {
    /// It went.
    pub removed: bool,
    /// Its slot, 0 where it has none.
    pub slot: u32,
    /// kernfs id.
    pub id: u64,
    /// css serial number.
    pub serial: u64,
    /// Path from the hierarchy's root.
    pub path: Vec<u8>,
}

/// A part of the path of a cgroup that was there before us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeRecord {
    /// kernfs id.
    pub id: u64,
    /// Its parent's; 0 for the hierarchy's root.
    pub parent: u64,
    /// Its own name.
    pub name: Vec<u8>,
}

/// What a thread did since it is counted, ns and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadRecord {
    /// Nothing more comes of it.
    pub ended: bool,
    /// Thread id.
    pub tid: u32,
    /// Slot of the cgroup in which it did what is new in this record.
    pub slot: u32,
    /// Its life.
    pub life: u64,
    /// On a CPU.
    pub run: u64,
    /// Waited and throttled.
    pub delay: u64,
    /// Throttled.
    pub throttled: u64,
    /// Taken by interrupts or the hypervisor.
    pub stolen: u64,
    /// In D.
    pub d: u64,
    /// Stopped.
    pub t: u64,
    /// Parked and the like.
    pub other: u64,
    /// Switches.
    pub voluntary: u64,
    /// Switches.
    pub involuntary: u64,
    /// Changes of its CPU.
    pub migrations: u64,
}

/// Any record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A selected cycle.
    Cycle(CycleRecord),
    /// Who a thread is.
    Task(TaskRecord),
    /// A thread that was named is gone.
    Exit {
        /// Its id.
        tid: u32,
    },
    /// The two clocks at one moment; `boot` is read a little later than `clock`, never earlier.
    Clock {
        /// Where.
        cpu: u16,
        /// Run queue clock, ns.
        clock: u64,
        /// CLOCK_BOOTTIME, ns.
        boot: u64,
    },
    /// A cgroup came or went.
    Cgroup(CgroupRecord),
    /// A process changed its cgroup: its other threads want a collection now.
    Moved,
    /// A process runs another program.
    Exec {
        /// The process.
        tgid: u32,
        /// Its start, boot ns.
        leader_start_boot: u64,
    },
    /// A part of a cgroup's path.
    Node(NodeRecord),
    /// What a thread did.
    Thread(ThreadRecord),
}

fn bytes<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..at + N)?.try_into().ok()
}

fn u16_at(record: &[u8], at: usize) -> Option<u16> {
    bytes(record, at).map(u16::from_ne_bytes)
}

fn u32_at(record: &[u8], at: usize) -> Option<u32> {
    bytes(record, at).map(u32::from_ne_bytes)
}

fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    bytes(record, at).map(u64::from_ne_bytes)
}

fn who(record: &[u8], at: usize) -> Option<WhoEntry> {
    Some(WhoEntry {
        tid: u32_at(record, at)?,
        slot: u32_at(record, at + 4)?,
        ns: u64_at(record, at + 8)?,
        comm: bytes(record, at + 16)?,
    })
}

fn context(record: &[u8], at: usize) -> Option<ContextEntry> {
    Some(ContextEntry {
        trace: bytes(record, at)?,
        span: bytes(record, at + 16)?,
        flags: *record.get(at + 24)?,
        covers_run: *record.get(at + 26)? != 0,
        shared: *record.get(at + 27)? != 0,
    })
}

fn cycle(record: &[u8]) -> Option<CycleRecord> {
    let count = usize::from(*record.get(7)?);
    let culprits = (0..count).map(|k| who(record, CYCLE_BYTES + k * WHO_BYTES)).collect::<Option<Vec<_>>>()?;
    let flags = *record.get(3)?;
    let waker = if flags & FLAG_WAKER != 0 { Some(who(record, CYCLE_BYTES + count * WHO_BYTES)?) } else { None };
    let after = CYCLE_BYTES + (count + usize::from(waker.is_some())) * WHO_BYTES;
    let context = if flags & FLAG_CONTEXT != 0 { Some(context(record, after)?) } else { None };
    Some(CycleRecord {
        end: *record.get(1)?,
        state: *record.get(2)?,
        flags,
        cpu: u16_at(record, 4)?,
        reasons: *record.get(6)?,
        tid: u32_at(record, 8)?,
        slot: u32_at(record, 12)?,
        clock: u64_at(record, 16)?,
        run: u64_at(record, 24)?,
        wait: u64_at(record, 32)?,
        throttled: u64_at(record, 40)?,
        wait_before: u64_at(record, 48)?,
        block: u64_at(record, 56)?,
        culprits,
        waker,
        context,
    })
}

/// The start of the wait was seen.
pub(super) const FLAG_WAIT_KNOWN: u8 = 1;
/// The block's length is known.
pub(super) const FLAG_BLOCK_KNOWN: u8 = 1 << 1;
/// The waker follows.
pub(super) const FLAG_WAKER: u8 = 1 << 2;
/// The context follows.
pub(super) const FLAG_CONTEXT: u8 = 1 << 3;

/// Reads one record; `None` where it is not one of ours or cut short.
pub(super) fn decode(record: &[u8]) -> Option<Record> {
    match record.first()? {
        1 => cycle(record).map(Record::Cycle),
        2 => Some(Record::Task(TaskRecord {
            kernel_thread: *record.get(1)? != 0,
            tid: u32_at(record, 4)?,
            tgid: u32_at(record, 8)?,
            slot: u32_at(record, 12)?,
            start_boot: u64_at(record, 16)?,
            leader_start_boot: u64_at(record, 24)?,
            comm: bytes(record, 32)?,
        })),
        3 => Some(Record::Exit { tid: u32_at(record, 4)? }),
        4 => Some(Record::Clock { cpu: u16_at(record, 2)?, clock: u64_at(record, 8)?, boot: u64_at(record, 16)? }),
        5 => {
            let length = usize::from(u16_at(record, 2)?);
            Some(Record::Cgroup(CgroupRecord {
                removed: *record.get(1)? != 0,
                slot: u32_at(record, 4)?,
                id: u64_at(record, 8)?,
                serial: u64_at(record, 16)?,
                path: record.get(CGROUP_BYTES..CGROUP_BYTES + length)?.to_vec(),
            }))
        }
        6 => Some(Record::Moved),
        7 => Some(Record::Exec { tgid: u32_at(record, 4)?, leader_start_boot: u64_at(record, 8)? }),
        8 => {
            let length = usize::from(u16_at(record, 2)?);
            Some(Record::Node(NodeRecord {
                id: u64_at(record, 8)?,
                parent: u64_at(record, 16)?,
                name: record.get(NODE_BYTES..NODE_BYTES + length)?.to_vec(),
            }))
        }
        9 => thread(record).map(Record::Thread),
        _ => None,
    }
}

fn thread(record: &[u8]) -> Option<ThreadRecord> {
    let total = |k: usize| u64_at(record, THREAD_TOTALS_AT + 8 * k);
    Some(ThreadRecord {
        ended: *record.get(1)? != 0,
        tid: u32_at(record, 4)?,
        slot: u32_at(record, 8)?,
        life: total(0)?,
        run: total(1)?,
        delay: total(2)?,
        throttled: total(3)?,
        stolen: total(4)?,
        d: total(5)?,
        t: total(6)?,
        other: total(7)?,
        voluntary: total(8)?,
        involuntary: total(9)?,
        migrations: total(10)?,
    })
}

/// A kernel name becomes text: up to the first NUL, bytes that are not UTF-8 replaced one by one.
pub(super) fn comm_text(comm: &[u8]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(comm.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that cut or foreign bytes give nothing, and never a panic.
    #[test]
    fn cut_records() {
        let mut record = vec![0_u8; CYCLE_BYTES + 2 * WHO_BYTES];
        record[0] = 1;
        record[3] = FLAG_WAKER;
        record[7] = 1;
        assert!(matches!(decode(&record), Some(Record::Cycle(CycleRecord { waker: Some(_), .. }))));
        for length in 0..record.len() {
            let cut = decode(&record[..length]);
            assert_eq!(cut, None, "{length}");
        }
        assert_eq!(decode(&[99; 200]), None);
    }

    /// Check that names cut inside a character or without any UTF-8 stay readable.
    #[test]
    fn comm_bytes() {
        assert_eq!(comm_text(b"\xff\xfecaf\xc3\0\0"), "\u{fffd}\u{fffd}caf\u{fffd}");
        assert_eq!(comm_text(b"abcdefghijklmno\0"), "abcdefghijklmno");
    }
}
