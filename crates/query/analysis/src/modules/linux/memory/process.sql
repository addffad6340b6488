include perfetto module linux.memory.general;

create perfetto view _anon_rss as
select ts, dur, upid, value as anon_rss_val from _all_counters_per_process where name = 'mem.rss.anon';

create perfetto view _file_rss as
select ts, dur, upid, value as file_rss_val from _all_counters_per_process where name = 'mem.rss.file';

create perfetto view _shmem_rss as
select ts, dur, upid, value as shmem_rss_val from _all_counters_per_process where name = 'mem.rss.shmem';

create perfetto view _swap as
select ts, dur, upid, value as swap_val from _all_counters_per_process where name = 'mem.swap';

create virtual table _anon_swap_sj using span_outer_join(_anon_rss partitioned upid, _swap partitioned upid);

create virtual table _anon_swap_file_sj using span_outer_join(_anon_swap_sj partitioned upid, _file_rss partitioned upid);

create virtual table _rss_swap_sj using span_outer_join(_anon_swap_file_sj partitioned upid, _shmem_rss partitioned upid);

create perfetto table _memory_rss_and_swap_per_process_table as
select ts, dur, upid, cast_int!(anon_rss_val) as anon_rss, cast_int!(file_rss_val) as file_rss,
    cast_int!(shmem_rss_val) as shmem_rss, cast_int!(swap_val) as swap
from _rss_swap_sj;

-- Memory of each process.
create perfetto view memory_rss_and_swap_per_process(
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
    -- Bytes of its own.
    anon_rss LONG,
    -- Bytes of files.
    file_rss LONG,
    -- Bytes shared.
    shmem_rss LONG,
    -- All of these.
    rss LONG,
    -- Bytes swapped out.
    swap LONG,
    -- Its own, and those swapped out.
    anon_rss_and_swap LONG,
    -- All, and those swapped out.
    rss_and_swap LONG
) as
select m.ts, m.dur, m.upid, p.pid, p.name as process_name, anon_rss, file_rss, shmem_rss,
    anon_rss + file_rss + ifnull(shmem_rss, 0) as rss, swap,
    anon_rss + ifnull(swap, 0) as anon_rss_and_swap,
    anon_rss + file_rss + ifnull(shmem_rss, 0) + ifnull(swap, 0) as rss_and_swap
from _memory_rss_and_swap_per_process_table m join process p on p.upid = m.upid;
