//! Pure: systemd's names: which path component is a unit, and how escapes are undone.

use std::borrow::Cow;

/// systemd's limit of a unit name, bytes.
const UNIT_NAME_MAX_BYTES: usize = 255;

/// Whether a component is a slice: those are passed over in the search for the unit.
pub(super) fn is_slice(component: &str) -> bool {
    component.len() > ".slice".len() && component.ends_with(".slice")
}

/// Whether a component is the name of a unit that is no slice.
pub(super) fn is_unit(component: &str) -> bool {
    let Some(dot) = component.rfind('.') else { return false };
    let (stem, suffix) = component.split_at(dot);
    !stem.is_empty()
        && component.len() <= UNIT_NAME_MAX_BYTES
        && is_unit_type(suffix)
        && !stem.starts_with('@')
        && has_unit_bytes(component)
}

/// Unit types that can be spelled as a path component; slices are asked apart.
fn is_unit_type(suffix: &str) -> bool {
    matches!(
        suffix,
        ".service"
            | ".scope"
            | ".mount"
            | ".swap"
            | ".socket"
            | ".target"
            | ".timer"
            | ".path"
            | ".automount"
            | ".device"
    )
}

/// The characters that systemd allows in unit names.
const UNIT_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u8;
        table[byte] = value.is_ascii_alphanumeric() || matches!(value, b':' | b'-' | b'_' | b'.' | b'\\' | b'@');
        byte += 1;
    }
    table
};

fn has_unit_bytes(component: &str) -> bool {
    component.bytes().fold(true, |valid, byte| valid & UNIT_BYTES[usize::from(byte)])
}

/// Undoes `\x2d` and the like; what is no valid escape stays as it is. Not UTF-8 afterwards: replaced.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match escape_at(bytes, at) {
            Some(value) => {
                plain.push(value);
                at += 4;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

/// The byte that `\xHH` at this place stands for.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', b'x', high, low] = bytes.get(at..at + 4)? else { return None };
    let value = char::from(*high).to_digit(16)? * 16 + char::from(*low).to_digit(16)?;
    u8::try_from(value).ok().filter(|value| *value != 0)
}
