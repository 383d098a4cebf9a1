//! What a process publishes of itself in its own memory (OTEP 4719, version 2): found in `/proc/PID/maps`,
//! read by its seqlock. Absent, torn or malformed: nothing, silently; the environment is asked then.

mod message;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use self::message::decode;
use crate::model::Resource;

/// Names that the mapping can have, by what the kernel let the process do.
const MAPPING_NAMES: [&str; 3] = ["[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"];
/// Lines of `maps` that are read: there are processes with millions.
const MAPS_MAX_LINES: usize = 20_000;
/// Bytes of `maps` that are read.
const MAPS_MAX_BYTES: u64 = 4 << 20;
/// Bytes of the header.
const HEADER_BYTES: usize = 32;
/// Bytes of a payload.
const PAYLOAD_MAX_BYTES: u32 = 65_536;
/// Reads of a context that is being changed meanwhile.
const ATTEMPTS: usize = 3;
/// The version that is understood.
const VERSION: u32 = 2;

/// The header at the start of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    payload_bytes: u32,
    /// 0 while it is being changed.
    published_at: u64,
    payload_address: u64,
}

/// What a process publishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The attributes of its Resource.
    pub resource: Resource,
    /// `threadlocal.schema_version` (OTEP 4947): its threads publish records of their active span, in this layout.
    pub thread_schema: Option<String>,
}

/// What the process of this folder of `/proc` publishes; `None` where it publishes nothing.
pub fn read(folder: &Path) -> Option<Published> {
    let address = maps(folder).ok()?.find_map(|line| mapping(&line.ok()?))?;
    let memory = File::open(folder.join("mem")).ok()?;
    decode(&read_payload(|at, bytes| memory.read_exact_at(bytes, at).ok(), address)?)
}

/// The lines of a process' `maps`, bounded.
///
/// # Errors
/// What opening the file says.
pub fn maps(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let file = File::open(folder.join("maps"))?.take(MAPS_MAX_BYTES);
    Ok(BufReader::new(file).lines().take(MAPS_MAX_LINES))
}

/// The start of the mapping, if the line is about it.
fn mapping(line: &str) -> Option<u64> {
    if !MAPPING_NAMES.iter().any(|name| line.contains(name)) {
        return None;
    }
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions) = (fields.next()?, fields.next()?);
    let name = fields.nth(3)?;
    let named = MAPPING_NAMES.iter().any(|known| name.starts_with(known));
    // an executable mapping is something else under that name
    if !named || permissions.contains('x') {
        return None;
    }
    u64::from_str_radix(range.split('-').next()?, 16).ok()
}

/// A payload that did not change while it was read. Every read is a system call, which is fence enough.
fn read_payload(read: impl Fn(u64, &mut [u8]) -> Option<()>, address: u64) -> Option<Vec<u8>> {
    for _ in 0..ATTEMPTS {
        let mut header = [0; HEADER_BYTES];
        read(address, &mut header)?;
        let before = parse_header(&header)?;
        if before.published_at == 0 {
            continue;
        }
        let mut payload = vec![0; before.payload_bytes as usize];
        let read_whole = read(before.payload_address, &mut payload);
        read(address, &mut header)?;
        // a payload that could not be read may have moved meanwhile
        if parse_header(&header) == Some(before) {
            return read_whole.map(|()| payload);
        }
    }
    None
}

fn parse_header(header: &[u8; HEADER_BYTES]) -> Option<Header> {
    let number = |at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    if !header.starts_with(b"OTEL_CTX") || word(8)? != VERSION {
        return None;
    }
    let payload_bytes = word(12)?;
    if !(1..=PAYLOAD_MAX_BYTES).contains(&payload_bytes) {
        return None;
    }
    Some(Header { payload_bytes, published_at: number(16)?, payload_address: number(24)? })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn header(published_at: u64, payload_bytes: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(b"OTEL_CTX");
        bytes[8..12].copy_from_slice(&2u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&payload_bytes.to_ne_bytes());
        bytes[16..24].copy_from_slice(&published_at.to_ne_bytes());
        bytes[24..].copy_from_slice(&0x1000u64.to_ne_bytes());
        bytes
    }

    /// Reads as a memory would give them: headers one after the other, the payload always.
    fn payload_with(headers: Vec<[u8; HEADER_BYTES]>) -> Option<Vec<u8>> {
        let headers = RefCell::new(headers.into_iter());
        let read = |at: u64, bytes: &mut [u8]| {
            match at {
                0x1000 => bytes.fill(7),
                _ => bytes.copy_from_slice(&headers.borrow_mut().next()?),
            }
            Some(())
        };
        read_payload(read, 0x10)
    }

    #[test]
    fn a_payload_counts_only_if_nothing_changed_meanwhile() {
        assert_eq!(payload_with(vec![header(5, 3), header(5, 3)]), Some(vec![7; 3]));
        assert_eq!(payload_with(vec![header(5, 3), header(6, 4), header(6, 4), header(6, 4)]), Some(vec![7; 4]));
        assert_eq!(payload_with(vec![header(0, 3), header(5, 3), header(5, 3)]), Some(vec![7; 3]));
        assert_eq!(payload_with(vec![header(0, 3); 3]), None);
        let torn: Vec<_> = (1..=6).map(|at| header(at, 3)).collect();
        assert_eq!(payload_with(torn), None);
        assert_eq!(payload_with(vec![header(5, PAYLOAD_MAX_BYTES + 1)]), None);
        assert_eq!(payload_with(vec![header(5, 0)]), None);
    }

    #[test]
    fn only_the_named_mapping_is_meant() {
        let check = |line: &str, expected| assert_eq!(mapping(line), expected, "{line}");
        check("7f00-7f10 rw-s 00000000 00:01 5 /memfd:OTEL_CTX (deleted)", Some(0x7f00));
        check("7f00-7f10 r--p 00000000 00:00 0 [anon:OTEL_CTX]", Some(0x7f00));
        check("7f00-7f10 rw-s 00000000 00:01 0 [anon_shmem:OTEL_CTX]", Some(0x7f00));
        check("7f00-7f10 r-xp 00000000 00:00 0 [anon:OTEL_CTX]", None);
        check("7f00-7f10 r--p 00000000 08:01 9 /tmp/[anon:OTEL_CTX]", None);
        check("7f00-7f10 r--p 00000000 00:00 0 [heap]", None);
    }

    #[test]
    fn a_process_without_one_publishes_nothing() {
        assert_eq!(read(Path::new("/proc/self")), None);
        assert_eq!(read(Path::new("/nonexistent")), None);
    }
}
