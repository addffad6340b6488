include perfetto module intervals.intersect;
include perfetto module linux.cpu.utilization.slice;
include perfetto module slices.with_context;

-- How long each slice's thread ran on a CPU in it.
create perfetto table thread_slice_cpu_time(
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
    -- How long it ran.
    cpu_time LONG
) as
select s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, i.cpu_time
from (
    select id_0, sum(dur) as cpu_time
    from _interval_intersect!((
        (select id, ts, dur, utid from thread_slice where utid > 0 and dur > 0),
        (select id, ts, dur, utid from sched where dur > 0)), (utid))
    group by id_0
) i
join thread_slice s on s.id = i.id_0
order by s.id;

-- How many cycles of a CPU each slice took.
create perfetto view thread_slice_cpu_cycles(
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
    -- Thousandths of cycles; NULL if no frequency is known.
    millicycles LONG,
    -- Millions of cycles; NULL if no frequency is known.
    megacycles LONG
) as
select id, name, utid, thread_name, upid, process_name, millicycles, megacycles from cpu_cycles_per_thread_slice;
