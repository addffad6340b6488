//! Tables of call stacks, samples, and memory (upstream: tables/profiler_tables.py, tables/memory_tables.py).
//!
//! Upstream keeps the samples of all profilers in one table, and its names of old (`perf_sample`, `cpu_profile_stack_sample`) are views of
//! it, as is `stack_sample`: those samples that have a stack. The names of old are left to SQL here, too.

use crate::blocks::Blocks;
use crate::column::Gaps;
use crate::ids::{
    AggregateProfileId, ArgSetId, AsyncContextId, CallsiteId, CounterId, ExecutionContextId, FrameId,
    MappingId, MemoryNodeId, MemorySnapshotId, ProcessMemorySnapshotId, SampleId, SessionId, SliceId,
    SymbolSetId, TaskContextId, TrackId, Ucpu, Upid, Utid,
};
use crate::strings::Str;
use crate::table::table;

table! {
    /// Call stacks, as a tree: each row is a frame and who called it.
    CallsiteTable, CallsiteRow, "stack_profile_callsite";
    /// How many frames are below it.
    depth: Vec<u32>,
    /// Who called it, a row of `stack_profile_callsite`.
    parent_id: Gaps<CallsiteId>,
    /// The function, a row of `stack_profile_frame`.
    frame_id: Vec<FrameId>,
}

table! {
    /// Places in programs that call stacks are made of.
    FrameTable, FrameRow, "stack_profile_frame";
    /// The function's name.
    name: Vec<Option<Str>>,
    /// The file that it is in, a row of `stack_profile_mapping`.
    mapping: Vec<MappingId>,
    /// The address, relative to that file's.
    rel_pc: Vec<i64>,
    /// What its symbols are, rows of `stack_profile_symbol`.
    symbol_set_id: Gaps<SymbolSetId>,
    /// Its name in the source.
    deobfuscated_name: Vec<Option<Str>>,
    /// Its kind, if the profiler said one: `native`, `kernel`, `interpreted`, `jit`, `gc`, `runtime`.
    type_: Vec<Option<Str>>,
}

table! {
    /// Files that programs are made of, where they lay in memory.
    MappingTable, MappingRow, "stack_profile_mapping";
    /// The file's build id, in hexadecimal.
    build_id: Vec<Option<Str>>,
    /// Where in the file the mapping begins, to the byte.
    exact_offset: Vec<i64>,
    /// Where in the file the first mapping of it begins.
    start_offset: Vec<i64>,
    /// Its first address.
    start: Vec<i64>,
    /// The address after its last.
    end: Vec<i64>,
    /// What the file's addresses begin with.
    load_bias: Vec<i64>,
    /// The file's path.
    name: Vec<Option<Str>>,
}

table! {
    /// Functions in the source that a frame stands for, the innermost first.
    SymbolTable, SymbolRow, "stack_profile_symbol";
    /// The number of the set, that of its first row.
    symbol_set_id: Vec<SymbolSetId>,
    /// The function's name.
    name: Vec<Option<Str>>,
    /// The file of the source.
    source_file: Vec<Option<Str>>,
    /// The line in it.
    line_number: Gaps<u32>,
    /// Whether it was inlined into the next.
    inlined: Gaps<bool>,
}

table! {
    /// Samples of all profilers, by time.
    ProfilerSampleTable, ProfilerSampleRow, "__intrinsic_profiler_sample";
    /// When.
    ts: Blocks<i64>,
    /// The profiler: `linux.perf`, `chrome`, `perf_text`, or a name that the producer gave.
    source: Blocks<Option<Str>>,
    /// What ran, a row of `__intrinsic_profiler_task_context`.
    task_context_id: Gaps<TaskContextId>,
    /// Where and how it ran, a row of `__intrinsic_profiler_execution_context`.
    execution_context_id: Gaps<ExecutionContextId>,
    /// The stack, a row of `stack_profile_callsite`; none if only counters were read.
    callsite_id: Gaps<CallsiteId>,
    /// Why the stack is not whole.
    unwind_error: Blocks<Option<Str>>,
    /// The recording that it belongs to, a row of `__intrinsic_profiler_session`.
    session_id: Gaps<SessionId>,
    /// The counters that were read with it, rows of `__intrinsic_profiler_counter_set`.
    counter_set_id: Gaps<u32>,
}

