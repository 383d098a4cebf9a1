//! The map in which other eBPF instrumentation tells the active spans of the threads that it follows: found by its
//! pin, given to the switch program, read for whom it tells of.

use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::Driver;

/// Keys that are looked at in one reading; the map has 16,384 where it comes from.
const KEYS_MAX: usize = 65_536;
/// `(process << 32 | thread)`, and the two ids.
const KEY_BYTES: u32 = 8;
const VALUE_BYTES: u32 = 24;

/// The pinned map.
#[derive(Debug)]
pub(in crate::receivers::sched) struct SharedContexts {
    map: MapHandle,
    /// The kernel's id of it: another one is another map under the same name.
    pub(in crate::receivers::sched) id: u32,
}

impl SharedContexts {
    /// Opens the pin; `None` where there is none.
    ///
    /// # Errors
    /// Where it is something else than is expected under that name.
    pub(in crate::receivers::sched) fn open(pin: &Path) -> Result<Option<Self>, String> {
        let map = match MapHandle::from_pinned_path(pin) {
            Ok(map) => map,
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (kind, key, value) = (map.map_type(), map.key_size(), map.value_size());
        if kind != MapType::LruHash || key != KEY_BYTES || value != VALUE_BYTES {
            return Err(format!(
                "it is a map of another layout ({kind:?}, {key} bytes to {value}); an LRU hash of {KEY_BYTES} bytes to \
                 {VALUE_BYTES} is expected"
            ));
        }
        let id = map.info().map_err(|error| error.to_string())?.info.id;
        Ok(Some(Self { map, id }))
    }

    /// The processes of which it tells something now.
    pub(in crate::receivers::sched) fn processes(&self) -> HashSet<u32> {
        let keys = self.map.keys().take(KEYS_MAX).filter_map(|key| key.try_into().ok().map(u64::from_ne_bytes));
        keys.filter_map(|key| u32::try_from(key >> 32).ok()).collect()
    }
}

impl Driver<'_> {
    /// Lets the switch program look there.
    ///
    /// # Errors
    /// What the kernel says: its flags may be others than ours.
    pub(in crate::receivers::sched) fn use_shared_contexts(&self, shared: &SharedContexts) -> Result<(), String> {
        let fd = shared.map.as_fd().as_raw_fd().to_ne_bytes();
        let taken = self.skel.maps.shared_contexts.update(&0_u32.to_ne_bytes(), &fd, MapFlags::ANY);
        taken.map_err(|error| error.to_string())
    }

    /// The pin is gone.
    pub(in crate::receivers::sched) fn leave_shared_contexts(&self) {
        // it may not be there
        let _ = self.skel.maps.shared_contexts.delete(&0_u32.to_ne_bytes());
    }
}
