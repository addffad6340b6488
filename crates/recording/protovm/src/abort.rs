//! How a program ends early.

/// Why running an instruction stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The instruction's abort level says what this ends.
    Failed,
    /// The program ends. Boxed: what every step returns should fit into registers.
    Abort(Box<AbortReason>),
}

pub(crate) type Step<T = ()> = Result<T, Stop>;

impl From<AbortReason> for Stop {
    #[cold]
    fn from(reason: AbortReason) -> Self {
        Self::Abort(Box::new(reason))
    }
}

/// Why a packet was not, or not wholly, applied. What ran before stays in the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// An instruction did not find what it selects, and ended its outer ones with it.
    ///
    /// That is how a program deals with packets that are not for it: no reason for concern.
    #[error("an instruction selects a field that is not there, and ended the program")]
    Failed,
    /// The program, or the packet, does not fit the state, or a bound was exceeded.
    #[error("the program aborted at instruction {}: {reason}", Path(.path))]
    Aborted {
        /// The cause.
        reason: AbortReason,
        /// The place of the instruction in the program: its index, that of the nested instruction in it, and
        /// so on.
        path: Vec<usize>,
    },
    /// The VM is a clone made for reading its state.
    #[error("this VM is a read-only clone; apply packets to the one it was cloned from")]
    ReadOnly,
}

/// What was wrong with a program, or between it and a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbortReason {
    /// The state would exceed its memory limit.
    #[error(
        "the state needs {wanted} bytes more, but {used} of its {limit} are in use; raise the memory limit"
    )]
    MemoryLimit {
        /// The bytes asked for.
        wanted: usize,
        /// The bytes in use.
        used: usize,
        /// The limit.
        limit: usize,
    },
    /// More were executed than it may for one packet, at most [`MAX_STEPS`](crate::MAX_STEPS).
    #[error("it ran more steps than it may for one packet; iterate over less")]
    TooManySteps,
    /// A field was used as something that it is not.
    #[error("used as {wanted}, but it is {found}")]
    WrongKind {
        /// What the instruction takes it for.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An element of a repeated field, taken as a map, has no number in its key field.
    #[error("an element of the map has no number in its key field {field}")]
    NoKey {
        /// The number of the key field.
        field: u32,
    },
    /// An index beyond the end of a repeated field of the state; only the next one may be added.
    #[error(
        "index {index} is beyond the repeated field's {len} elements; elements are added at the end only"
    )]
    IndexBeyondEnd {
        /// The index selected.
        index: u32,
        /// The number of elements.
        len: usize,
    },
    /// There are 32 registers, 0 to 31.
    #[error("there is no register {0}; the last one is 31")]
    NoSuchRegister(u8),
    /// A register was read that no instruction has written.
    #[error("register {0} is read before anything is loaded into it")]
    EmptyRegister(u8),
    /// The instruction's operation is missing or unknown.
    #[error("the instruction has no operation that is known")]
    UnknownOperation,
    /// A select on the source asks for missing fields to be created.
    #[error("the source cannot be written; create_if_not_exist is for the destination")]
    CreateInSource,
    /// A step of a path does not begin with a field.
    #[error("a step of the path has no field_id")]
    NoFieldId,
    /// A step into a map does not say which register has the key.
    #[error("a step with map_key_field_id lacks register_to_match")]
    NoKeyRegister,
    /// Repeated fields of the source cannot be taken as maps.
    #[error("the source's repeated fields cannot be selected by key, only the destination's")]
    KeyInSource,
    /// A repeated field was to be iterated with a cursor that is neither source nor destination.
    #[error("iterating needs the cursor SRC or DST")]
    IterateBoth,
    /// The destination was deleted by an earlier instruction.
    #[error("an earlier instruction deleted the destination")]
    Deleted,
    /// The destination is still selected by an outer instruction.
    #[error("del would delete what an outer select still points at; delete it there")]
    DeleteSelected,
    /// An instruction with the abort level ABORT failed.
    #[error("the instruction failed, and its abort level is ABORT")]
    AbortLevel,
}

/// Prints `1.0.3`.
struct Path<'a>(&'a [usize]);

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (level, index) in self.0.iter().enumerate() {
            let dot = if level == 0 { "" } else { "." };
            write!(f, "{dot}{index}")?;
        }
        Ok(())
    }
}
