//! Pure: protobuf written from its end to its begin: a message's length is known when its tag is written, so that no
//! length is computed beforehand, once for every level that a field lies deep. Refuses to know: which messages.

/// Bytes to begin with; each time they do not suffice there are twice as many.
const CAPACITY_BYTES: usize = 64 << 10;

/// Wire types (protobuf encoding, "Message structure").
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

/// Bytes that grow towards their begin.
pub(super) struct Backward {
    bytes: Vec<u8>,
    /// The first byte that is written.
    at: usize,
}

impl Backward {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; CAPACITY_BYTES], at: CAPACITY_BYTES }
    }

    /// What was written: the vector, and where it begins in it.
    pub(super) fn finish(self) -> (Vec<u8>, usize) {
        (self.bytes, self.at)
    }

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

    #[cold]
    fn grow(&mut self, wanted: usize) {
        let more = self.bytes.len().max(wanted);
        let mut grown = vec![0; more];
        grown.extend_from_slice(&self.bytes);
        self.bytes = grown;
        self.at += more;
    }

    fn varint(&mut self, mut value: u64) {
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

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// A field that is left out where it has its default, as proto3 does.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.uint_always(field, value);
        }
    }

    /// A member of a oneof, which is there also with its default.
    pub(super) fn uint_always(&mut self, field: u32, value: u64) {
        self.varint(value);
        self.tag(field, VARINT);
    }

    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.put(&value.to_le_bytes());
            self.tag(field, FIXED32);
        }
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.fixed64_always(field, value);
        }
    }

    pub(super) fn fixed64_always(&mut self, field: u32, value: u64) {
        self.put(&value.to_le_bytes());
        self.tag(field, FIXED64);
    }

    /// Text or bytes.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.bytes_always(field, value);
        }
    }

    pub(super) fn bytes_always(&mut self, field: u32, value: &[u8]) {
        self.put(value);
        self.varint(value.len() as u64);
        self.tag(field, LENGTH);
    }

    /// A message, whose fields `write` puts from the highest number to the lowest.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let end = self.bytes.len() - self.at;
        write(self);
        self.varint((self.bytes.len() - self.at - end) as u64);
        self.tag(field, LENGTH);
    }
}
