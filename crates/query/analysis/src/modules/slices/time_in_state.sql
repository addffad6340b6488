include perfetto module intervals.intersect;
include perfetto module slices.with_context;

-- How long each slice's thread was in each state in it.
create perfetto table thread_slice_time_in_state(
    -- The slice.
    id JOINID(slice.id),
    -- Its name.
    name STRING,
    -- Its thread.
    utid JOINID(thread.id),
    -- What the thread is called.
    thread_name STRING,
    -- Its process.
    upid JOINID(process.id),
    -- What the process is called.
    process_name STRING,
    -- The state.
    state STRING,
    -- Whether it waited for a device.
    io_wait BOOL,
    -- The function of the kernel that it waited in.
    blocked_function STRING,
    -- How long it was in that state.
    dur DURATION
) as
select s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, i.state, i.io_wait, i.blocked_function, i.dur
from (
    select o.id_0, t.state, t.io_wait, t.blocked_function, sum(o.dur) as dur
    from _interval_intersect!((
        (select id, ts, dur, utid from thread_slice where utid > 0 and dur > 0),
        (select id, ts, dur, utid from thread_state where dur > 0)), (utid)) o
    join thread_state t on t.id = o.id_1
    group by o.id_0, t.state, t.io_wait, t.blocked_function
) i
join thread_slice s on s.id = i.id_0
order by s.id, i.state, i.io_wait, i.blocked_function;
