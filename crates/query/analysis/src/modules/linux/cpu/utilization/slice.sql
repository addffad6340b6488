include perfetto module linux.cpu.utilization.general;
include perfetto module intervals.intersect;
include perfetto module slices.with_context;

create perfetto macro _cycles_of_slices(slices TableOrSubquery) returns TableOrSubquery as (
    select i.id_0 as slice_id, sum(i.dur) as dur,
        cast_int!(sum(i.dur * f.freq / 1000)) as millicycles, cast_int!(sum(i.dur * f.freq / 1000) / 1e9) as megacycles
    from _interval_intersect!((
        (select id, ts, dur, utid from $slices), (select id, ts, dur, utid from _cpu_freq_per_thread)), (utid)) i
    join _cpu_freq_per_thread f on f.id = i.id_1
    where f.freq is not null
    group by i.id_0
);

-- Cycles that each slice took; NULL if the frequency was not known all the time that it ran.
create perfetto table cpu_cycles_per_thread_slice(
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
    -- Thousandths of cycles.
    millicycles LONG,
    -- Millions of cycles.
    megacycles LONG
) as
select s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
from thread_slice s
left join _cycles_of_slices!((select * from thread_slice where dur > 0 and utid > 0)) c on c.slice_id = s.id and c.dur = s.dur;

-- Cycles that each slice took within an interval.
create perfetto function cpu_cycles_per_thread_slice_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION)
returns table(
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
    -- Thousandths of cycles.
    millicycles LONG,
    -- Millions of cycles.
    megacycles LONG)
as
with cut as (
    select s.id, i.ts, i.dur, s.name, s.utid, s.thread_name, s.upid, s.process_name
    from _interval_intersect_single!($ts, $dur, (select id, ts, dur from thread_slice where dur > 0 and utid > 0)) i
    join thread_slice s on s.id = i.id
)
select s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
from cut s
left join _cycles_of_slices!(cut) c on c.slice_id = s.id and c.dur = s.dur;
