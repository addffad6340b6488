//! Numbers of rows, a type for each table that others point to.

use crate::column::{Cell, Kind, Value};

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident $(-> $table:literal)?),* $(,)?) => { $(
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
            $(const REFERS_TO: Option<&'static str> = Some($table);)?

            #[inline]
            fn value(&self) -> Value {
                Value::Int(i64::from(self.0))
            }

            #[inline]
            fn bits(&self) -> Option<u64> {
                Some(u64::from(self.0))
            }

            #[inline]
            fn from_bits(bits: Option<u64>) -> Self {
                Self(u32::from_bits(bits))
            }
        }
    )* };
}

id_types! {
    /// A row of `slice`.
    SliceId -> "slice",
    /// A row of `track`.
    TrackId -> "track",
    /// A row of `thread`.
    Utid -> "thread",
    /// A row of `process`.
    Upid -> "process",
    /// The first row of `args` that belongs to a set.
    ArgSetId -> "args",
    /// A row of `thread_state`.
    ThreadStateId -> "thread_state",
    /// A row of `sched`.
    SchedId -> "sched",
    /// A row of `counter`.
    CounterId -> "counter",
    /// A row of `cpu`: the number of the machine times 4096, and that of the processor.
    Ucpu,
    /// A row of `stack_profile_callsite`.
    CallsiteId -> "stack_profile_callsite",
    /// A row of `stack_profile_frame`.
    FrameId -> "stack_profile_frame",
    /// A row of `stack_profile_mapping`.
    MappingId -> "stack_profile_mapping",
    /// Rows of `stack_profile_symbol`, the first of a set.
    SymbolSetId -> "stack_profile_symbol",
    /// A row of `__intrinsic_profiler_sample`.
    SampleId -> "__intrinsic_profiler_sample",
    /// A row of `__intrinsic_profiler_session`.
    SessionId -> "__intrinsic_profiler_session",
    /// A row of `__intrinsic_profiler_task_context`.
    TaskContextId -> "__intrinsic_profiler_task_context",
    /// A row of `__intrinsic_profiler_execution_context`.
    ExecutionContextId -> "__intrinsic_profiler_execution_context",
    /// A row of `__intrinsic_profiler_async_context`.
    AsyncContextId -> "__intrinsic_profiler_async_context",
    /// A row of `__intrinsic_aggregate_profile`.
    AggregateProfileId -> "__intrinsic_aggregate_profile",
    /// A row of `memory_snapshot`.
    MemorySnapshotId -> "memory_snapshot",
    /// A row of `process_memory_snapshot`.
    ProcessMemorySnapshotId -> "process_memory_snapshot",
    /// A row of `memory_snapshot_node`.
    MemoryNodeId -> "memory_snapshot_node",
    /// A row of `heap_graph`.
    HeapGraphId -> "heap_graph",
    /// A row of `heap_graph_class`.
    HeapGraphClassId -> "heap_graph_class",
    /// A row of `heap_graph_object`.
    HeapGraphObjectId -> "heap_graph_object",
    /// A row of `heap_graph_object_data`.
    HeapObjectDataId -> "heap_graph_object_data",
    /// A row of `machine`.
    MachineId -> "machine",
    /// A row of `trace_file`.
    TraceFileId -> "trace_file",
}
