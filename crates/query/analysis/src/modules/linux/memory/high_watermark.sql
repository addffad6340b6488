include perfetto module counters.intervals;
include perfetto module linux.memory.process;

-- The most memory that each process had so far.
create perfetto view memory_rss_high_watermark_per_process(
    -- From when.
    ts TIMESTAMP,
    -- How long.
    dur DURATION,
    -- The process.
    upid JOINID(process.id),
    -- The process's number in the system.
    pid LONG,
    -- What it is called.
    process_name STRING,
    -- Bytes.
    rss_high_watermark LONG
) as
select v.ts, v.dur, v.track_id as upid, p.pid, p.name as process_name, cast_int!(v.value) as rss_high_watermark
from counter_leading_intervals!((
    select 0 as id, ts, upid as track_id,
        max(ifnull(anon_rss, 0) + ifnull(file_rss, 0) + ifnull(shmem_rss, 0)) over (partition by upid order by ts) as value
    from _memory_rss_and_swap_per_process_table)) v
join process p on p.upid = v.track_id;
