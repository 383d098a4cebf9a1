//! Pure: in which state a thread left the CPU, from every form in which kernels tell it.
//!
//! The numbers are those of `include/linux/sched.h` and `include/trace/events/sched.h`. Kernels before
//! 4.14 put the task's flags into the record as they are; later ones put one reported bit.

use crate::model::BlockState;

/// A task's state as one letter of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// R: still runnable.
    Runnable,
    /// S.
    Interruptible,
    /// D; also waiting for an RT lock, and frozen.
    Uninterruptible,
    /// T.
    Stopped,
    /// t.
    Traced,
    /// X.
    Dead,
    /// Z.
    Zombie,
    /// P.
    Parked,
    /// I: a kernel thread's sleep that is no load.
    Idle,
    /// A letter or bit that is none of these.
    Unknown,
}

impl TaskState {
    /// The letter; `?` where it is not known.
    pub fn letter(self) -> char {
        match self {
            Self::Runnable => 'R',
            Self::Interruptible => 'S',
            Self::Uninterruptible => 'D',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Dead => 'X',
            Self::Zombie => 'Z',
            Self::Parked => 'P',
            Self::Idle => 'I',
            Self::Unknown => '?',
        }
    }

    /// From a letter; `x` is TASK_DEAD of kernels before 4.14.
    pub fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Runnable,
            b'S' => Self::Interruptible,
            b'D' => Self::Uninterruptible,
            b'T' => Self::Stopped,
            b't' => Self::Traced,
            b'X' | b'x' => Self::Dead,
            b'Z' => Self::Zombie,
            b'P' => Self::Parked,
            b'I' => Self::Idle,
            _ => Self::Unknown,
        }
    }

    /// How a thread in this state is blocked.
    pub fn block_state(self) -> BlockState {
        match self {
            Self::Interruptible => BlockState::Interruptible,
            Self::Uninterruptible => BlockState::Uninterruptible,
            Self::Stopped | Self::Traced => BlockState::Stopped,
            Self::Parked | Self::Idle => BlockState::Other,
            Self::Runnable | Self::Dead | Self::Zombie | Self::Unknown => BlockState::Unknown,
        }
    }

    /// No switch-in follows.
    pub fn ends_life(self) -> bool {
        matches!(self, Self::Dead | Self::Zombie)
    }

    /// From reported bits (4.14 on): the highest decides, as in the kernel (`fls`).
    fn from_reported(bits: u64) -> Self {
        match bits & 0xff {
            0 => Self::Runnable,
            bits => match 1u64 << (63 - bits.leading_zeros()) {
                0x01 => Self::Interruptible,
                0x02 => Self::Uninterruptible,
                0x04 => Self::Stopped,
                0x08 => Self::Traced,
                0x10 => Self::Dead,
                0x20 => Self::Zombie,
                0x40 => Self::Parked,
                _ => Self::Idle,
            },
        }
    }

    /// From the flags of a kernel before 4.14: the first (lowest) that is a state decides.
    fn from_old_flags(flags: u64) -> Self {
        const STATES: [(u64, TaskState); 8] = [
            (0x01, TaskState::Interruptible),
            (0x02, TaskState::Uninterruptible),
            (0x04, TaskState::Stopped),
            (0x08, TaskState::Traced),
            (0x10, TaskState::Dead),
            (0x20, TaskState::Zombie),
            (0x40, TaskState::Dead),
            (0x200, TaskState::Parked),
        ];
        STATES.iter().find(|(bit, _)| flags & bit != 0).map_or(Self::Runnable, |(_, state)| *state)
    }
}

/// Which numbers a kernel puts into the `prev_state` field of the classic tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Before 4.8: flags, preempted = 0x800.
    Before4_8,
    /// 4.8 to 4.13: flags, preempted = 0x1000.
    Before4_14,
    /// 4.14 on: one reported bit, preempted = 0x100.
    Reported,
}

impl Era {
    /// By the kernel's version, for records whose format file is not at hand.
    pub fn of_release(major: u32, minor: u32) -> Self {
        match (major, minor) {
            (0..=3, _) | (4, 0..=7) => Self::Before4_8,
            (4, 8..=13) => Self::Before4_14,
            _ => Self::Reported,
        }
    }

    /// The bit that says "preempted" (`TASK_STATE_MAX`, later `TASK_REPORT_MAX`).
    fn preempted(self) -> u64 {
        match self {
            Self::Before4_8 => 0x800,
            Self::Before4_14 => 0x1000,
            Self::Reported => 0x100,
        }
    }
}

/// How a thread left the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SwitchOut {
    /// The state, `Runnable` where it was preempted.
    pub state: TaskState,
    /// The preempt flag was set. Its absence says nothing: current kernels preempt on the way to user
    /// space without it.
    pub preempted: bool,
}

impl SwitchOut {
    /// From the `prev_state` field of a sched_switch record.
    pub fn from_tracepoint(prev_state: u64, era: Era) -> Self {
        if prev_state & era.preempted() != 0 {
            return Self { state: TaskState::Runnable, preempted: true };
        }
        let state = match era {
            Era::Reported => TaskState::from_reported(prev_state),
            Era::Before4_8 | Era::Before4_14 => TaskState::from_old_flags(prev_state & (era.preempted() - 1)),
        };
        Self { state, preempted: false }
    }

