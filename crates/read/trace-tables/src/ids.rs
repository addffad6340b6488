//! Numbers of rows, a type for each table that others point to.

use crate::column::{Cell, Kind, Value};

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Cell for $name {
            const KIND: Kind = Kind::Int;

            #[inline]
            fn value(&self) -> Value {
                Value::Int(i64::from(self.0))
            }
        }
    )* };
}

id_types! {
    /// A row of `slice`.
    SliceId,
    /// A row of `track`.
    TrackId,
    /// A row of `thread`.
    Utid,
    /// A row of `process`.
    Upid,
    /// The first row of `args` that belongs to a set.
    ArgSetId,
    /// A row of `thread_state`.
    ThreadStateId,
    /// A row of `sched`.
    SchedId,
    /// A row of `counter`.
    CounterId,
    /// A row of `cpu`: the number of the machine times 4096, and that of the processor.
    Ucpu,
    /// A row of `stack_profile_callsite`.
    CallsiteId,
    /// A row of `stack_profile_frame`.
    FrameId,
    /// A row of `stack_profile_mapping`.
    MappingId,
    /// Rows of `stack_profile_symbol`, the first of a set.
    SymbolSetId,
    /// A row of `machine`.
    MachineId,
    /// A row of `trace_file`.
    TraceFileId,
}
