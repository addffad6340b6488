include perfetto module linux.cpu.frequency;
include perfetto module intervals.intersect;

-- Periods of one length that the trace lies in, beginning at whole multiples of it.
create perfetto function _partitions(
    -- The length.
    size LONG)
returns table(
    -- Where it begins.
    ts TIMESTAMP,
    -- Where it ends.
    ts_end LONG)
as
with recursive periods(ts) as (
    select trace_start() / $size * $size
    union all
    select ts + $size from periods where ts + $size <= trace_end()
)
select ts, ts + $size as ts_end from periods;

-- How much of each period CPUs were in use, of one CPU and of all.
create perfetto macro _cpu_avg_utilization_per_period(
    -- The length of a period.
    interval Expr,
    -- What ran: `ts`, `ts_end`.
    sched_table TableOrSubquery)
returns TableOrSubquery as (
    select i.part as ts,
        sum(i.dur) / (cast_double!($interval) * (select max(cpu) + 1 from sched)) as utilization,
        sum(i.dur) / cast_double!($interval) as unnormalized_utilization
    from (
        select id_1 as part, dur
        from _interval_intersect!((
            (select 0 as id, ts, ts_end - ts as dur from $sched_table where ts_end >= ts),
            (select ts as id, ts, ts_end - ts as dur from _partitions($interval))), ())
    ) i
    group by i.part
);

create perfetto view _cpu_freq_for_metrics as
select id, ts, dur, cpu, ucpu, freq from cpu_frequency_counters where freq is not null;

create perfetto view _sched_without_id as
select s.ts, s.dur, s.utid, s.ucpu
from sched s join thread t on t.utid = s.utid
where s.dur != -1 and not ifnull(t.is_idle, 0);

create virtual table _cpu_freq_per_thread_span_join using span_left_join(
    _sched_without_id partitioned ucpu, _cpu_freq_for_metrics partitioned ucpu);

-- What ran on CPUs, and how fast these ran then.
create perfetto table _cpu_freq_per_thread as
select row_number() over () - 1 as id, ts, dur, ucpu, cpu, utid, freq, id as counter_id from _cpu_freq_per_thread_span_join;

-- Cycles of pieces of `_cpu_freq_per_thread`, as columns.
create perfetto macro _cycles_of_pieces(
    -- How long a piece is.
    dur Expr)
returns _ProjectionFragment as
cast_int!(sum($dur * freq / 1000)) as millicycles,
cast_int!(sum($dur * freq / 1000) / 1e9) as megacycles,
sum($dur) as runtime;

-- Frequencies of such pieces, as columns.
create perfetto macro _freqs_of_pieces(
    -- How long a piece is.
    dur Expr)
returns _ProjectionFragment as
min(freq) as min_freq,
max(freq) as max_freq,
cast_int!(sum($dur * freq / 1000) / (sum(iif(freq is not null, $dur, null)) / 1000)) as avg_freq;

-- Sums of `cpu_cycles_per_thread_per_cpu`, as columns.
create perfetto macro _sums_of_cycles(
    -- What that table is called.
    cycles ColumnName)
returns _ProjectionFragment as
sum($cycles.millicycles) as millicycles,
cast_int!(sum($cycles.millicycles) / 1e9) as megacycles,
sum($cycles.runtime) as runtime,
min($cycles.min_freq) as min_freq,
max($cycles.max_freq) as max_freq,
cast_int!(sum($cycles.millicycles) / (sum($cycles.runtime) / 1000)) as avg_freq;

-- How long pieces with a time each last while the machine does not sleep, as a column.
create perfetto macro _awake_runtime(
    -- Pieces: `ts` and `dur`.
    pieces ColumnName)
returns _ProjectionFragment as
sum(to_monotonic($pieces.ts + $pieces.dur) - to_monotonic($pieces.ts)) as awake_runtime;
