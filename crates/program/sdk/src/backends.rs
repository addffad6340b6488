//! The tracing services that a program can be a producer of.

use std::fmt;
use std::ops::BitOr;

/// Tracing services, combined with `|`: the system's, and one of this very process.
///
/// ```
/// use ferretto::Backends;
///
/// let both = Backends::SYSTEM | Backends::IN_PROCESS;
/// assert!(both.contains(Backends::SYSTEM));
/// assert_eq!(format!("{both:?}"), "SYSTEM | IN_PROCESS");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backends(u8);

impl Backends {
    /// The system's service (`traced`), reached by a socket: sessions see all programs.
    pub const SYSTEM: Self = Self(1);
    /// A service on a thread of this process: sessions see this program only, and need nobody else. Wants the feature `in-process`.
    pub const IN_PROCESS: Self = Self(2);
    pub(crate) const NONE: Self = Self(0);
    const ALL: [(Self, &'static str); 2] = [(Self::SYSTEM, "SYSTEM"), (Self::IN_PROCESS, "IN_PROCESS")];

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// One by one.
    pub(crate) fn iter(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().map(|(one, _)| one).filter(move |one| self.contains(*one))
    }
}

impl BitOr for Backends {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            Self::ALL.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| *name).collect();
        formatter.write_str(if names.is_empty() { "none" } else { "" })?;
        formatter.write_str(&names.join(" | "))
    }
}