    /// From the task's own state: the raw argument of tp_btf and raw_tp (5.18 on), or `task->__state`.
    /// 0x100 is TASK_WAKEKILL here, never "preempted": that is the tracepoint's own argument.
    pub fn from_task(state: u64, exit_state: u64, preempt: bool, era: Era) -> Self {
        /// `TASK_UNINTERRUPTIBLE | TASK_NOLOAD`
        const TASK_IDLE: u64 = 0x402;
        const TASK_DEAD: u64 = 0x80;
        const RTLOCK_WAIT_OR_FROZEN: u64 = 0x1000 | 0x8000;
        if preempt {
            return Self { state: TaskState::Runnable, preempted: true };
        }
        let state = match era {
            Era::Before4_8 | Era::Before4_14 => TaskState::from_old_flags(state | exit_state),
            Era::Reported if state & RTLOCK_WAIT_OR_FROZEN != 0 => TaskState::Uninterruptible,
            Era::Reported if state & TASK_IDLE == TASK_IDLE => TaskState::Idle,
            Era::Reported => match TaskState::from_reported((state | exit_state) & 0x7f) {
                TaskState::Runnable if state & TASK_DEAD != 0 => TaskState::Dead,
                known => known,
            },
        };
        Self { state, preempted: false }
    }

    /// From text: `S`, `R+`, `D|K`, or a number (decimal or 0x) where the tool had no names for it.
    pub fn from_text(text: &[u8]) -> Self {
        if let Some(number) = number(text) {
            // the later kernels' records never hold 0x800 or 0x1000, so these tell the earlier ones
            let era = match number {
                _ if number & 0x1000 != 0 => Era::Before4_14,
                _ if number & 0x800 != 0 => Era::Before4_8,
                _ => Era::Reported,
            };
            return Self::from_tracepoint(number, era);
        }
        if let Some(rest) = text.strip_suffix(b"+")
            && rest.split(|byte| *byte == b'|').any(|flag| flag == b"R" || flag.is_empty())
        {
            return Self { state: TaskState::Runnable, preempted: true };
        }
        let preempted = text.ends_with(b"+");
        let letters = text.strip_suffix(b"+").unwrap_or(text).split(|byte| *byte == b'|');
        let states = letters.filter(|flag| flag.len() == 1).filter_map(|flag| flag.first());
        let known = states.map(|letter| TaskState::from_letter(*letter)).find(|state| *state != TaskState::Unknown);
        match known {
            _ if preempted => Self { state: TaskState::Runnable, preempted },
            Some(state) => Self { state, preempted },
            None => Self { state: TaskState::Unknown, preempted },
        }
    }

    /// Still on the run queue.
    pub fn runnable(self) -> bool {
        self.preempted || self.state == TaskState::Runnable
    }

    /// Whether the kernel counts the switch as involuntary, as far as the state tells: since 6.14 a sleep
    /// that a pending signal cancelled counts as voluntary and yet shows R.
    pub fn involuntary(self) -> bool {
        self.runnable()
    }
}

/// A decimal or `0x` number.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(out: SwitchOut) -> (char, bool, bool) {
        (out.state.letter(), out.runnable(), out.preempted)
    }

    #[test]
    fn wakekill_is_not_preempted() {
        assert_eq!(seen(SwitchOut::from_task(0x102, 0, false, Era::Reported)), ('D', false, false));
        assert_eq!(seen(SwitchOut::from_tracepoint(0x100, Era::Reported)), ('R', true, true));
    }

    #[test]
    fn reads_the_high_bits_of_the_task_state() {
        let task = |state| seen(SwitchOut::from_task(state, 0, false, Era::Reported));
        assert_eq!(task(0x2001), ('S', false, false), "FREEZABLE");
        assert_eq!(task(0x1000), ('D', false, false), "RT lock");
        assert_eq!(task(0x8000), ('D', false, false), "frozen");
        assert_eq!(task(0x402), ('I', false, false), "idle kernel thread");
        assert_eq!(task(0x80), ('X', false, false), "dead, exit_state not read");
        assert_eq!(task(0x200), ('R', true, false), "waking");
    }

    #[test]
    fn reads_text_of_every_kernel() {
        let text = |text: &str| seen(SwitchOut::from_text(text.as_bytes()));
        assert_eq!(text("R+"), ('R', true, true));
        assert_eq!(text("D|K"), ('D', false, false));
        assert_eq!(text("S|W+"), ('R', true, true));
        assert_eq!(text("x"), ('X', false, false));
        assert_eq!(text("t"), ('t', false, false));
        assert_eq!(text("0x100"), ('R', true, true));
        assert_eq!(text("2048"), ('R', true, true));
        assert_eq!(text("128"), ('I', false, false));
        assert_eq!(text("?"), ('?', false, false));
        assert_eq!(text(""), ('?', false, false));
    }
}
