//! Writes a recording, block by block.

use std::io::{self, Write};

use super::block::{FILE_MAGIC, Header, Kind, MAX_BLOCK_BYTES, VERSION};
use super::facts::Facts;
use super::wire::{Encoder, Entry, MAX_ENTRY_BYTES};

/// A block is written when it has this much; small enough to lose little, large enough to compress.
const BLOCK_BYTES: usize = 128 * 1024;
const _: () = assert!(BLOCK_BYTES + MAX_ENTRY_BYTES < MAX_BLOCK_BYTES);
/// zstd's fastest ordinary level: recording must not cost what it measures.
const LEVEL: i32 = 1;

/// Writes one file.
pub struct Writer<W: Write> {
    to: W,
    encoder: Encoder,
    compressor: zstd::bulk::Compressor<'static>,
    index: u32,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the head and the host's facts.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn new(mut to: W, facts: &Facts) -> io::Result<Self> {
        to.write_all(&FILE_MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        let mut writer = Self { to, encoder: Encoder::default(), compressor, index: 0, records: 0 };
        let json = serde_json::to_vec(facts)?;
        writer.block(Kind::Facts, &json, 0)?;
        Ok(writer)
    }

    /// Adds one entry.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn push(&mut self, entry: &Entry) -> io::Result<()> {
        self.encoder.entry(entry);
        self.records += 1;
        if self.encoder.bytes.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Writes out what is held, so that a reader at the other end sees it.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_block()?;
        self.to.flush()
    }

    /// Ends the file; without this a reader reports it as cut off.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        let sum = self.records.to_le_bytes();
        self.block(Kind::End, &sum, 0)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.encoder.records == 0 {
            return Ok(());
        }
        let mut encoder = std::mem::take(&mut self.encoder);
        let written = self.block(Kind::Records, &encoder.bytes, encoder.records);
        encoder.clear();
        self.encoder = encoder;
        written
    }

    fn block(&mut self, kind: Kind, raw: &[u8], records: u32) -> io::Result<()> {
        let packed = if kind == Kind::Records { self.compressor.compress(raw)? } else { Vec::new() };
        let compressed = !packed.is_empty() && packed.len() < raw.len();
        let stored = if compressed { packed.as_slice() } else { raw };
        let header = Header {
            kind,
            compressed,
            index: self.index,
            raw_bytes: raw.len() as u32,
            stored_bytes: stored.len() as u32,
            records,
            payload_crc: crc32fast::hash(stored),
        };
        self.index = self.index.wrapping_add(1);
        self.to.write_all(&header.to_bytes())?;
        self.to.write_all(stored)
    }
}
