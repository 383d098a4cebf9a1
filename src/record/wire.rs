//! Pure: the records of a block as bytes. Each block stands alone: times are differences to the record
//! before, names are written once and then referred to.
//!
//! ```text
//! record  tag:u8 time:zigzag [cpu:varint] [current: tid:varint [pid:varint]] fields
//! tag     bits 0-3 the event, 0x10 current follows, 0x20 its pid too, 0x40 in an interrupt, 0x80 CPU as before
//! name    0 none | 1 len:u8 bytes (the next new name) | n + 2 the n-th name of this block
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{BootNs, CgroupKey, ProcessKey};
use crate::timeline::{Comm, Current, Event, Named, Record, SwitchOut, TaskState, WakeupKind};

/// What a recording is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An event.
    Record(Record),
    /// The path of a cgroup, told before its first thread.
    Cgroup {
        /// Which.
        key: CgroupKey,
        /// Below the mount, beginning with `/`.
        path: Arc<str>,
    },
}

const CURRENT: u8 = 0x10;
const CURRENT_PID: u8 = 0x20;
const INTERRUPT: u8 = 0x40;
const SAME_CPU: u8 = 0x80;

/// The longest cgroup path that is kept (PATH_MAX).
const MAX_PATH_BYTES: usize = 4096;
/// More than any one entry takes.
pub(super) const MAX_ENTRY_BYTES: usize = MAX_PATH_BYTES + 64;

const STATES: [TaskState; 10] = [
    TaskState::Runnable,
    TaskState::Interruptible,
    TaskState::Uninterruptible,
    TaskState::Stopped,
    TaskState::Traced,
    TaskState::Dead,
    TaskState::Zombie,
    TaskState::Parked,
    TaskState::Idle,
    TaskState::Unknown,
];

/// Writes the entries of one block.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
    names: HashMap<Comm, u64>,
    last: u64,
    cpu: u32,
}

