//! Reads a recording; what is damaged is told with its place, and reading goes on behind it.

use std::fmt;
use std::io::{self, Read};

use super::block::{BLOCK_MAGIC, FILE_HEAD_BYTES, FILE_MAGIC, HEADER_BYTES, Header, Kind, MAX_BLOCK_BYTES, VERSION};
use super::facts::Facts;
use super::wire::{Decoder, Entry};

/// Something in a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where, in bytes from the begin of the (decompressed) file.
    pub at_byte: u64,
    /// How many records are gone; `None`: not known.
    pub records: Option<u64>,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: {}", self.at_byte, self.what)?;
        self.records.map_or(Ok(()), |records| write!(out, " ({records} records lost)"))
    }
}

/// What comes out of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The host's facts, first.
    Facts(Facts),
    /// An event or a cgroup.
    Entry(Entry),
    /// A hole.
    Damage(Damage),
}

/// Reads one file. Holds one block at a time.
pub struct Reader<R: Read> {
    from: R,
    at_byte: u64,
    index: u32,
    /// Entries of whole blocks so far; the end says how many there should be.
    records: u64,
    told_lost: u64,
    stored: Vec<u8>,
    raw: Vec<u8>,
    unpacker: zstd::bulk::Decompressor<'static>,
}

/// How a block ended.
enum Step {
    More,
    Ended,
}

impl<R: Read> Reader<R> {
    /// Whether a file that begins with these bytes is one of ours.
    pub fn is_ours(begin: &[u8]) -> bool {
        begin.starts_with(&FILE_MAGIC)
    }

