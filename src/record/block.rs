//! Pure: the frame of a block, and what makes one trustworthy.

/// Begins a file. The first byte is no text, the last two tell a transfer that changed line ends.
pub(super) const FILE_MAGIC: [u8; 10] = *b"\x89schedrec\n";
/// The only version there is.
pub(super) const VERSION: u16 = 1;
/// Bytes of magic and version.
pub(super) const FILE_HEAD_BYTES: usize = 12;
/// Begins each block; not text, so that a scan for it rarely stops in vain.
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"\xb1SB\n";
/// Bytes of a block's header.
pub(super) const HEADER_BYTES: usize = 32;
/// No block is larger, before or after compression.
pub(super) const MAX_BLOCK_BYTES: usize = 1 << 20;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// JSON of the host's facts.
    Facts,
    /// Records.
    Records,
    /// Nothing more follows; the payload is the sum of records as a u64.
    End,
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) compressed: bool,
    /// Counts blocks from 0, so that a missing one shows.
    pub(super) index: u32,
    pub(super) raw_bytes: u32,
    pub(super) stored_bytes: u32,
    pub(super) records: u32,
    pub(super) payload_crc: u32,
}

impl Header {
    /// As it stands in the file.
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Facts => 1,
            Kind::Records => 2,
            Kind::End => 3,
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&BLOCK_MAGIC);
        bytes.extend_from_slice(&[kind, u8::from(self.compressed), 0, 0]);
        for number in [self.index, self.raw_bytes, self.stored_bytes, self.records, self.payload_crc] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let mut fixed = [0; HEADER_BYTES];
        for (slot, byte) in fixed.iter_mut().zip(bytes) {
            *slot = byte;
        }
        fixed
    }

    /// `None` where it is none: wrong magic, wrong checksum, impossible sizes.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        if !bytes.starts_with(&BLOCK_MAGIC) {
            return None;
        }
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(four))
        };
        let (body, _) = bytes.split_at_checked(HEADER_BYTES - 4)?;
        if number(HEADER_BYTES - 4)? != crc32fast::hash(body) {
            return None;
        }
        let kind = match bytes.get(4)? {
            1 => Kind::Facts,
            2 => Kind::Records,
            3 => Kind::End,
            _ => return None,
        };
        let header = Self {
            kind,
            compressed: *bytes.get(5)? == 1,
            index: number(8)?,
            raw_bytes: number(12)?,
            stored_bytes: number(16)?,
            records: number(20)?,
            payload_crc: number(24)?,
        };
        let possible = header.raw_bytes.max(header.stored_bytes) as usize <= MAX_BLOCK_BYTES;
        possible.then_some(header)
    }
}
