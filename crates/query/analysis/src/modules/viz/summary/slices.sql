create perfetto table _slice_track_summary as
select track_id as id, count(*) as cnt, min(dur) as min_dur, max(dur) as max_dur, max(depth) as max_depth
from slice group by track_id;
