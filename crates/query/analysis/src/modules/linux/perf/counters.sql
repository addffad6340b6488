-- Samples of `perf`, a row for each counter that was read with one.
create perfetto view linux_perf_sample_with_counters(
    -- The sample.
    sample_id JOINID(perf_sample.id),
    -- When it was taken.
    ts TIMESTAMP,
    -- The thread.
    utid JOINID(thread.id),
    -- The CPU.
    cpu LONG,
    -- What the CPU ran: the kernel, a program.
    cpu_mode STRING,
    -- Its stack.
    callsite_id JOINID(stack_profile_callsite.id),
    -- Why it has none.
    unwind_error STRING,
    -- The session that it was taken in.
    perf_session_id JOINID(perf_session.id),
    -- The value.
    counter_id JOINID(counter.id),
    -- The counter's track.
    track_id JOINID(track.id),
    -- The value.
    counter_value DOUBLE
) as
select s.id as sample_id, s.ts, t.utid, p.cpu, ifnull(e.cpu_mode, 'unknown') as cpu_mode, s.callsite_id, s.unwind_error,
    s.session_id as perf_session_id, n.counter_id, c.track_id, c.value as counter_value
from __intrinsic_profiler_sample s
join __intrinsic_profiler_counter_set n on n.counter_set_id = s.counter_set_id
join counter c on c.id = n.counter_id
left join __intrinsic_profiler_task_context t on t.id = s.task_context_id
left join __intrinsic_profiler_execution_context e on e.id = s.execution_context_id
left join cpu p on p.id = e.ucpu
where s.source = 'linux.perf';

-- The value of a counter that was read with a sample of `perf`.
create perfetto function linux_perf_counter_for_sample(
    -- The sample.
    sample_id JOINID(perf_sample.id),
    -- What the counter is called.
    counter_name STRING)
-- The value.
returns DOUBLE as
select max(c.counter_value)
from linux_perf_sample_with_counters c join track t on t.id = c.track_id
where c.sample_id = $sample_id and t.name = $counter_name;