    /// Reads the head.
    ///
    /// # Errors
    /// Not one of ours, a version this build does not know, or what the source gives.
    pub fn new(mut from: R) -> io::Result<Self> {
        let mut head = [0; FILE_HEAD_BYTES];
        from.read_exact(&mut head)?;
        let version = head.strip_prefix(&FILE_MAGIC).and_then(|version| version.try_into().ok());
        let Some(version) = version.map(u16::from_le_bytes) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a schedscope recording"));
        };
        if version != VERSION {
            let text = format!("format version {version}, this build reads {VERSION}; use a newer schedscope");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Self {
            from,
            at_byte: FILE_HEAD_BYTES as u64,
            index: 0,
            records: 0,
            told_lost: 0,
            stored: Vec::new(),
            raw: Vec::new(),
            unpacker: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Reads on; gives `false` at the end.
    ///
    /// # Errors
    /// What the source gives; damage in the data is a part, not an error.
    pub fn next_block(&mut self, on: &mut impl FnMut(Part)) -> io::Result<bool> {
        let begin = self.at_byte;
        let mut header = [0; HEADER_BYTES];
        let got = self.fill(&mut header)?;
        if got < HEADER_BYTES {
            let what = "the file is cut off: no end mark";
            on(Part::Damage(Damage { at_byte: begin, records: None, what }));
            return Ok(false);
        }
        let header = match Header::from_bytes(&header) {
            Some(header) => header,
            None => {
                let what = "not the begin of a block; looking for the next";
                on(Part::Damage(Damage { at_byte: begin, records: None, what }));
                match self.resync(header)? {
                    Some(header) => header,
                    None => return Ok(false),
                }
            }
        };
        Ok(matches!(self.block(header, begin, on)?, Step::More))
    }

    fn block(&mut self, header: Header, begin: u64, on: &mut impl FnMut(Part)) -> io::Result<Step> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(header.stored_bytes as usize, 0);
        let got = self.fill(&mut stored)?;
        self.stored = stored;
        let records = Some(u64::from(header.records));
        if got < self.stored.len() {
            self.told_lost += u64::from(header.records);
            on(Part::Damage(Damage { at_byte: begin, records, what: "the file is cut off within a block" }));
            return Ok(Step::Ended);
        }
        if header.index > self.index {
            let what = "blocks are missing before this one";
            on(Part::Damage(Damage { at_byte: begin, records: None, what }));
        }
        self.index = header.index.wrapping_add(1);
        if crc32fast::hash(&self.stored) != header.payload_crc {
            self.told_lost += u64::from(header.records);
            on(Part::Damage(Damage { at_byte: begin, records, what: "a block's checksum is wrong" }));
            return Ok(Step::More);
        }
        if !self.unpack(header) {
            self.told_lost += u64::from(header.records);
            on(Part::Damage(Damage { at_byte: begin, records, what: "a block cannot be decompressed" }));
            return Ok(Step::More);
        }
        match header.kind {
            Kind::Facts => match serde_json::from_slice(&self.raw) {
                Ok(facts) => on(Part::Facts(facts)),
                Err(_) => on(Part::Damage(Damage { at_byte: begin, records: None, what: "the facts are no JSON" })),
            },
            Kind::Records => self.entries(header, begin, on),
            Kind::End => {
                self.check_sum(begin, on);
                return Ok(Step::Ended);
            }
        }
        Ok(Step::More)
    }

    fn unpack(&mut self, header: Header) -> bool {
        if !header.compressed {
            std::mem::swap(&mut self.raw, &mut self.stored);
            return self.raw.len() == header.raw_bytes as usize;
        }
        self.raw.clear();
        self.raw.reserve(MAX_BLOCK_BYTES);
        let unpacked = self.unpacker.decompress_to_buffer(&self.stored, &mut self.raw);
        unpacked.is_ok_and(|bytes| bytes == header.raw_bytes as usize)
    }

    fn entries(&mut self, header: Header, begin: u64, on: &mut impl FnMut(Part)) {
        let mut decoder = Decoder::new(&self.raw);
        let mut read = 0u64;
        while !decoder.at_end() {
            let Some(entry) = decoder.entry() else {
                let left = u64::from(header.records).saturating_sub(read);
                self.told_lost += left;
                let what = "a record of a kind that this build does not know";
                on(Part::Damage(Damage { at_byte: begin, records: Some(left), what }));
                break;
            };
            read += 1;
            on(Part::Entry(entry));
        }
        self.records += read;
    }

    /// The end says how many records there are: holes that were not counted otherwise show here.
    fn check_sum(&self, begin: u64, on: &mut impl FnMut(Part)) {
        let sum = self.raw.as_slice().try_into().map(u64::from_le_bytes).unwrap_or(0);
        let missing = sum.saturating_sub(self.records + self.told_lost);
        if missing > 0 {
            let what = "records are missing in the places told before";
            on(Part::Damage(Damage { at_byte: begin, records: Some(missing), what }));
        }
    }

    /// Looks for the next block from one byte behind `window` on.
    fn resync(&mut self, mut window: [u8; HEADER_BYTES]) -> io::Result<Option<Header>> {
        loop {
            let next = window.iter().skip(1).position(|byte| Some(byte) == BLOCK_MAGIC.first());
            let skip = next.map_or(HEADER_BYTES, |at| at + 1);
            window.rotate_left(skip);
            let Some(fresh) = window.get_mut(HEADER_BYTES - skip..) else { return Ok(None) };
            let mut bytes = [0; HEADER_BYTES];
            let Some(room) = bytes.get_mut(..skip) else { return Ok(None) };
            if self.fill(room)? < skip {
                return Ok(None);
            }
            fresh.copy_from_slice(room);
            if let Some(header) = Header::from_bytes(&window) {
                return Ok(Some(header));
            }
        }
    }

    /// Reads until the buffer is full or the source ends.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while let Some(room) = buffer.get_mut(got..)
            && !room.is_empty()
        {
            match self.from.read(room) {
                Ok(0) => break,
                Ok(bytes) => got += bytes,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    self.at_byte += got as u64;
                    return Err(why);
                }
            }
        }
        self.at_byte += got as u64;
        Ok(got)
    }
}
