-- Whether a track of a counter is told from others by nothing but its name.
create perfetto function _counter_track_is_only_name_dimension(
    -- The track.
    track_id LONG)
returns BOOL as
select count(*) = 0
from counter_track t join args a on t.dimension_arg_set_id = a.arg_set_id
where t.id = $track_id and a.key != 'name';
