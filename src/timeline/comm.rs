//! Pure: a thread's name as the kernel holds it.

use std::fmt;
use std::sync::Arc;

/// The kernel's `comm` without its NUL: at most 15 bytes, any bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Comm {
    len: u8,
    bytes: [u8; Self::MAX_BYTES],
}

impl Comm {
    /// `TASK_COMM_LEN` less the NUL.
    pub const MAX_BYTES: usize = 15;

    /// Takes the first 15 bytes, up to a NUL.
    pub fn new(name: &[u8]) -> Self {
        let mut comm = Self::default();
        for (slot, byte) in comm.bytes.iter_mut().zip(name.iter().take_while(|byte| **byte != 0)) {
            *slot = *byte;
            comm.len += 1;
        }
        comm
    }

    /// The bytes as the kernel holds them.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// As text: what is not UTF-8 (half a character at the end, say) becomes U+FFFD.
    pub fn text(&self) -> Arc<str> {
        String::from_utf8_lossy(self.as_bytes()).into()
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl From<&str> for Comm {
    fn from(name: &str) -> Self {
        Self::new(name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_any_bytes_and_cuts_at_fifteen() {
        assert_eq!(Comm::new(b"0123456789abcdefgh").as_bytes(), b"0123456789abcde");
        assert_eq!(Comm::new(b"\xff ==> \n").as_bytes(), b"\xff ==> \n");
        assert_eq!(Comm::new(b"a\0b").as_bytes(), b"a");
        assert_eq!(&*Comm::new(b"caf\xc3").text(), "caf\u{fffd}");
    }
}
