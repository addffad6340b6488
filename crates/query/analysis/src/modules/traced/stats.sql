create perfetto macro _traced_latency_since(begin Expr) returns TableOrSubquery as (
    select d.idx as buffer_id, d.value - b.value as duration_ns, d.machine_id, d.trace_id
    from stats d
    join stats b on b.name = $begin and b.machine_id is d.machine_id and b.trace_id is d.trace_id
    where d.name = 'traced_buf_clone_done_timestamp_ns' and b.value != 0
);

-- How long it took to flush each buffer of a clone, from when it was asked for.
create perfetto table traced_clone_flush_latency(
    -- The buffer.
    buffer_id LONG,
    -- How long it took, in nanoseconds.
    duration_ns LONG,
    -- The machine.
    machine_id JOINID(machine.id),
    -- The trace.
    trace_id LONG
) as
select * from _traced_latency_since!('traced_clone_started_timestamp_ns') order by machine_id, trace_id, buffer_id;

-- How long it took to flush each buffer of a clone, from the trigger.
create perfetto table traced_trigger_clone_flush_latency(
    -- The buffer.
    buffer_id LONG,
    -- How long it took, in nanoseconds.
    duration_ns LONG,
    -- The machine.
    machine_id JOINID(machine.id),
    -- The trace.
    trace_id LONG
) as
select * from _traced_latency_since!('traced_clone_trigger_timestamp_ns') order by machine_id, trace_id, buffer_id;
