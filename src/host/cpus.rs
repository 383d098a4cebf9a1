//! Pure: lists of CPUs (`/sys/devices/system/cpu/online` and the like), which may have holes.

/// More than any kernel can be built for.
const MAX_CPU: u32 = 16_383;

/// The CPUs of a list such as `0-9,16-23`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList {
    /// First and last, both in it, ascending, apart from each other.
    ranges: Vec<(u32, u32)>,
}

impl CpuList {
    /// Reads a list; an empty one is valid. `None` where it is no list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            if first > last || last > MAX_CPU {
                return None;
            }
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        let apart = ranges.windows(2).all(|pair| matches!(pair, [(_, last), (first, _)] if last < first));
        apart.then_some(Self { ranges })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The highest number: per-CPU data is indexed up to here, not by the count.
    pub fn highest(&self) -> Option<u32> {
        self.ranges.last().map(|(_, last)| *last)
    }

    /// Every CPU, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_with_holes() {
        let list = CpuList::parse("0-2,7\n").unwrap();
        assert_eq!((list.count(), list.highest()), (4, Some(7)));
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 7]);
        assert_eq!(CpuList::parse("\n").unwrap().highest(), None);
        for wrong in ["a", "3-1", "0-4294967295", "1,1", "-1", "0-"] {
            assert_eq!(CpuList::parse(wrong), None, "{wrong}");
        }
    }
}
