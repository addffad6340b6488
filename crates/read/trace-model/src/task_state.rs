//! What a thread does when it is switched out, out of the kernel's bits (upstream: task_state.cc).
//!
//! The lowest six bits have always meant the same; what is above was sorted anew in Linux 4.14. How preemption is told changed in 4.8 and in
//! 4.14.

/// A state by its bits: each below stands for a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskState(u16);

/// The letters, from bit 0.
const LETTERS: [(u16, char); 12] = [
    (SLEEPING, 'S'),
    (UNINTERRUPTIBLE, 'D'),
    (0x4, 'T'),
    (0x8, 't'),
    (0x10, 'X'),
    (0x20, 'Z'),
    (PARKED, 'P'),
    (DEAD, 'x'),
    (WAKE_KILL, 'K'),
    (WAKING, 'W'),
    (NO_LOAD, 'N'),
    (IDLE, 'I'),
];

const SLEEPING: u16 = 0x1;
const UNINTERRUPTIBLE: u16 = 0x2;
const ALWAYS: u16 = 0x3f;
const PARKED: u16 = 0x40;
const DEAD: u16 = 0x80;
const WAKE_KILL: u16 = 0x100;
const WAKING: u16 = 0x200;
const NO_LOAD: u16 = 0x400;
const IDLE: u16 = 0x800;
const PREEMPTED: u16 = 0x1000;
/// Bits that no kernel sets.
const INVALID: u16 = 0x8000;

/// Where it is not known: old recorders did not say it.
const DEFAULT_VERSION: (u32, u32) = (4, 4);

impl TaskState {
    /// Of what a kernel of this version reports.
    #[must_use]
    pub fn of(raw: u16, version: Option<(u32, u32)>) -> Self {
        let version = version.unwrap_or(DEFAULT_VERSION);
        let take = |bits: &[(u16, u16)]| {
            bits.iter()
                .filter(|(theirs, _)| raw & theirs != 0)
                .fold(raw & ALWAYS, |sum, (_, ours)| sum | ours)
        };
        if version >= (4, 14) {
            if raw & 0xfe00 != 0 {
                return Self(INVALID);
            }
            return Self(take(&[(0x40, PARKED), (0x80, IDLE), (0x100, PREEMPTED)]));
        }
        let mut state =
            take(&[(0x40, DEAD), (0x80, WAKE_KILL), (0x100, WAKING), (0x200, PARKED), (0x400, NO_LOAD)]);
        if state == UNINTERRUPTIBLE | NO_LOAD {
            state = IDLE;
        }
        let preempted = if version >= (4, 8) { 0x1000 } else { 0x800 };
        Self(if raw & preempted != 0 { state | PREEMPTED } else { state })
    }

    /// The state that a text says: `R`, `R+`, or letters, also with `|` between them.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "R" => return Self(0),
            "R+" => return Self(PREEMPTED),
            "" => return Self(INVALID),
            _ => {}
        }
        let bit = |letter| LETTERS.iter().find(|(_, its)| *its == letter).map(|(bit, _)| *bit);
        let bits: Option<u16> =
            text.chars().filter(|c| *c != '|').try_fold(0, |sum, c| bit(c).map(|bit| sum | bit));
        Self(bits.unwrap_or(INVALID))
    }

    /// As a kernel whose version is not known would report it; the opposite of [`Self::of`].
    #[must_use]
    pub const fn to_raw(self) -> u16 {
        const OLD: [(u16, u16); 6] = [
            (DEAD, 0x40),
            (WAKE_KILL, 0x80),
            (WAKING, 0x100),
            (PARKED, 0x200),
            (NO_LOAD, 0x400),
            (IDLE, UNINTERRUPTIBLE | 0x400),
        ];
        match self.0 {
            INVALID => return u16::MAX,
            PREEMPTED => return 0x800,
            _ => {}
        }
        let mut raw = self.0 & ALWAYS;
        let mut rest: &[(u16, u16)] = &OLD;
        while let Some(((ours, theirs), after)) = rest.split_first() {
            if self.0 & *ours != 0 {
                raw |= *theirs;
            }
            rest = after;
        }
        raw
    }

    /// Whether it is one.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 & INVALID == 0
    }

    /// `R`, `R+`, or the letters of all bits; nothing if it is not valid.
    #[must_use]
    pub fn text(self) -> Option<String> {
        if !self.is_valid() {
            return None;
        }
        match self.0 {
            0 => Some("R".to_owned()),
            PREEMPTED => Some("R+".to_owned()),
            bits => {
                Some(LETTERS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter).collect())
            }
        }
    }

    /// A number below [`Self::NUMBERS`], different for each state.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// See [`Self::number`].
    pub const NUMBERS: usize = 1 << 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_mean_what_the_version_says() {
        type Version = Option<(u32, u32)>;
        let cases: [(u16, Version, Option<&str>); 14] = [
            (0, None, Some("R")),
            (1, Some((6, 1)), Some("S")),
            (2, Some((6, 1)), Some("D")),
            (0x40, Some((4, 14)), Some("P")),
            (0x80, Some((5, 4)), Some("I")),
            (0x100, Some((5, 4)), Some("R+")),
            (0x200, Some((5, 4)), None),
            (0x40, Some((4, 13)), Some("x")),
            (0x402, Some((4, 13)), Some("I")),
            (0x1000, Some((4, 8)), Some("R+")),
            (0x800, Some((4, 7)), Some("R+")),
            (0x800, None, Some("R+")),
            (0x82, None, Some("DK")),
            (0x21, None, Some("SZ")),
        ];
        for (raw, version, expected) in cases {
            assert_eq!(TaskState::of(raw, version).text().as_deref(), expected, "{raw:#x} {version:?}");
        }
    }

    #[test]
    fn texts_are_read_back() {
        for text in ["R", "R+", "S", "D", "DK", "I", "SZ"] {
            assert_eq!(TaskState::parse(text).text().as_deref(), Some(text));
        }
        assert_eq!(TaskState::parse("D|K"), TaskState::parse("DK"));
        for text in ["", "Q", "S+", "SR"] {
            assert!(!TaskState::parse(text).is_valid(), "{text}");
        }
    }
}
