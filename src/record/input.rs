//! Opens what replay is given: our recording or tracers' text, plain, gzip or zstd, told by the first bytes.

use std::fmt;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;

use super::facts::Facts;
use super::reader::{Part, Reader};
use super::wire::Entry;
use crate::model::CgroupKey;
use crate::timeline::Record;
use crate::trace_text::{Decoder, Item};

/// What an input turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A file of ours.
    Recording,
    /// Text of ftrace, trace-cmd or perf.
    Text,
}

/// A place in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line of text, from 1.
    Line(u64),
    /// A byte of a recording (behind any decompression).
    Byte(u64),
}

impl fmt::Display for Place {
    /// As it follows a file's name: `7`, `byte 4096`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(out, "{line}"),
            Self::Byte(byte) => write!(out, "byte {byte}"),
        }
    }
}

/// What comes out of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// What a recording says about its host.
    Facts(Facts),
    /// An event.
    Record(Record),
    /// The path of a cgroup.
    Cgroup {
        /// Which.
        key: CgroupKey,
        /// Below the mount.
        path: Arc<str>,
    },
    /// Something that could not be read.
    Unreadable {
        /// Where.
        place: Place,
        /// How many records are gone; `None`: not known.
        records: Option<u64>,
        /// Why.
        why: String,
    },
}

type Source = Box<dyn Read + Send>;

/// An open input. Memory is bounded by one block or one line.
pub struct Input {
    body: Body,
}

enum Body {
    Recording(Box<Reader<Source>>),
    Text(Box<Lines>),
}

/// Bytes that tell what something is.
const HEAD_BYTES: usize = 10;
const BUFFER_BYTES: usize = 256 * 1024;
/// No tracer prints longer lines.
const MAX_LINE_BYTES: usize = 64 * 1024;

impl Input {
    /// Looks at the first bytes.
    ///
    /// # Errors
    /// A recording of another version, or what the source gives.
    pub fn open(source: Source) -> io::Result<Self> {
        let (head, source) = peek(source)?;
        let source: Source = if head.starts_with(&[0x1f, 0x8b]) {
            Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, source)))
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Box::new(zstd::stream::read::Decoder::new(source)?)
        } else {
            source
        };
        let (head, source) = peek(source)?;
        let body = if Reader::<Source>::is_ours(&head) {
            let source: Source = Box::new(BufReader::with_capacity(BUFFER_BYTES, source));
            Body::Recording(Box::new(Reader::new(source)?))
        } else {
            Body::Text(Box::new(Lines::new(source)))
        };
        Ok(Self { body })
    }

    /// What it is.
    pub fn kind(&self) -> InputKind {
        match self.body {
            Body::Recording(_) => InputKind::Recording,
            Body::Text(_) => InputKind::Text,
        }
    }

    /// Reads on, at most one block or buffer; gives `false` at the end. A source that fails ends the input
    /// with something unreadable; what was read before it stands.
    pub fn next(&mut self, on: &mut impl FnMut(Chunk)) -> bool {
        match &mut self.body {
            Body::Recording(reader) => {
                let mut at = 0;
                let more = reader.next_block(&mut |part| {
                    on(match part {
                        Part::Facts(facts) => Chunk::Facts(facts),
                        Part::Entry(Entry::Record(record)) => Chunk::Record(record),
                        Part::Entry(Entry::Cgroup { key, path }) => Chunk::Cgroup { key, path },
                        Part::Damage(damage) => {
                            at = damage.at_byte;
                            let place = Place::Byte(damage.at_byte);
                            Chunk::Unreadable { place, records: damage.records, why: damage.what.to_owned() }
                        }
                    });
                });
                more.unwrap_or_else(|why| {
                    on(Chunk::Unreadable { place: Place::Byte(at), records: None, why: failed(&why) });
                    false
                })
            }
            Body::Text(lines) => lines.next(on),
        }
    }
}

/// Why a source ended early, in a person's words.
fn failed(why: &io::Error) -> String {
    if why.kind() == io::ErrorKind::UnexpectedEof {
        return "the file is cut off".to_owned();
    }
    format!("cannot be read on: {why}")
}

/// The first bytes of a source, and the source with them still in it.
fn peek(mut source: Source) -> io::Result<(Vec<u8>, Source)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut head);
    match read {
        Ok(_) => {}
        // a compressed stream that is cut off in its first bytes: what there is may still be read
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(why) => return Err(why),
    }
    Ok((head.clone(), Box::new(Cursor::new(head).chain(source))))
}

/// Splits a source into lines.
struct Lines {
    from: Source,
    buffer: Vec<u8>,
    /// Bytes of an unfinished line at the begin of the buffer.
    kept: usize,
    /// The rest of a line that was too long is being left out.
    skipping: bool,
    decoder: Decoder,
}

impl Lines {
    fn new(from: Source) -> Self {
        Self { from, buffer: vec![0; BUFFER_BYTES], kept: 0, skipping: false, decoder: Decoder::default() }
    }

    fn next(&mut self, on: &mut impl FnMut(Chunk)) -> bool {
        let mut out = |item| {
            on(match item {
                Item::Record(record) => Chunk::Record(record),
                Item::Unreadable { line, why } => {
                    Chunk::Unreadable { place: Place::Line(line), records: None, why: why.to_string() }
                }
            });
        };
        let got = match self.buffer.get_mut(self.kept..).map(|room| self.from.read(room)) {
            Some(Ok(got)) => got,
            Some(Err(why)) if why.kind() == io::ErrorKind::Interrupted => return true,
            Some(Err(why)) => {
                self.last_line(&mut out);
                let place = Place::Line(self.decoder.lines() + 1);
                on(Chunk::Unreadable { place, records: None, why: failed(&why) });
                return false;
            }
            None => 0,
        };
        if got == 0 {
            self.last_line(&mut out);
            return false;
        }
        let end = self.kept + got;
        let filled = self.buffer.get(..end).unwrap_or_default();
        let mut from = 0;
        // what was kept holds no newline
        for newline in memchr::memchr_iter(b'\n', filled) {
            let line = filled.get(from..newline).unwrap_or_default();
            from = newline + 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > MAX_LINE_BYTES {
                self.decoder.too_long(&mut out);
            } else {
                self.decoder.line(line, &mut out);
            }
        }
        self.buffer.copy_within(from..end, 0);
        self.kept = end - from;
        if self.skipping {
            self.kept = 0;
        } else if self.kept > MAX_LINE_BYTES {
            self.decoder.too_long(&mut out);
            (self.skipping, self.kept) = (true, 0);
        }
        true
    }

    /// The text has ended, perhaps without a newline.
    fn last_line(&mut self, out: &mut impl FnMut(Item)) {
        let line = self.buffer.get(..self.kept).unwrap_or_default();
        if !line.is_empty() && !self.skipping {
            self.decoder.line(line, out);
        }
        self.kept = 0;
        self.decoder.finish(out);
    }
}
