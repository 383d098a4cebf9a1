//! Pure: a record as it stands in its file: mark, length, checksum, content.

use crate::pipeline::StorageError;

/// Begins every record; the last byte is the version of the form.
const MARK: [u8; 4] = *b"SSR\x01";
/// Mark, length and checksum.
const HEADER: usize = 12;

/// The bytes of the file that holds `content`.
pub fn frame(content: &[u8]) -> Result<Vec<u8>, StorageError> {
    let length = u32::try_from(content.len()).map_err(|_| StorageError::Failed("a record is over 4 GiB".to_owned()))?;
    let mut bytes = Vec::with_capacity(HEADER + content.len());
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(content).to_le_bytes());
    bytes.extend_from_slice(content);
    Ok(bytes)
}

/// The content of such a file, or what is wrong with it.
pub fn unframe(mut bytes: Vec<u8>) -> Result<Vec<u8>, StorageError> {
    let damaged = |what: &str| Err(StorageError::Damaged(what.to_owned()));
    let Some((header, content)) = bytes.split_at_checked(HEADER) else { return damaged("its header is cut") };
    let (mark, numbers) = header.split_at(MARK.len());
    if mark != MARK {
        return damaged("it does not begin as a record does");
    }
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let sums = [length.to_le_bytes(), crc32fast::hash(content).to_le_bytes()].concat();
    if numbers.get(..4) != sums.get(..4) {
        return damaged("it is cut, or longer than it was");
    }
    if numbers != sums {
        return damaged("its checksum is wrong");
    }
    bytes.drain(..HEADER);
    Ok(bytes)
}
