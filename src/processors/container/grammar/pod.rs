//! Pure: pods as the kubelet names their cgroups, by both of its drivers.

use std::borrow::Cow;

use super::Qos;
use super::segment::is_hex;

/// `pod<uid>`, the cgroupfs driver's directory.
pub(super) fn of_directory(component: &str) -> Option<Cow<'_, str>> {
    uid(component.strip_prefix("pod")?)
}

/// `[parent-]kubepods[-burstable|-besteffort]-pod<uid>.slice`, the systemd driver's slice.
pub(super) fn of_slice(component: &str) -> Option<(Cow<'_, str>, Qos)> {
    let stem = component.strip_suffix(".slice")?;
    // not `find`: its set-up costs more than this whole walk
    let rest = match stem.strip_prefix("kubepods") {
        Some(rest) => rest,
        None => stem.match_indices('-').find_map(|(at, _)| stem.get(at..)?.strip_prefix("-kubepods"))?,
    };
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
    if bytes.len() == 32 {
        return is_hex(bytes).then_some(Cow::Borrowed(text));
    }
    let bytes: &[u8; 36] = bytes.try_into().ok()?;
    let separator = bytes[8];
    let shaped = bytes.iter().enumerate().fold(true, |shaped, (at, byte)| {
        shaped & if matches!(at, 8 | 13 | 18 | 23) { *byte == separator } else { is_hex(&[*byte]) }
    });
    match separator {
        b'-' if shaped => Some(Cow::Borrowed(text)),
        b'_' if shaped => Some(Cow::Owned(with_dashes(text))),
        _ => None,
    }
}

/// The API's spelling of a uid out of a slice's name; the length has been checked.
fn with_dashes(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for group in [0..8, 9..13, 14..18, 19..23, 24..36] {
        if group.start > 0 {
            spelled.push('-');
        }
        spelled.push_str(text.get(group).unwrap_or_default());
    }
    spelled
}
