-- Values of counters as intervals: `id`, `ts`, `dur`, `track_id`, `value`, `next_value` and `delta_value`. A value stays until the next one of
-- its track, the last one until the end of the trace. Of equal values behind each other there are the first one, one of all between, and the
-- last one if another value comes.
create perfetto macro counter_leading_intervals(
    -- The values: `id`, `ts`, `track_id`, `value`.
    counter_table TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_counter_intervals(
        (select id, ts, track_id, value from $counter_table), (select trace_end() as ts))
);
