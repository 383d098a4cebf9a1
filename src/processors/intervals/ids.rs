//! Pure: trace and span ids as keyed hashes, so that a retry does not fork a trace and an exemplar can name one
//! before it is built.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13Wide};

/// A trace id, never all zero.
pub(crate) type TraceId = [u8; 16];
/// A span id, never all zero.
pub(crate) type SpanId = [u8; 8];

/// Makes ids under one key.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    key: [u8; 16],
    boot_id: Vec<u8>,
}

impl Ids {
    /// Ids of this boot under a key of any length.
    pub(crate) fn new(key: &[u8], boot_id: &str) -> Self {
        let mut hasher = SipHasher13Wide::new();
        hasher.write(key);
        Self { key: hasher.finish128().as_bytes(), boot_id: boot_id.as_bytes().to_vec() }
    }

    /// The trace of an owner's window.
    pub(crate) fn trace(&self, owner: &str, window_start_ns: u64) -> TraceId {
        let mut hasher = SipHasher13Wide::new_with_key(&self.key);
        hasher.write(&self.boot_id);
        hasher.write(&[0]);
        hasher.write(owner.as_bytes());
        hasher.write(&[0]);
        hasher.write_u64(window_start_ns);
        let id = hasher.finish128().as_bytes();
        if id == [0; 16] { [1; 16] } else { id }
    }

    /// A span of a trace: a thread's interval of a kind that begins at a time; the root and the threads have
    /// kinds of their own.
    pub(crate) fn span(&self, trace: TraceId, tid: u32, kind: u8, start_ns: u64) -> SpanId {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&trace);
        hasher.write_u32(tid);
        hasher.write_u8(kind);
        hasher.write_u64(start_ns);
        hasher.finish().max(1).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Check that a million spans have a million ids, and that ids depend on the key.
    #[test]
    fn unique_and_keyed() {
        let ids = Ids::new(b"key", "boot");
        let trace = ids.trace("container", 10);
        assert_eq!(trace, Ids::new(b"key", "boot").trace("container", 10));
        assert_ne!(trace, Ids::new(b"other", "boot").trace("container", 10));
        let spans: HashSet<SpanId> =
            (0..1_000_000_u64).map(|n| ids.span(trace, (n % 100) as u32, (n % 4) as u8, n / 4)).collect();
        assert_eq!(spans.len(), 1_000_000);
        assert!(!spans.contains(&[0; 8]));
    }
}
