//! Pure: lines in, records out. Puts together what a newline in a thread's name has torn apart.

use super::line::{Line, Unreadable, parse};
use crate::model::BootNs;
use crate::timeline::{Event, Record};

/// What comes of the lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
    /// A record.
    Record(Record),
    /// A line that could not be read.
    Unreadable {
        /// Its number, from 1.
        line: u64,
        /// Why.
        why: Unreadable,
    },
}

/// A name of 15 newlines, in the task column and in a field.
const MAX_JOINED_LINES: u64 = 32;
/// The longest line that a name could be torn in.
const MAX_JOINED_BYTES: usize = 1024;
/// The column behind the task's name (`%16s-%d`, `%16s %d`).
const BEHIND_NAME: usize = 16;

/// Reads the text of one capture, line by line.
#[derive(Debug, Default)]
pub struct Decoder {
    line: u64,
    last: BootNs,
    /// Unreadable so far; perhaps the next line completes it.
    torn: Vec<u8>,
    torn_from: u64,
    torn_why: Option<Unreadable>,
}

impl Decoder {
    /// Takes one line, without its newline.
    pub fn line(&mut self, line: &[u8], out: &mut impl FnMut(Item)) {
        self.line += 1;
        let parsed = parse(line);
        if self.torn_why.is_some() {
            self.after_torn(line, parsed, out);
        } else {
            self.take(line, parsed, out);
        }
    }

    /// A line longer than can be kept.
    pub fn too_long(&mut self, out: &mut impl FnMut(Item)) {
        self.line += 1;
        self.give_up_torn(out);
        out(Item::Unreadable { line: self.line, why: Unreadable::TooLong });
    }

    /// The text has ended.
    pub fn finish(&mut self, out: &mut impl FnMut(Item)) {
        self.give_up_torn(out);
    }

    /// How many lines there were.
    pub fn lines(&self) -> u64 {
        self.line
    }

    fn take(&mut self, line: &[u8], parsed: Line<'_>, out: &mut impl FnMut(Item)) {
        match parsed {
            Line::Event(event) => {
                self.last = event.at;
                out(Item::Record(event.record()));
            }
            Line::Lost { cpu, count } => {
                let event = Event::Lost { count, everywhere: cpu.is_none() };
                out(Item::Record(Record::new(self.last.0, cpu.unwrap_or(0), event)));
            }
            Line::Skip => {}
            Line::Unreadable(why) if line.len() <= MAX_JOINED_BYTES && why != Unreadable::Ticks => {
                self.torn.clear();
                self.torn.extend_from_slice(line);
                self.torn_from = self.line;
                self.torn_why = Some(why);
            }
            Line::Unreadable(why) => out(Item::Unreadable { line: self.line, why }),
        }
    }

    /// A line after one that could not be read.
    fn after_torn(&mut self, line: &[u8], parsed: Line<'_>, out: &mut impl FnMut(Item)) {
        let begun = self.torn.len();
        self.torn.push(b'\n');
        self.torn.extend_from_slice(line);
        if let Line::Event(_) = parsed {
            // whole by itself: the begin of the name of its task column stood on the line before
            let column = (self.torn.get(BEHIND_NAME - 1), self.torn.get(BEHIND_NAME));
            let fits =
                matches!(column, (Some(_), Some(b'-'))) || matches!(column, (Some(last), Some(b' ')) if *last != b' ');
            if fits && begun < BEHIND_NAME {
                self.torn_why = None;
            } else {
                self.give_up_torn(out);
            }
            self.take(line, parsed, out);
        } else if let Line::Event(event) = parse(&self.torn) {
            self.last = event.at;
            out(Item::Record(event.record()));
            self.torn_why = None;
        } else if matches!(parsed, Line::Unreadable(_) | Line::Skip)
            && self.torn.len() <= MAX_JOINED_BYTES
            && self.line - self.torn_from < MAX_JOINED_LINES
        {
            // perhaps the next line completes it
        } else {
            self.give_up_torn(out);
            self.take(line, parsed, out);
        }
    }

    fn give_up_torn(&mut self, out: &mut impl FnMut(Item)) {
        if let Some(why) = self.torn_why.take() {
            out(Item::Unreadable { line: self.torn_from, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Vec<Record>, Vec<(u64, Unreadable)>) {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        let mut decoder = Decoder::default();
        let mut out = |item| match item {
            Item::Record(record) => records.push(record),
            Item::Unreadable { line, why } => unreadable.push((line, why)),
        };
        for line in text.split(|byte| *byte == b'\n') {
            decoder.line(line, &mut out);
        }
        decoder.finish(&mut out);
        (records, unreadable)
    }

    const WAKEUP: &str =
        "            bash-12      [001] d..2.  2.500000: sched_wakeup: comm=x pid=7 prio=120 target_cpu=001";

    #[test]
    fn a_newline_in_a_name_tears_nothing() {
        let text = b"             a\nb-7     [001] d..2.  2.500000: sched_switch: prev_comm=a\nb prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=\n next_pid=9 next_prio=1\n";
        let (records, unreadable) = read(text);
        assert_eq!(unreadable, []);
        let [Record { event: Event::Switch { prev, next, .. }, .. }] = records.as_slice() else {
            panic!("{records:?}");
        };
        assert_eq!(prev.comm.unwrap().as_bytes(), b"a\nb");
        assert_eq!((next.tid, next.comm.unwrap().as_bytes()), (9, &b"\n"[..]));
    }

    #[test]
    fn other_text_is_told_with_its_line() {
        let text = format!("hello there, this is a mail\n{WAKEUP}\r\nCPU:3 [LOST 5 EVENTS]\n# x\nwhat\n");
        let (records, unreadable) = read(text.as_bytes());
        assert_eq!(records.len(), 2);
        assert!(matches!(records[1], Record { cpu: 3, event: Event::Lost { count: 5, .. }, .. }));
        assert_eq!(unreadable, [(1, Unreadable::NoHeader), (5, Unreadable::NoHeader)]);
    }
}
