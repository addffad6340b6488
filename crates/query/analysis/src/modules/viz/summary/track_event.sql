include perfetto module viz.track_event_callstacks;

create perfetto table _track_event_tracks_unordered as
select t.id, t.name, t.parent_id, extract_arg(p.source_arg_set_id, 'child_ordering') as parent_ordering,
    ifnull(extract_arg(t.source_arg_set_id, 'sibling_order_rank'), 0) as rank,
    extract_arg(t.source_arg_set_id, 'description') as description
from track t
left join track p on p.id = t.parent_id and p.type glob '*_track_event'
where t.type glob '*_track_event';

create perfetto table _min_ts_per_track as
select e.track_id as id, min(e.ts) as min_ts
from (
    select track_id, ts from counter union all select track_id, ts from slice union all select track_id, ts from state
) e
where e.track_id in (select id from _track_event_tracks_unordered)
group by e.track_id;

create perfetto table _track_event_has_children as
select distinct parent_id as id from track where type glob '*_track_event' and parent_id is not null;

-- Tracks of events in the order in which they are shown, those of a group together.
create perfetto table _track_event_tracks_ordered_groups as
select
    min(extract_arg(t.dimension_arg_set_id, 'upid')) as upid,
    min(extract_arg(t.dimension_arg_set_id, 'utid')) as utid,
    min(t.parent_id) as parent_id,
    max(t.type glob '*counter*') as is_counter,
    max(t.type glob '*state*') as is_state,
    min(t.name) as name,
    min(o.description) as description,
    min(c.unit) as unit,
    min(extract_arg(t.source_arg_set_id, 'builtin_counter_type')) as builtin_counter_type,
    min(extract_arg(t.source_arg_set_id, 'y_axis_share_key')) as y_axis_share_key,
    max(m.id is not null) as has_data,
    max(h.id is not null) as has_children,
    max(s.track_id is not null) as has_callstacks,
    min(o.id) as min_track_id,
    group_concat(o.id) as track_ids,
    min(o.order_id) as order_id
from (
    select u.id, u.description,
        row_number() over (
            partition by u.parent_id
            order by
                iif(u.parent_ordering is null or u.parent_ordering = 'lexicographic', u.name, null),
                iif(u.parent_ordering = 'explicit', u.rank, null),
                iif(u.parent_ordering = 'chronological', m.min_ts, null),
                u.id) as order_id
    from _track_event_tracks_unordered u left join _min_ts_per_track m on m.id = u.id
) o
join track t on t.id = o.id
left join counter_track c on c.id = o.id
left join _track_event_has_children h on h.id = o.id
left join _min_ts_per_track m on m.id = o.id
left join _track_event_tracks_with_callstacks s on s.track_id = o.id
group by t.track_group_id, ifnull(t.track_group_id, t.id)
order by 3, 16;
