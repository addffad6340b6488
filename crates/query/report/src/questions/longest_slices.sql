-- The slices that took the longest.
select ifnull(s.name, '(no name)') as name, s.ts - trace_start() as moment, s.dur, k.owner, k.process
from slice s left join _report_track k on k.track_id = s.track_id
where s.dur > 0
order by s.dur desc, s.ts
limit 50