impl Encoder {
    /// Begins the next block.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.names.clear();
        (self.records, self.last, self.cpu) = (0, 0, 0);
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        self.records += 1;
        match entry {
            Entry::Record(record) => self.record(record),
            Entry::Cgroup { key, path } => {
                self.bytes.push(15);
                self.varint(key.id);
                self.varint(key.serial);
                let end = (0..=path.len().min(MAX_PATH_BYTES)).rev().find(|at| path.is_char_boundary(*at));
                let path = path.get(..end.unwrap_or(0)).unwrap_or_default();
                self.varint(path.len() as u64);
                self.bytes.extend_from_slice(path.as_bytes());
            }
        }
    }

    fn record(&mut self, record: &Record) {
        let mut tag = event_code(&record.event);
        if let Some(current) = record.current {
            tag |= CURRENT;
            tag |= if current.pid.is_some() { CURRENT_PID } else { 0 };
            tag |= if current.interrupt { INTERRUPT } else { 0 };
        }
        tag |= if record.cpu == self.cpu { SAME_CPU } else { 0 };
        self.bytes.push(tag);
        let ahead = record.at.0.wrapping_sub(self.last) as i64;
        self.varint(((ahead << 1) ^ (ahead >> 63)) as u64);
        self.last = record.at.0;
        if record.cpu != self.cpu {
            self.cpu = record.cpu;
            self.varint(record.cpu.into());
        }
        if let Some(current) = record.current {
            self.varint(current.tid.into());
            if let Some(pid) = current.pid {
                self.varint(pid.into());
            }
        }
        self.event(&record.event);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Switch { prev, out, next } => {
                self.named(*prev);
                let state = STATES.iter().position(|state| *state == out.state).unwrap_or(9);
                self.bytes.push(state as u8 | if out.preempted { 0x80 } else { 0 });
                self.named(*next);
            }
            Event::Wakeup { task, target_cpu, .. } => {
                self.named(*task);
                self.varint((*target_cpu).into());
            }
            Event::Migrate { task, to } => {
                self.named(*task);
                self.varint((*to).into());
            }
            Event::Fork { parent, child, same_process } => {
                self.varint((*parent).into());
                self.named(*child);
                self.bytes.push(same_process.map_or(2, u8::from));
            }
            Event::Exit { task } | Event::Rename { task } => self.named(*task),
            Event::TakeOver { from, to } => {
                self.varint((*from).into());
                self.varint((*to).into());
            }
            Event::Identity { tid, process, start, kernel_thread, cgroup } => {
                self.varint((*tid).into());
                self.varint(process.pid.into());
                self.varint(process.start.0);
                self.varint(start.0);
                self.bytes.push(u8::from(*kernel_thread));
                self.varint(cgroup.id);
                self.varint(cgroup.serial);
            }
            Event::Lost { count, everywhere } => {
                self.varint(*count);
                self.bytes.push(u8::from(*everywhere));
            }
        }
    }

    fn named(&mut self, named: Named) {
        self.varint(named.tid.into());
        let Some(comm) = named.comm else {
            self.bytes.push(0);
            return;
        };
        let next = self.names.len() as u64 + 2;
        match self.names.get(&comm).copied() {
            Some(known) => self.varint(known),
            None => {
                self.names.insert(comm, next);
                self.bytes.push(1);
                self.bytes.push(comm.as_bytes().len() as u8);
                self.bytes.extend_from_slice(comm.as_bytes());
            }
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// The number of an event in a tag; 15 is a cgroup.
fn event_code(event: &Event) -> u8 {
    match event {
        Event::Switch { .. } => 0,
        Event::Wakeup { kind: WakeupKind::Wakeup, .. } => 1,
        Event::Wakeup { kind: WakeupKind::Waking, .. } => 2,
        Event::Wakeup { kind: WakeupKind::New, .. } => 3,
        Event::Migrate { .. } => 4,
        Event::Fork { .. } => 5,
        Event::Exit { .. } => 6,
        Event::Rename { .. } => 7,
        Event::TakeOver { .. } => 8,
        Event::Identity { .. } => 9,
        Event::Lost { .. } => 10,
    }
}

/// Reads the entries of one block. Any bytes are safe; those that no encoder writes give `None`.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    names: Vec<Comm>,
    last: u64,
    cpu: u32,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, names: Vec::new(), last: 0, cpu: 0 }
    }

    pub(super) fn at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn entry(&mut self) -> Option<Entry> {
        let tag = self.byte()?;
        if tag == 15 {
            let key = CgroupKey { id: self.varint()?, serial: self.varint()? };
            let length = usize::try_from(self.varint()?).ok().filter(|length| *length <= MAX_PATH_BYTES)?;
            let path = std::str::from_utf8(self.take(length)?).ok()?;
            return Some(Entry::Cgroup { key, path: path.into() });
        }
        let zigzag = self.varint()?;
        let ahead = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        self.last = self.last.wrapping_add(ahead as u64);
        if tag & SAME_CPU == 0 {
            self.cpu = self.number()?;
        }
        let mut current = None;
        if tag & CURRENT != 0 {
            let tid = self.number()?;
            let pid = if tag & CURRENT_PID != 0 { Some(self.number()?) } else { None };
            current = Some(Current { tid, pid, interrupt: tag & INTERRUPT != 0 });
        }
        let event = self.event(tag & 0x0f)?;
        Some(Entry::Record(Record { at: BootNs(self.last), cpu: self.cpu, event, current }))
    }

    fn event(&mut self, code: u8) -> Option<Event> {
        let wakeup = |decoder: &mut Self, kind| {
            Some(Event::Wakeup { task: decoder.named()?, kind, target_cpu: decoder.number()? })
        };
        Some(match code {
            0 => {
                let prev = self.named()?;
                let byte = self.byte()?;
                let state = *STATES.get(usize::from(byte & 0x7f))?;
                Event::Switch { prev, out: SwitchOut { state, preempted: byte & 0x80 != 0 }, next: self.named()? }
            }
            1 => wakeup(self, WakeupKind::Wakeup)?,
            2 => wakeup(self, WakeupKind::Waking)?,
            3 => wakeup(self, WakeupKind::New)?,
            4 => Event::Migrate { task: self.named()?, to: self.number()? },
            5 => {
                let (parent, child) = (self.number()?, self.named()?);
                let same_process = match self.byte()? {
                    0 => Some(false),
                    1 => Some(true),
                    _ => None,
                };
                Event::Fork { parent, child, same_process }
            }
            6 => Event::Exit { task: self.named()? },
            7 => Event::Rename { task: self.named()? },
            8 => Event::TakeOver { from: self.number()?, to: self.number()? },
            9 => Event::Identity {
                tid: self.number()?,
                process: ProcessKey { pid: self.number()?, start: BootNs(self.varint()?) },
                start: BootNs(self.varint()?),
                kernel_thread: self.byte()? == 1,
                cgroup: CgroupKey { id: self.varint()?, serial: self.varint()? },
            },
            10 => Event::Lost { count: self.varint()?, everywhere: self.byte()? == 1 },
            _ => return None,
        })
    }

    fn named(&mut self) -> Option<Named> {
        let tid = self.number()?;
        let comm = match self.varint()? {
            0 => None,
            1 => {
                let length = self.byte()?;
                let comm = Comm::new(self.take(length.into())?);
                self.names.push(comm);
                Some(comm)
            }
            known => Some(*self.names.get(usize::try_from(known - 2).ok()?)?),
        };
        Some(Named { tid, comm })
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