table! {
    /// Recordings of samples: one for each stream of a profiler.
    ProfilerSessionTable, ProfilerSessionRow, "__intrinsic_profiler_session";
    /// The profiler, as its samples say.
    source: Vec<Option<Str>>,
    /// The unit of what is sampled: `ns`, `cycles`, `bytes`.
    timebase_unit: Vec<Option<Str>>,
    /// The command that recorded it.
    cmdline: Vec<Option<Str>>,
}

table! {
    /// What samples are of: a process, a thread, a task in one.
    ProfilerTaskContextTable, ProfilerTaskContextRow, "__intrinsic_profiler_task_context";
    /// The process, a row of `process`.
    upid: Gaps<Upid>,
    /// The thread, a row of `thread`.
    utid: Gaps<Utid>,
    /// The task, a row of `__intrinsic_profiler_async_context`.
    async_context_id: Gaps<AsyncContextId>,
}

table! {
    /// Where and how the processor was when samples were taken.
    ProfilerExecutionContextTable, ProfilerExecutionContextRow, "__intrinsic_profiler_execution_context";
    /// The processor, a row of `cpu`.
    ucpu: Gaps<Ucpu>,
    /// `user`, `kernel`, `hypervisor`, `guest_kernel` or `guest_user`.
    cpu_mode: Vec<Option<Str>>,
}

table! {
    /// Tasks with stacks of their own that threads run: fibers, goroutines.
    ProfilerAsyncContextTable, ProfilerAsyncContextRow, "__intrinsic_profiler_async_context";
    /// Its name.
    name: Vec<Option<Str>>,
    /// What it is, by the producer's word.
    kind: Vec<Option<Str>>,
    /// What it belongs to, a row of `__intrinsic_profiler_async_context`.
    parent_id: Gaps<AsyncContextId>,
}

table! {
    /// The counters that were read with samples: the one that is sampled by first, then its followers.
    ProfilerCounterSetTable, ProfilerCounterSetRow, "__intrinsic_profiler_counter_set";
    /// The number of the set, that of its first row.
    counter_set_id: Blocks<u32>,
    /// The value, a row of `counter`.
    counter_id: Blocks<CounterId>,
}

table! {
    /// What Chrome says of its samples: a row for each that has a priority.
    ChromeStackSampleExtrasTable, ChromeStackSampleExtrasRow, "__intrinsic_chrome_stack_sample_extras";
    /// The sample, a row of `__intrinsic_profiler_sample`.
    profiler_sample_id: Blocks<SampleId>,
    /// The process's priority.
    process_priority: Blocks<i32>,
}

table! {
    /// Stacks of events of programs.
    TrackEventCallstacksTable, TrackEventCallstacksRow, "__intrinsic_track_event_callstacks";
    /// The event, a row of `slice`.
    slice_id: Blocks<SliceId>,
    /// Its track, a row of `track`.
    track_id: Blocks<TrackId>,
    /// The stack when it began, a row of `stack_profile_callsite`.
    callsite_id: Gaps<CallsiteId>,
    /// The stack when it ended.
    end_callsite_id: Gaps<CallsiteId>,
    /// How much it counts.
    weight: Gaps<f64>,
}

table! {
    /// Profiles of files that sum up: one for each kind of value in them.
    AggregateProfileTable, AggregateProfileRow, "__intrinsic_aggregate_profile";
    /// What kind of file it was.
    scope: Vec<Option<Str>>,
    /// Its name.
    name: Vec<Option<Str>>,
    /// What was counted: `cpu`, `alloc_space`.
    sample_type_type: Vec<Option<Str>>,
    /// Its unit.
    sample_type_unit: Vec<Option<Str>>,
}

table! {
    /// The values of such profiles, by stack.
    AggregateSampleTable, AggregateSampleRow, "__intrinsic_aggregate_sample";
    /// The profile, a row of `__intrinsic_aggregate_profile`.
    aggregate_profile_id: Vec<AggregateProfileId>,
    /// The stack, a row of `stack_profile_callsite`.
    callsite_id: Vec<CallsiteId>,
    /// The value.
    value: Vec<f64>,
}

table! {
    /// Dumps of heaps: the time that each is of.
    HeapProfileTable, HeapProfileRow, "heap_profile";
    /// When what it counts began.
    ts: Vec<i64>,
    /// When it was dumped: the `ts` of its rows in `heap_profile_allocation`.
    ts_end: Vec<i64>,
    /// How long that was.
    dur: Vec<i64>,
    /// The process, a row of `process`.
    upid: Vec<Upid>,
    /// The allocator; nothing in old traces.
    heap_name: Vec<Option<Str>>,
}

