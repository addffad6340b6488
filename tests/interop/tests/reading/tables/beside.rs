//! Which table and which columns of Trace Processor are beside which of ours.

/// One of our tables, and a query whose columns have the names of ours. Its rows are in the order of ours.
pub(super) struct Beside {
    pub(super) table: &'static str,
    pub(super) query: &'static str,
    /// Only our rows that have this text in this column.
    pub(super) only: Option<(&'static str, &'static str)>,
}

const fn beside(table: &'static str, query: &'static str) -> Beside {
    Beside { table, query, only: None }
}

/// v52 says nothing instead of 0 for the first machine.
pub(super) const BESIDE: &[Beside] = &[
    beside(
        "slice",
        "select ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur, \
         thread_instruction_count, thread_instruction_delta from slice order by id",
    ),
    beside(
        "track",
        "select name, parent_id, type, source_arg_set_id, dimension_arg_set_id, coalesce(machine_id, 0) as machine_id \
         from track order by id",
    ),
    beside(
        "thread",
        "select tid, name, start_ts, end_ts, upid, is_main_thread, is_idle, coalesce(machine_id, 0) as machine_id \
         from thread order by utid",
    ),
    beside(
        "process",
        "select pid, name, start_ts, end_ts, parent_upid, uid, android_appid, cmdline, arg_set_id, \
         coalesce(machine_id, 0) as machine_id from process order by upid",
    ),
    beside("sched", "select ts, dur, utid, end_state, priority, ucpu from sched order by id"),
    beside(
        "thread_state",
        "select ts, dur, utid, state, io_wait, blocked_function, waker_utid, waker_id, irq_context, ucpu \
         from thread_state order by id",
    ),
    beside(
        "spurious_sched_wakeup",
        "select ts, thread_state_id, irq_context, utid, waker_utid from spurious_sched_wakeup order by id",
    ),
    beside("flow", "select slice_out, slice_in, arg_set_id from flow order by id"),
    beside(
        "ftrace_event",
        "select ts, name, utid, arg_set_id, common_flags, ucpu from ftrace_event order by id",
    ),
    beside(
        "cpu",
        "select ucpu, cpu, cluster_id, processor, capacity, coalesce(machine_id, 0) as machine_id from cpu order by ucpu",
    ),
    beside("cpu_freq", "select ucpu, freq from cpu_available_frequencies order by id"),
    beside("machine", "select raw_id, sysname, release, version, arch from machine order by id"),
    beside("filedescriptor", "select fd, ts, upid, path from filedescriptor order by id"),
    beside(
        "clock_snapshot",
        // v52 counts them on each machine.
        "select ts, clock_id, clock_name, clock_value, coalesce(machine_id, 0) * 1000000 + snapshot_id as snapshot_id, \
         coalesce(machine_id, 0) as machine_id \
         from clock_snapshot order by id",
    ),
    beside(
        "stack_profile_callsite",
        "select depth, parent_id, frame_id from stack_profile_callsite order by id",
    ),
    beside(
        "stack_profile_frame",
        "select name, mapping, rel_pc, symbol_set_id, deobfuscated_name from stack_profile_frame order by id",
    ),
    beside(
        "stack_profile_mapping",
        "select build_id, exact_offset, start_offset, start, end, load_bias, name from stack_profile_mapping order by id",
    ),
    beside(
        "stack_profile_symbol",
        "select symbol_set_id, name, source_file, line_number from stack_profile_symbol order by id",
    ),
    Beside {
        only: Some(("source", "linux.perf")),
        ..beside(
            "__intrinsic_profiler_sample",
            "select ts, callsite_id, unwind_error, perf_session_id as session_id from perf_sample order by id",
        )
    },
    Beside {
        only: Some(("source", "chrome")),
        ..beside(
            "__intrinsic_profiler_sample",
            "select ts, callsite_id from cpu_profile_stack_sample order by id",
        )
    },
    beside(
        "heap_profile_allocation",
        "select ts, upid, heap_name, callsite_id, count, size from heap_profile_allocation order by id",
    ),
    beside(
        "profiler_smaps",
        "select upid, ts, path, size_kb, private_dirty_kb, swap_kb, file_name, start_address, module_timestamp, module_debugid, \
         module_debug_path, protection_flags, private_clean_resident_kb, shared_dirty_resident_kb, shared_clean_resident_kb, \
         locked_kb, proportional_resident_kb from profiler_smaps order by id",
    ),
    beside("memory_snapshot", "select timestamp, track_id, detail_level from memory_snapshot order by id"),
    beside("process_memory_snapshot", "select snapshot_id, upid from process_memory_snapshot order by id"),
    beside(
        "memory_snapshot_node",
        "select process_snapshot_id, parent_node_id, path, size, effective_size, arg_set_id \
         from memory_snapshot_node order by id",
    ),
    beside(
        "memory_snapshot_edge",
        "select source_node_id, target_node_id, importance from memory_snapshot_edge order by id",
    ),
];

/// Facts, which have no order.
pub(super) const METADATA: &str =
    "select name, coalesce(cast(int_value as text), str_value) from metadata order by 1, 2";
pub(super) const STATS: &str = "select name, coalesce(idx, -1), value from stats where value != 0";
/// Counters by what they are of: v52 leaves out values of `rss_stat` whose thread it does not know by its memory's number, so rows and tracks
/// have other numbers.
pub(super) const COUNTERS: &str = "select coalesce(t.name, ''), t.type, coalesce(t.machine_id, 0), \
     coalesce(t.dimension_arg_set_id, ''), c.ts, c.value, coalesce(c.arg_set_id, '') \
     from counter c join track t on t.id = c.track_id where coalesce(t.name, '') not glob 'mem.*' order by c.id";
pub(super) const ARGS: &str =
    "select arg_set_id, flat_key, key, int_value, string_value, real_value, value_type from args order by id";
