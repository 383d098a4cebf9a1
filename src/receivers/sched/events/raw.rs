//! Pure: an event of the programs on classic tracepoints (`bpf/events.h`) as a record of the timeline.

use super::fields::Place;
use crate::timeline::{Comm, Current, Era, Event, Named, Record, SwitchOut, WakeupKind};

/// `struct raw_event`.
pub(in crate::receivers::sched) const BYTES: usize = FIELDS_AT + FIELD_BYTES;
pub(in crate::receivers::sched) const FIELDS_AT: usize = 32;
const FIELD_BYTES: usize = 80;

/// Each kind's tracepoint and the fields that are read, in the order of `enum event_kind`.
const KINDS: [(&str, &[&str]); 9] = [
    ("sched/sched_switch", &["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"]),
    ("sched/sched_waking", WAKEUP),
    ("sched/sched_wakeup", WAKEUP),
    ("sched/sched_wakeup_new", WAKEUP),
    ("sched/sched_migrate_task", &["comm", "pid", "dest_cpu"]),
    ("sched/sched_process_fork", &["child_comm", "child_pid", "parent_pid"]),
    ("sched/sched_process_exit", &["comm", "pid"]),
    ("sched/sched_process_exec", &["pid", "old_pid"]),
    // newer kernels leave the id out: it is the one on the CPU
    ("task/task_rename", &["newcomm"]),
];
const WAKEUP: &[&str] = &["comm", "pid", "target_cpu"];

/// Where the fields of each kind lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout(Vec<Vec<Place>>);

/// The fields of one event.
struct Fields<'a> {
    places: &'a [Place],
    bytes: &'a [u8],
}

impl Layout {
    /// From the `format` files, by tracepoint.
    ///
    /// # Errors
    /// With what this kernel does not have.
    pub(super) fn read(format: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        let place = |text: &str, tracepoint: &str, field: &str| {
            Place::find(text, field)
                .filter(|place| place.is_within(FIELD_BYTES))
                .ok_or_else(|| format!("the events of {tracepoint} have no {field} that is known here"))
        };
        let kinds = KINDS.iter().map(|(tracepoint, fields)| {
            let text = format(tracepoint)?;
            fields.iter().map(|field| place(&text, tracepoint, field)).collect()
        });
        kinds.collect::<Result<_, String>>().map(Self)
    }

    /// What the ring held: events that were lost before it, and the event.
    pub(super) fn records(&self, bytes: &[u8]) -> [Option<Record>; 2] {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
        let at = bytes.get(..8).and_then(|word| word.try_into().ok()).map(u64::from_ne_bytes);
        let (Some(at), Some(cpu), Some(lost)) = (at, word(16), word(20)) else { return [None, None] };
        let gap = Event::Lost { count: u64::from(lost), everywhere: false };
        let gap = (lost > 0).then(|| Record::new(at, cpu, gap));
        let event = || {
            let (tid, pid, kind) = (word(8)?, word(12)?, word(24)? as usize);
            let fields = Fields { places: self.0.get(kind)?, bytes: bytes.get(FIELDS_AT..)? };
            // whether the CPU was in an interrupt is not told: see `Source::tells_wakers`
            let current = Current { tid, pid: (tid != 0).then_some(pid), interrupt: false };
            Some(Record { current: Some(current), ..Record::new(at, cpu, fields.event(kind, tid)?) })
        };
        [gap, event()]
    }
}

impl Fields<'_> {
    fn named(&self, comm: usize, tid: usize) -> Option<Named> {
        let comm = self.places.get(comm)?.of(self.bytes)?;
        Some(Named::new(self.id(tid)?, Comm::new(comm)))
    }

    fn id(&self, at: usize) -> Option<u32> {
        self.number(at).and_then(|number| u32::try_from(number).ok())
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.places.get(at)?.number(self.bytes)
    }

    fn event(&self, kind: usize, current: u32) -> Option<Event> {
        let wakeup = |kind| Some(Event::Wakeup { task: self.named(0, 1)?, kind, target_cpu: self.id(2)? });
        match kind {
            0 => {
                let out = SwitchOut::from_tracepoint(self.number(2)?, Era::Reported);
                Some(Event::Switch { prev: self.named(0, 1)?, out, next: self.named(3, 4)? })
            }
            1 => wakeup(WakeupKind::Waking),
            2 => wakeup(WakeupKind::Wakeup),
            3 => wakeup(WakeupKind::New),
            4 => Some(Event::Migrate { task: self.named(0, 1)?, to: self.id(2)? }),
            5 => Some(Event::Fork { parent: self.id(2)?, child: self.named(0, 1)?, same_process: None }),
            6 => Some(Event::Exit { task: self.named(0, 1)? }),
            7 => Some(Event::TakeOver { from: self.id(1)?, to: self.id(0)? }),
            8 => {
                let comm = self.places.first()?.of(self.bytes)?;
                Some(Event::Rename { task: Named::new(current, Comm::new(comm)) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One field after the other: names of 16 bytes, numbers of four, the state of eight.
    fn layout() -> Layout {
        let format = |tracepoint: &str| {
            let fields = KINDS.iter().find(|(name, _)| *name == tracepoint).map(|(_, fields)| *fields);
            let mut at = 0;
            let lines = fields.unwrap().iter().map(|field| {
                let (declared, size) = match *field {
                    "prev_state" => ("long prev_state".to_owned(), 8),
                    name if name.ends_with("comm") => (format!("char {name}[16]"), 16),
                    number => (format!("int {number}"), 4),
                };
                at += size;
                format!("\tfield:{declared};\toffset:{};\tsize:{size};\tsigned:0;\n", at - size)
            });
            Ok(lines.collect())
        };
        Layout::read(format).unwrap()
    }

    fn event(kind: u32, lost: u32, fields: &[&[u8]]) -> Vec<u8> {
        let mut bytes = 1_000_u64.to_ne_bytes().to_vec();
        for word in [7, 5, 3, lost, kind, 0] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(fields.concat());
        bytes.resize(BYTES, 0);
        bytes
    }

    #[test]
    fn a_switch_is_told_with_what_was_lost_before_it() {
        let (prev, next) = (*b"web-worker\0junk\0", *b"swapper/3\0\0\0\0\0\0\0");
        let fields: [&[u8]; 5] = [&prev, &7_u32.to_ne_bytes(), &0x100_u64.to_ne_bytes(), &next, &0_u32.to_ne_bytes()];
        let [gap, switch] = layout().records(&event(0, 9, &fields));
        assert_eq!(gap, Some(Record::new(1_000, 3, Event::Lost { count: 9, everywhere: false })));
        let out = SwitchOut::from_text(b"R+");
        let (prev, next) = (Named::new(7, Comm::new(b"web-worker")), Named::new(0, Comm::new(b"swapper/3")));
        let current = Some(Current { tid: 7, pid: Some(5), interrupt: false });
        assert_eq!(switch, Some(Record { current, ..Record::new(1_000, 3, Event::Switch { prev, out, next }) }));
    }

    #[test]
    fn garbage_is_nothing() {
        let layout = layout();
        assert_eq!(layout.records(&[1, 2, 3]), [None, None]);
        assert_eq!(layout.records(&event(u32::MAX, 0, &[])), [None, None]);
        assert_eq!(layout.records(&event(0, 0, &[])[..40]), [None, None]);
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let error = Layout::read(|_| Ok("\tfield:char prev_comm[16];\toffset:78;\tsize:16;\tsigned:0;\n".to_owned()));
        assert!(error.unwrap_err().contains("sched/sched_switch have no prev_comm"));
    }
}
