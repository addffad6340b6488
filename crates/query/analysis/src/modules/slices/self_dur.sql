-- How long each slice is without the slices right below it.
create perfetto view slice_self_dur(
    -- The slice.
    id ID(slice.id),
    -- How long it is without those.
    self_dur DURATION
) as
select s.id, s.dur - ifnull(c.dur, 0) as self_dur
from slice s
left join (select parent_id, sum(dur) as dur from slice where parent_id is not null group by parent_id) c
    on c.parent_id = s.id;
