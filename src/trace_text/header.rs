//! Pure: the columns before an event: task, thread group, CPU, flags, time.

use super::cursor::Cursor;
use crate::model::BootNs;
use crate::timeline::Current;

/// The columns, and what follows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a> {
    pub(super) cpu: u32,
    pub(super) at: BootNs,
    /// Whose the CPU was.
    pub(super) current: Option<Current>,
    /// From the event's name on.
    pub(super) rest: &'a [u8],
}

/// Why a line has no header that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// Nothing looks like `[CPU] ... TIME:`.
    NotThere,
    /// The time is a plain number: ticks of a clock without a unit.
    Ticks,
}

/// The task column is 16 wide in all formats, so a name in it cannot be taken for the columns behind it.
const NAME_WIDTH: usize = 16;

impl<'a> Header<'a> {
    /// Finds the columns in a line.
    pub(super) fn find(line: &'a [u8]) -> Result<Self, NoHeader> {
        let after_name = line.get(NAME_WIDTH + 1..);
        let padded = match line.get(NAME_WIDTH) {
            Some(b'-') => after_name.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)),
            Some(b' ') => after_name.is_some_and(|rest| {
                let mut cursor = Cursor(rest);
                cursor.blanks();
                cursor.u64().is_some() && matches!(cursor.0.first(), Some(b' ' | b'/'))
            }),
            _ => false,
        };
        if padded && let Ok(header) = Self::find_from(line, NAME_WIDTH) {
            return Ok(header);
        }
        Self::find_from(line, 0)
    }

    fn find_from(line: &'a [u8], from: usize) -> Result<Self, NoHeader> {
        let mut why = NoHeader::NotThere;
        for bracket in memchr::memchr_iter(b'[', line.get(from..).unwrap_or_default()) {
            let Some((task, columns)) = line.split_at_checked(from + bracket) else { break };
            match Self::columns(task, Cursor(columns)) {
                Ok(header) => return Ok(header),
                Err(NoHeader::Ticks) => why = NoHeader::Ticks,
                Err(NoHeader::NotThere) => {}
            }
        }
        Err(why)
    }

    /// Reads from the bracket of the CPU on.
    fn columns(task: &'a [u8], mut cursor: Cursor<'a>) -> Result<Self, NoHeader> {
        let mut cpu = || {
            cursor.tag(b"[")?;
            let cpu = cursor.u32()?;
            cursor.tag(b"] ")?;
            Some(cpu)
        };
        let cpu = cpu().ok_or(NoHeader::NotThere)?;
        cursor.blanks();
        let first = cursor.word();
        let (flags, time) = if first.ends_with(b":") {
            (None, first)
        } else {
            cursor.blanks();
            (Some(first), cursor.word())
        };
        let at = time_ns(time)?;
        cursor.blanks();
        Ok(Self { cpu, at, current: current(task, flags), rest: cursor.0 })
    }
}

/// `3193.674712:` in ns. Digits only: no float, no locale (a comma is read as a point).
fn time_ns(word: &[u8]) -> Result<BootNs, NoHeader> {
    let mut cursor = Cursor(word);
    let seconds = cursor.u64().ok_or(NoHeader::NotThere)?;
    if cursor.0 == b":" {
        return Err(NoHeader::Ticks);
    }
    let mut fraction = || {
        cursor.tag(b".").or_else(|| cursor.tag(b","))?;
        let before = cursor.0.len();
        let fraction = cursor.u64()?;
        let digits = before - cursor.0.len();
        let scale = 10u64.pow(9u32.checked_sub(u32::try_from(digits).ok()?)?);
        (cursor.0 == b":").then_some(fraction * scale)
    };
    let nanoseconds = fraction().ok_or(NoHeader::NotThere)?;
    seconds
        .checked_mul(1_000_000_000)
        .and_then(|whole| whole.checked_add(nanoseconds))
        .map(BootNs)
        .ok_or(NoHeader::NotThere)
}

/// Who the task column says is on the CPU: `NAME-TID (TGID)`, `NAME TID` or `NAME PID/TID`.
fn current(task: &[u8], flags: Option<&[u8]>) -> Option<Current> {
    let mut task = task.trim_ascii_end();
    let mut pid = None;
    if let Some(inner) = task.strip_suffix(b")") {
        let open = memchr::memrchr(b'(', inner)?;
        let (before, group) = inner.split_at_checked(open)?;
        // dashes: not known
        pid = Cursor(group.get(1..)?.trim_ascii()).u32();
        task = before.trim_ascii_end();
    }
    let (before, tid) = number_at_end(task)?;
    if let Some(process) = before.strip_suffix(b"/")
        && let Some((_, group)) = number_at_end(process)
    {
        pid = Some(group);
    }
    let interrupt = flags.and_then(|flags| flags.get(2)).is_some_and(|flag| b"hHszZ".contains(flag));
    Some(Current { tid, pid: pid.filter(|_| tid != 0), interrupt })
}

/// Splits the digits at the end off; they must follow `-`, `/` or a blank.
fn number_at_end(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = text.split_at_checked(text.len() - digits)?;
    let number = Cursor(number).u32()?;
    // perf's -1 stands for a thread that is gone
    let negative = matches!(before, [b'-'] | [.., b' ' | b'/', b'-']);
    (!negative && matches!(before.last(), None | Some(b'-' | b'/' | b' '))).then_some((before, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tid, pid, in an interrupt.
    type Current = (u32, Option<u32>, bool);

    fn of(line: &str) -> (u32, u64, Option<Current>, String) {
        let header = Header::find(line.as_bytes()).unwrap();
        let current = header.current.map(|current| (current.tid, current.pid, current.interrupt));
        (header.cpu, header.at.0, current, String::from_utf8_lossy(header.rest).into_owned())
    }

    #[test]
    fn reads_every_layout() {
        let kernel = of("    irq/41-net-214     (    210) [000] dNh3. 4402118.730519: x: y");
        assert_eq!(kernel, (0, 4_402_118_730_519_000, Some((214, Some(210), true)), "x: y".into()));
        let bare = of("           <...>-4711  [012]   812.000009: x:");
        assert_eq!(bare, (12, 812_000_009_000, Some((4711, None, false)), "x:".into()));
        let perf = of("Media Index Srv 26102/26107 [001] 731904.118253123: sched:x: y");
        assert_eq!(perf, (1, 731_904_118_253_123, Some((26107, Some(26102), false)), "sched:x: y".into()));
        let gone = of("             :-1    -1 [000]  1.000000: sched:x: y");
        assert_eq!(gone, (0, 1_000_000_000, None, "sched:x: y".into()));
        let gone = of("             :-1    -1/21756 [000]  1.000000: sched:x: y");
        assert_eq!(gone.2, Some((21756, None, false)));
    }

    #[test]
    fn a_name_cannot_pose_as_the_columns() {
        let hostile = of(" x [7] 1.5: y: z-22     [001] d..2.  2.500000: real: z");
        assert_eq!((hostile.0, hostile.1), (1, 2_500_000_000));
    }

    #[test]
    fn times_without_a_unit_are_told() {
        let ticks = Header::find(b"            bash-1     [000] d..2. 123456789012: x: y").unwrap_err();
        assert_eq!(ticks, NoHeader::Ticks);
        assert_eq!(Header::find(b"[000] 99999999999999.5: x:").unwrap_err(), NoHeader::NotThere);
        assert_eq!(Header::find(b"").unwrap_err(), NoHeader::NotThere);
    }
}
