//! Pure: one line of text: an event, a mark of lost events, nothing of interest, or unreadable.

use super::cursor::Cursor;
use super::header::{Header, NoHeader};
use super::payload::Payload;
use crate::model::BootNs;
use crate::timeline::{Current, Record};

/// A scheduler event as a line tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEvent<'a> {
    /// Its time; the trace clock's, which is not told in the text.
    pub at: BootNs,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// Who was on that CPU, where the task column can be read.
    pub current: Option<Current>,
    /// The tracepoint, without its group.
    pub name: &'a [u8],
    /// Its fields.
    pub payload: Payload<'a>,
}

impl TextEvent<'_> {
    /// As the timeline takes it.
    pub fn record(&self) -> Record {
        let tid = self.current.map_or(0, |current| current.tid);
        Record { at: self.at, cpu: self.cpu, event: self.payload.event(tid), current: self.current }
    }
}

/// Why a line could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// No columns of a known layout.
    #[error("neither ftrace, trace-cmd report nor perf script text")]
    NoHeader,
    /// A clock whose unit the text does not tell.
    #[error("the time is in ticks; record with a clock in seconds (trace_clock `boot`, `mono` or `local`)")]
    Ticks,
    /// The event is ours, its fields are not as any kernel prints them.
    #[error("the event's fields are incomplete")]
    Fields,
    /// Longer than any line of a tracer.
    #[error("the line is longer than 64 KiB")]
    TooLong,
}

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// A scheduler event.
    Event(TextEvent<'a>),
    /// Events were lost.
    Lost {
        /// On this CPU; `None`: not told.
        cpu: Option<u32>,
        /// How many; 0: not told.
        count: u64,
    },
    /// A comment, a heading, another event, a stack.
    Skip,
    /// None of these.
    Unreadable(Unreadable),
}

/// Reads one line, without its line end (a carriage return at the end is ignored).
pub fn parse(line: &[u8]) -> Line<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // tabs begin the frames of perf's stacks; a name in the first column of the others is padded with blanks
    if line.iter().all(u8::is_ascii_whitespace) || matches!(line.first(), Some(b'#' | b'\t')) {
        return Line::Skip;
    }
    let header = match Header::find(line) {
        Ok(header) => header,
        Err(why) => return without_header(line, why),
    };
    let mut cursor = Cursor(header.rest);
    let mut word = cursor.word();
    if word.iter().all(u8::is_ascii_digit) {
        // perf's period column
        cursor.blanks();
        word = cursor.word();
    }
    let name = word.strip_suffix(b":").unwrap_or(word);
    let name = memchr::memrchr(b':', name).and_then(|colon| name.get(colon + 1..)).unwrap_or(name);
    cursor.blanks();
    if matches!(name, b"PERF_RECORD_LOST" | b"PERF_RECORD_LOST_SAMPLES") {
        let count = cursor.tag(b"lost").and_then(|()| {
            cursor.blanks();
            cursor.u64()
        });
        return Line::Lost { cpu: Some(header.cpu), count: count.unwrap_or(0) };
    }
    if !Payload::is_ours(name) {
        return Line::Skip;
    }
    let tid = header.current.map(|current| current.tid);
    match Payload::parse(name, cursor.0, tid) {
        Some(payload) => {
            Line::Event(TextEvent { at: header.at, cpu: header.cpu, current: header.current, name, payload })
        }
        None => Line::Unreadable(Unreadable::Fields),
    }
}

/// `CPU:0 [LOST 274980 EVENTS]`, `CPU:1 [EVENTS DROPPED]`, headings of trace-cmd, or nothing we know.
fn without_header(line: &[u8], why: NoHeader) -> Line<'_> {
    let trimmed = line.trim_ascii();
    if let Some(lost) = lost_mark(trimmed) {
        return lost;
    }
    let heading = trimmed.starts_with(b"cpus=")
        || trimmed.starts_with(b"version = ")
        || (trimmed.starts_with(b"CPU ") && trimmed.ends_with(b" is empty"));
    match why {
        _ if heading => Line::Skip,
        NoHeader::Ticks => Line::Unreadable(Unreadable::Ticks),
        NoHeader::NotThere => Line::Unreadable(Unreadable::NoHeader),
    }
}

fn lost_mark(line: &[u8]) -> Option<Line<'_>> {
    let mut cursor = Cursor(line);
    cursor.tag(b"CPU:")?;
    let cpu = cursor.u32()?;
    cursor.tag(b" [")?;
    let inside = cursor.0.strip_suffix(b"]")?;
    let text = std::str::from_utf8(inside).ok()?;
    if !text.ends_with("EVENTS") && !text.ends_with("DROPPED") {
        return None;
    }
    let count = text.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0);
    Some(Line::Lost { cpu: Some(cpu), count })
}
