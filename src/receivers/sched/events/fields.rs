//! Pure: where the fields of a tracepoint's events lie, by its `format` file: a kernel with PREEMPT_RT, and newer ones,
//! lay them out otherwise.

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    offset: usize,
    bytes: usize,
    /// There are two numbers of 16 bits there: the offset of the bytes, and how many.
    is_elsewhere: bool,
}

impl Place {
    /// Finds a field in a `format` file.
    pub(super) fn find(format: &str, field: &str) -> Option<Self> {
        format.lines().find_map(|line| {
            let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
            let name = declared.split_whitespace().next_back()?;
            let name = name.split_once('[').map_or(name, |(name, _)| name);
            if name != field {
                return None;
            }
            let number = |key: &str| {
                let (_, behind) = rest.split_once(key)?;
                behind.split(';').next()?.trim().parse::<usize>().ok()
            };
            let (offset, bytes) = (number("offset:")?, number("size:")?);
            Some(Self { offset, bytes, is_elsewhere: declared.starts_with("__data_loc") })
        })
    }

    /// Whether the field itself lies in so many bytes.
    pub(super) fn is_within(self, bytes: usize) -> bool {
        self.offset.checked_add(self.bytes).is_some_and(|end| end <= bytes)
    }

    /// Its bytes in an event.
    pub(super) fn of(self, event: &[u8]) -> Option<&[u8]> {
        let own = event.get(self.offset..self.offset + self.bytes)?;
        if !self.is_elsewhere {
            return Some(own);
        }
        let word = u32::from_ne_bytes(own.try_into().ok()?);
        let (at, bytes) = ((word & 0xffff) as usize, (word >> 16) as usize);
        event.get(at..at + bytes)
    }

    /// Its number, as large as it was.
    pub(super) fn number(self, event: &[u8]) -> Option<u64> {
        let own = self.of(event)?;
        match own.len() {
            4 => own.try_into().ok().map(u32::from_ne_bytes).map(u64::from),
            8 => own.try_into().ok().map(u64::from_ne_bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char parent_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] child_comm;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t child_pid;\toffset:28;\tsize:4;\tsigned:1;\n\nprint fmt: \"field:child\"\n";

    #[test]
    fn fields_lie_where_the_format_says() {
        let mut event = [0_u8; 40];
        event[8..12].copy_from_slice(b"make");
        event[24..28].copy_from_slice(&(32_u32 | 3 << 16).to_ne_bytes());
        event[28..32].copy_from_slice(&77_u32.to_ne_bytes());
        event[32..35].copy_from_slice(b"cc\0");
        let of = |field| Place::find(FORK, field).unwrap();
        assert_eq!(of("child_comm").of(&event), Some(&b"cc\0"[..]));
        assert_eq!(of("parent_comm").of(&event).unwrap()[..4], *b"make");
        assert_eq!(of("child_pid").number(&event), Some(77));
        assert_eq!(Place::find(FORK, "pid"), None);
        assert!(of("child_pid").is_within(32) && !of("child_pid").is_within(31));
    }

    #[test]
    fn what_lies_beyond_the_event_is_not_read() {
        let place = Place { offset: 4, bytes: 4, is_elsewhere: true };
        let mut event = [0xff_u8; 16];
        assert_eq!(place.of(&event), None);
        event[4..8].copy_from_slice(&(10_u32 | 7 << 16).to_ne_bytes());
        assert_eq!(place.of(&event), None);
        assert_eq!(place.of(&event[..6]), None);
    }
}
