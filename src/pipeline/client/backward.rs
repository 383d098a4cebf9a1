//! Pure: protobuf written from its end to its begin: a message's length is known when its tag is written, so that no
//! length is computed beforehand, once for every level that a field lies deep. Refuses to know: which messages.

use bytes::{Buf as _, Bytes};

/// Wire types (protobuf encoding, "Message structure").
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

/// From here on a varint has two bytes, and three.
const TWO_BYTES: u64 = 1 << 7;
const THREE_BYTES: u64 = 1 << 14;

/// Bytes that grow towards their begin.
pub(super) struct Backward {
    bytes: Vec<u8>,
    /// The first byte that is written.
    at: usize,
}

impl Backward {
    /// With room for so many bytes; each time they do not suffice there are twice as many.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], at: bytes }
    }

    /// What was written.
    pub(super) fn finish(self) -> Bytes {
        let mut bytes = Bytes::from(self.bytes);
        bytes.advance(self.at);
        bytes
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.at < bytes.len() {
            self.grow(bytes.len());
        }
        let begin = self.at - bytes.len();
        if let Some(place) = self.bytes.get_mut(begin..self.at) {
            place.copy_from_slice(bytes);
            self.at = begin;
        }
    }

    /// Most of what is written is a few bytes whose number the compiler knows: stores instead of a call of memcpy.
    #[inline]
    fn put_few<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.bytes.get_mut(..self.at).and_then(|free| free.last_chunk_mut()) {
            Some(place) => {
                *place = bytes;
                self.at -= N;
            }
            None => self.put_grown(&bytes),
        }
    }

    #[cold]
    fn put_grown(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        let more = self.bytes.len().max(wanted);
        let mut grown = vec![0; more + self.bytes.len()];
        if let Some(place) = grown.get_mut(more..) {
            place.copy_from_slice(&self.bytes);
        }
        self.bytes = grown;
        self.at += more;
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        if value < TWO_BYTES {
            self.put_few([value as u8]);
        } else if value < THREE_BYTES {
            self.put_few([(value | 0x80) as u8, (value >> 7) as u8]);
        } else {
            self.long_varint(value);
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, mut value: u64) {
        let mut bytes = [0_u8; 10];
        let mut count = 0;
        for byte in &mut bytes {
            count += 1;
            *byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(bytes.get(..count).unwrap_or_default());
    }

    /// A tag and the varint behind it, at once where each is one byte.
    #[inline]
    fn head(&mut self, field: u32, wire: u32, value: u64) {
        let tag = u64::from(field << 3 | wire);
        if tag < TWO_BYTES && value < TWO_BYTES {
            self.put_few([tag as u8, value as u8]);
        } else {
            self.varint(value);
            self.varint(tag);
        }
    }

    #[inline]
    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// A field that is left out where it has its default, as proto3 does.
    #[inline]
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.uint_always(field, value);
        }
    }

    /// A member of a oneof, which is there also with its default.
    #[inline]
    pub(super) fn uint_always(&mut self, field: u32, value: u64) {
        self.head(field, VARINT, value);
    }

    #[inline]
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.put_few(value.to_le_bytes());
            self.tag(field, FIXED32);
        }
    }

    #[inline]
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.fixed64_always(field, value);
        }
    }

    #[inline]
    pub(super) fn fixed64_always(&mut self, field: u32, value: u64) {
        self.put_few(value.to_le_bytes());
        self.tag(field, FIXED64);
    }

    /// Text or bytes.
    #[inline]
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.bytes_always(field, value);
        }
    }

    #[inline]
    pub(super) fn bytes_always(&mut self, field: u32, value: &[u8]) {
        self.put(value);
        self.head(field, LENGTH, value.len() as u64);
    }

    /// A packed field of numbers of eight bytes each.
    #[inline]
    pub(super) fn packed(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator) {
        let count = values.len() as u64;
        if count > 0 {
            for value in values.rev() {
                self.put_few(value.to_le_bytes());
            }
            self.head(field, LENGTH, count * 8);
        }
    }

    /// A message, whose fields `write` puts from the highest number to the lowest.
    #[inline]
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let end = self.bytes.len() - self.at;
        write(self);
        self.head(field, LENGTH, (self.bytes.len() - self.at - end) as u64);
    }
}
