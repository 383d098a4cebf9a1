//! Pure: pods as the kubelet names their cgroups, by both of its drivers.

use std::borrow::Cow;

use super::Qos;
use super::segment::is_hex;

/// Where the places of the dashes are in a UUID's text.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// `pod<uid>`, the cgroupfs driver's directory.
pub(super) fn of_directory(component: &str) -> Option<Cow<'_, str>> {
    uid(component.strip_prefix("pod")?)
}

/// `[parent-]kubepods[-burstable|-besteffort]-pod<uid>.slice`, the systemd driver's slice.
pub(super) fn of_slice(component: &str) -> Option<(Cow<'_, str>, Qos)> {
    let stem = component.strip_suffix(".slice")?;
    let at = stem.find("kubepods")?;
    let (before, rest) = (stem.get(..at)?, stem.get(at + "kubepods".len()..)?);
    if !before.is_empty() && !before.ends_with('-') {
        return None;
    }
    // A kubelet whose own cgroup root is called kubepods repeats the word.
    let rest = rest.strip_prefix("-kubepods").unwrap_or(rest);
    let (rest, qos) = if let Some(rest) = rest.strip_prefix("-burstable") {
        (rest, Qos::Burstable)
    } else if let Some(rest) = rest.strip_prefix("-besteffort") {
        (rest, Qos::BestEffort)
    } else {
        (rest, Qos::Guaranteed)
    };
    Some((uid(rest.strip_prefix("-pod")?)?, qos))
}

/// A pod uid in the API's spelling: a UUID (systemd's slices have `_` for `-`), or a static pod's hash of
/// 32 hex digits, which has no dashes in the cgroup.
pub(super) fn uid(text: &str) -> Option<Cow<'_, str>> {
    let bytes = text.as_bytes();
    match bytes.len() {
        32 if is_hex(bytes) => Some(Cow::Borrowed(text)),
        36 => {
            let separator = *bytes.get(8)?;
            let shaped = bytes.iter().enumerate().all(|(at, byte)| {
                if DASHES.contains(&at) { *byte == separator } else { matches!(byte, b'0'..=b'9' | b'a'..=b'f') }
            });
            match separator {
                b'-' if shaped => Some(Cow::Borrowed(text)),
                b'_' if shaped => Some(Cow::Owned(text.replace('_', "-"))),
                _ => None,
            }
        }
        _ => None,
    }
}
