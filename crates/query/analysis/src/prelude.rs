//! Names that Trace Processor's users expect beside the tables of the trace: other names of them, and views in SQL.

/// Other names of tables: `__intrinsic_slice` is what upstream's own modules call `slice`.
const INTRINSIC: &str = "__intrinsic_";

/// Those whose other names are made otherwise.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("__intrinsic_sched_slice", "sched"),
    ("__intrinsic_profiler_smaps", "profiler_smaps"),
    ("__intrinsic_trace_file", "trace_file"),
    ("__intrinsic_trace_import_logs", "trace_import_logs"),
    ("_linux_interrupt_mapping", "interrupt_mapping"),
];

/// Views, by name.
const VIEWS: &[(&str, &str)] = &[
    (
        "track",
        "select id, name, type, dimension_arg_set_id, parent_id, source_arg_set_id, machine_id, track_group_id
        from __intrinsic_track",
    ),
    (
        "machine",
        "select m.id, raw_id, m.name, sysname, release, version, arch, num_cpus,
            p.str_value as android_build_fingerprint, d.str_value as android_device_manufacturer,
            v.int_value as android_sdk_version, system_ram_bytes, system_ram_gb,
            iif(raw_id = 0, 0, sum(iif(raw_id = 0, 0, 1)) over (order by m.id)) as label_index
        from __intrinsic_machine m
        left join metadata p on p.machine_id = m.id and p.name = 'android_build_fingerprint'
        left join metadata d on d.machine_id = m.id and d.name = 'android_device_manufacturer'
        left join metadata v on v.machine_id = m.id and v.name = 'android_sdk_version'
        order by m.id",
    ),
    (
        "_stat_key_to_severity_and_name",
        "select distinct key, severity, name from stats order by key",
    ),
    (
        "_trace_import_logs",
        "select l.id, l.trace_id, l.ts, l.byte_offset, s.severity, s.name, l.arg_set_id
        from trace_import_logs l join _stat_key_to_severity_and_name s on l.stat_key = s.key",
    ),
    (
        "gpu_track",
        "select id, name, type, parent_id, source_arg_set_id, dimension_arg_set_id, machine_id, type as scope,
            extract_arg(source_arg_set_id, 'description') as description,
            extract_arg(dimension_arg_set_id, 'context_id') as context_id
        from track
        where type in ('drm_vblank', 'drm_sched_ring', 'drm_fence', 'mali_mcu_state', 'gpu_render_stage',
            'vulkan_events', 'gpu_log', 'graphics_frame_event')",
    ),
    ("trace_bounds", "select trace_start() as start_ts, trace_end() as end_ts"),
    (
        "args",
        "select a.*,
            case value_type
                when 'int' then cast(int_value as text)
                when 'uint' then printf('%u', int_value)
                when 'pointer' then printf('0x%x', int_value)
                when 'bool' then iif(int_value, 'true', 'false')
                when 'real' then cast(real_value as text)
                when 'string' then string_value
                when 'json' then string_value
            end as display_value
        from __intrinsic_args a",
    ),
    (
        "gpu_counter_track",
        "select t.id, t.name, t.type, t.parent_id, t.source_arg_set_id, t.machine_id, t.unit, t.description,
            extract_arg(t.dimension_arg_set_id, 'ugpu') as ugpu,
            extract_arg(t.dimension_arg_set_id, 'gpu') as gpu_id
        from counter_track t
        where extract_arg(t.dimension_arg_set_id, 'ugpu') is not null",
    ),
    (
        "perf_counter_track",
        "select t.id, t.name, t.type, t.parent_id, t.source_arg_set_id, t.machine_id, t.unit, t.description,
            extract_arg(t.dimension_arg_set_id, 'perf_session_id') as perf_session_id,
            extract_arg(t.dimension_arg_set_id, 'cpu') as cpu,
            extract_arg(t.source_arg_set_id, 'is_timebase') as is_timebase
        from counter_track t
        where t.type in ('perf_cpu_counter', 'perf_global_counter')",
    ),
    (
        "process_memory_mappings",
        "select id, upid, ts, path_trimmed as path, aggregate_count, is_deleted, size_kb, rss_kb, anonymous_kb, swap_kb,
            shared_clean_resident_kb as shared_clean_kb, shared_dirty_resident_kb as shared_dirty_kb,
            private_clean_resident_kb as private_clean_kb, private_dirty_kb, locked_kb,
            proportional_resident_kb as pss_kb, pss_dirty_kb, swap_pss_kb
        from profiler_smaps",
    ),
    (
        "perf_sample",
        "select s.id, s.ts, t.utid, e.ucpu as cpu, ifnull(e.cpu_mode, 'unknown') as cpu_mode, s.callsite_id,
            s.unwind_error, s.session_id as perf_session_id
        from __intrinsic_profiler_sample s
        left join __intrinsic_profiler_task_context t on t.id = s.task_context_id
        left join __intrinsic_profiler_execution_context e on e.id = s.execution_context_id
        where s.source = 'linux.perf'",
    ),
    (
        "cpu_profile_stack_sample",
        "select s.id, s.ts, s.callsite_id, t.utid, ifnull(e.process_priority, 0) as process_priority
        from __intrinsic_profiler_sample s
        left join __intrinsic_profiler_task_context t on t.id = s.task_context_id
        left join __intrinsic_chrome_stack_sample_extras e on e.profiler_sample_id = s.id
        where s.source in ('chrome', 'legacy_v8', 'gecko', 'simpleperf', 'perf_text')",
    ),
    (
        "instruments_sample",
        "select s.id, s.ts, t.utid, s.callsite_id, c.cpu
        from __intrinsic_profiler_sample s
        left join __intrinsic_profiler_task_context t on t.id = s.task_context_id
        left join __intrinsic_profiler_execution_context e on e.id = s.execution_context_id
        left join cpu c on c.id = e.ucpu
        where s.source = 'instruments'",
    ),
    (
        "stack_sample_session",
        "select id, source, timebase_unit, cmdline
        from __intrinsic_profiler_session where id in (select session_id from stack_sample)",
    ),
    (
        "stack_sample_task_context",
        "select id, upid, utid, async_context_id
        from __intrinsic_profiler_task_context where id in (select task_context_id from stack_sample)",
    ),
    (
        "stack_sample_execution_context",
        "select id, ucpu, cpu_mode
        from __intrinsic_profiler_execution_context where id in (select execution_context_id from stack_sample)",
    ),
    (
        "stack_sample_async_context",
        "with recursive named(id) as (
            select t.async_context_id
            from stack_sample s join __intrinsic_profiler_task_context t on t.id = s.task_context_id
            where t.async_context_id is not null
            union
            select a.parent_id
            from __intrinsic_profiler_async_context a join named n on a.id = n.id
            where a.parent_id is not null
        )
        select id, name, kind, parent_id
        from __intrinsic_profiler_async_context where id in (select id from named)",
    ),
    (
        "stack_sample_counter",
        "select c.id, s.id as stack_sample_id, c.track_id, c.value
        from __intrinsic_profiler_sample s
        join __intrinsic_profiler_counter_set n on n.counter_set_id = s.counter_set_id
        join counter c on c.id = n.counter_id
        where s.callsite_id is not null",
    ),
    (
        "stack_sample_counter_track",
        "select t.id, t.name, t.type, t.parent_id, t.source_arg_set_id, t.machine_id, t.unit, t.description,
            coalesce(extract_arg(t.dimension_arg_set_id, 'session_id'),
                extract_arg(t.dimension_arg_set_id, 'perf_session_id')) as session_id,
            extract_arg(t.dimension_arg_set_id, 'cpu') as cpu,
            extract_arg(t.source_arg_set_id, 'is_timebase') as is_timebase
        from counter_track t where t.id in (select track_id from stack_sample_counter)",
    ),
];

/// What the trace may call the table of this name.
pub(crate) fn tables_of(name: &str) -> impl Iterator<Item = &str> {
    let other = OTHER_NAMES.iter().find(|(it, _)| *it == name).map(|(_, table)| *table);
    [Some(name), other, name.strip_prefix(INTRINSIC)].into_iter().flatten()
}

/// The query that a view is of.
pub(crate) fn view(name: &str) -> Option<&'static str> {
    VIEWS.iter().find(|(it, _)| *it == name).map(|(_, sql)| *sql)
}

/// Names of views.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    VIEWS.iter().map(|(name, _)| *name)
}
