-- Values of counters in 120 equal parts of the trace's time.
select track_id, (ts - trace_start()) * 120 / max(trace_end() - trace_start(), 1) as bin, avg(value) as value
from counter
where track_id in (TRACKS)
group by track_id, bin
order by track_id, bin
