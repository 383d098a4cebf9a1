//! Pure: reading a line of bytes from the left.

/// What is left of the text. A step that does not fit gives `None` and may have moved on: callers give up then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Steps over exactly this.
    pub(super) fn tag(&mut self, tag: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(tag)?;
        Some(())
    }

    /// Steps over blanks.
    pub(super) fn blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// Takes what is left up to a blank or the end.
    pub(super) fn word(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end).unwrap_or((self.0, &[]));
        self.0 = rest;
        word
    }

    /// Takes an unsigned decimal number.
    pub(super) fn u64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.0 {
            value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            digits += 1;
            self.0 = rest;
        }
        (digits > 0).then_some(value)
    }

    /// The same, of 32 bits.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.u64()?.try_into().ok()
    }

    /// Takes a signed decimal number.
    pub(super) fn i32(&mut self) -> Option<i32> {
        let negative = self.tag(b"-").is_some();
        let value = i64::try_from(self.u64()?).ok()?;
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// Takes a name that ends where `mark` and what `after` reads begin. Kernel names are at most 15 bytes
    /// and may look like fields, so the longest that fits there wins; else the first beyond, for tools
    /// that print longer ones.
    pub(super) fn name<T>(&mut self, mark: &[u8], after: impl Fn(&mut Self) -> Option<T>) -> Option<(&'a [u8], T)> {
        const LONGEST: usize = 15;
        const BEYOND: usize = 255;
        let first = *mark.first()?;
        let fits = |at: usize| {
            let (name, rest) = self.0.split_at_checked(at)?;
            if rest.first() != Some(&first) {
                return None;
            }
            let mut cursor = Cursor(rest.strip_prefix(mark)?);
            let found = after(&mut cursor)?;
            Some((name, found, cursor))
        };
        let near = (0..=LONGEST.min(self.0.len())).rev().find_map(fits);
        let (name, found, cursor) = match near {
            Some(found) => found,
            None => (LONGEST + 1..=BEYOND.min(self.0.len())).find_map(fits)?,
        };
        *self = cursor;
        Some((name, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_wins_and_numbers_are_bounded() {
        let mut cursor = Cursor(b"pid=1 pid=2 pid=20445 prio=120");
        let (name, pid) = cursor
            .name(b" pid=", |rest| {
                let pid = rest.u32()?;
                rest.tag(b" prio=")?;
                Some(pid)
            })
            .unwrap();
        assert_eq!((name, pid, cursor.0), (&b"pid=1 pid=2"[..], 20445, &b"120"[..]));
        assert_eq!(Cursor(b"99999999999999999999").u64(), None);
        assert_eq!(Cursor(b"-1").i32(), Some(-1));
        assert_eq!(Cursor(b"x").u64(), None);
    }
}
