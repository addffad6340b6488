include perfetto module slices.with_context;

create perfetto view _viz_slices_for_ui_table as
select * from thread_or_process_slice
union all
select s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name, cast(null as text), cast(null as int), cast(null as int),
    cast(null as text), cast(null as int), cast(null as int), s.depth, s.parent_id, s.arg_set_id
from slice s join track t on t.id = s.track_id
where s.track_id not in (select id from process_track) and s.track_id not in (select id from thread_track);