table! {
    /// Memory that was allocated, and given back (negative), since the last dump, by call stack.
    HeapProfileAllocationTable, HeapProfileAllocationRow, "heap_profile_allocation";
    /// When this was dumped.
    ts: Blocks<i64>,
    /// The process, a row of `process`.
    upid: Blocks<Upid>,
    /// The allocator.
    heap_name: Blocks<Option<Str>>,
    /// The stack, a row of `stack_profile_callsite`.
    callsite_id: Blocks<CallsiteId>,
    /// How many allocations.
    count: Blocks<i64>,
    /// How many bytes.
    size: Blocks<i64>,
}

table! {
    /// Where the memory of processes lay, by file.
    ProfilerSmapsTable, ProfilerSmapsRow, "profiler_smaps";
    /// The process, a row of `process`.
    upid: Vec<Upid>,
    /// When.
    ts: Vec<i64>,
    /// The file, or what else the kernel calls it.
    path: Vec<Option<Str>>,
    /// The same without the word that the file was deleted.
    path_trimmed: Vec<Option<Str>>,
    /// How many mappings this row sums up.
    aggregate_count: Vec<u32>,
    /// Whether the file was deleted.
    is_deleted: Vec<bool>,
    /// In kB, as all that end so.
    size_kb: Vec<i64>,
    /// Written to and not shared.
    private_dirty_kb: Vec<i64>,
    /// Swapped out.
    swap_kb: Vec<i64>,
    /// The file's name, as the kernel has it.
    file_name: Vec<Option<Str>>,
    /// Where the first part of it lies.
    start_address: Vec<i64>,
    /// When the file was changed.
    module_timestamp: Vec<i64>,
    /// The file's build id.
    module_debugid: Vec<Option<Str>>,
    /// The path of its debug information.
    module_debug_path: Vec<Option<Str>>,
    /// What the mapping may do.
    protection_flags: Vec<i64>,
    /// Not shared, clean, and in memory.
    private_clean_resident_kb: Vec<i64>,
    /// Shared, written to, and in memory.
    shared_dirty_resident_kb: Vec<i64>,
    /// Shared and clean, and in memory.
    shared_clean_resident_kb: Vec<i64>,
    /// Locked into memory.
    locked_kb: Vec<i64>,
    /// In memory, each page's share.
    proportional_resident_kb: Vec<i64>,
    /// In memory.
    rss_kb: Vec<i64>,
    /// Of no file.
    anonymous_kb: Vec<i64>,
    /// Written to, each page's share.
    pss_dirty_kb: Vec<i64>,
    /// Swapped out, each page's share.
    swap_pss_kb: Vec<i64>,
}

table! {
    /// Dumps of what programs say of their memory.
    MemorySnapshotTable, MemorySnapshotRow, "memory_snapshot";
    /// When.
    timestamp: Vec<i64>,
    /// The track that it is shown on, a row of `track`.
    track_id: Vec<TrackId>,
    /// How much was asked for: `detailed`, `light`, `background`.
    detail_level: Vec<Option<Str>>,
}

table! {
    /// The processes of such dumps; what they share is that of pid 0.
    ProcessMemorySnapshotTable, ProcessMemorySnapshotRow, "process_memory_snapshot";
    /// The dump, a row of `memory_snapshot`.
    snapshot_id: Vec<MemorySnapshotId>,
    /// The process, a row of `process`.
    upid: Vec<Upid>,
}

table! {
    /// The parts of a process's memory, as a tree.
    MemorySnapshotNodeTable, MemorySnapshotNodeRow, "memory_snapshot_node";
    /// The process in its dump, a row of `process_memory_snapshot`.
    process_snapshot_id: Vec<ProcessMemorySnapshotId>,
    /// What it is a part of, a row of `memory_snapshot_node`.
    parent_node_id: Gaps<MemoryNodeId>,
    /// Its names from the top, with slashes.
    path: Vec<Option<Str>>,
    /// Bytes.
    size: Vec<i64>,
    /// Bytes that are its own: what several own is shared out among them.
    effective_size: Vec<i64>,
    /// What else was said of it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// Which part of memory is really another's.
    MemorySnapshotEdgeTable, MemorySnapshotEdgeRow, "memory_snapshot_edge";
    /// The owner, a row of `memory_snapshot_node`.
    source_node_id: Vec<MemoryNodeId>,
    /// What it owns, a row of `memory_snapshot_node`.
    target_node_id: Vec<MemoryNodeId>,
    /// Of several owners those with the highest number count.
    importance: Vec<u32>,
}
