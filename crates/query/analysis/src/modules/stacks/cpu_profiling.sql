include perfetto module callstacks.stack_profile;

-- Samples of what CPUs did, of whatever profiler.
create perfetto table cpu_profiling_samples(
    -- The sample.
    id LONG,
    -- When it was taken.
    ts TIMESTAMP,
    -- The thread.
    utid JOINID(thread.id),
    -- The thread's number in the system.
    tid LONG,
    -- What the thread is called.
    thread_name STRING,
    -- The CPU among those of all machines.
    ucpu LONG,
    -- The CPU.
    cpu LONG,
    -- The stack.
    callsite_id LONG,
    -- The profiler.
    source STRING
) as
select s.id, s.ts, k.utid, t.tid, t.name as thread_name, e.ucpu, c.cpu, s.callsite_id, s.source
from stack_sample s
left join stack_sample_task_context k on k.id = s.task_context_id
left join stack_sample_execution_context e on e.id = s.execution_context_id
left join stack_sample_session n on n.id = s.session_id
left join thread t on t.utid = k.utid
left join cpu c on c.id = e.ucpu
where n.timebase_unit is null or n.timebase_unit in ('ns', 'cycles', 'instructions')
order by s.ts;

create perfetto table _cpu_profiling_self_callsites as
select * from _callstacks_for_callsites!((select callsite_id from cpu_profiling_samples)) order by id;

-- The tree of all stacks of those samples.
create perfetto table cpu_profiling_summary_tree(
    -- The place in the tree.
    id LONG,
    -- The place that called it.
    parent_id LONG,
    -- The function.
    name STRING,
    -- The file that it is in.
    mapping_name STRING,
    -- Its source.
    source_file STRING,
    -- The line there.
    line_number LONG,
    -- Samples in it.
    self_count LONG,
    -- Samples in it and in what it called.
    cumulative_count LONG
) as
select * from _callstacks_with_cumulative!(_cpu_profiling_self_callsites) order by id;
