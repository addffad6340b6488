-- A value as an integer.
create perfetto macro cast_int(value Expr) returns Expr as cast($value as int);

-- A value as a double.
create perfetto macro cast_double(value Expr) returns Expr as cast($value as double);

-- A value as a text.
create perfetto macro cast_string(value Expr) returns Expr as cast($value as text);

create perfetto macro _as_query(tab TableOrSubquery) returns Expr as (select * from $tab);

create perfetto view __slice_above as
select a.id as below, a.ancestor_id as above from __operator_slice_ancestors((select id, parent_id from slice)) a;

create perfetto view __slice_above_or_self as
select id as below, id as above from slice union all select below, above from __slice_above;

create perfetto macro _reach(edges TableOrSubquery) returns TableOrSubquery as (
    select root_node_id as begin, node_id as reached
    from __operator_graph_weight_bounded_dfs(
        (select source_node_id, dest_node_id, 0 as edge_weight from $edges),
        (select distinct source_node_id as root_node_id, 0 as root_target_weight from $edges),
        (select 1 as is_floor))
);

-- Flows that lead on from a slice, or from one below it, and so on.
create perfetto table __flow_after as
select distinct r.begin, f.id as flow_id
from _reach!((
    select a.above as source_node_id, f.slice_in as dest_node_id
    from flow f join __slice_above_or_self a on a.below = f.slice_out)) r
join __slice_above_or_self a on a.above = r.reached
join flow f on f.slice_out = a.below;

-- Flows that lead to a slice, or to one above it, and so on.
create perfetto table __flow_before as
select distinct r.begin, f.id as flow_id
from _reach!((
    select a.below as source_node_id, f.slice_out as dest_node_id
    from flow f join __slice_above_or_self a on a.above = f.slice_in)) r
join __slice_above_or_self a on a.below = r.reached
join flow f on f.slice_in = a.above;

-- Flows that lead to a slice or away from it, whatever lies above or below.
create perfetto table __flow_direct as
select r.begin, f.id as flow_id
from _reach!((select slice_out as source_node_id, slice_in as dest_node_id from flow)) r
join flow f on f.slice_out = r.reached
union
select r.begin, f.id
from _reach!((select slice_in as source_node_id, slice_out as dest_node_id from flow)) r
join flow f on f.slice_in = r.reached;

-- The slices that lie above a slice.
create perfetto function ancestor_slice(
    -- The slice.
    slice LONG)
returns table(id LONG) as
select s.* from __slice_above a join slice s on s.id = a.above where a.below = $slice;

-- The slices that lie below a slice.
create perfetto function descendant_slice(
    -- The slice.
    slice LONG)
returns table(id LONG) as
select s.* from __slice_above a join slice s on s.id = a.below where a.above = $slice;

-- Flows that begin at a slice, and those that begin where these end.
create perfetto function following_flow(
    -- The slice.
    slice LONG)
returns table(id LONG) as
select f.* from __flow_after r join flow f on f.id = r.flow_id where r.begin = $slice;

-- Flows that end at a slice, and those that end where these begin.
create perfetto function preceding_flow(
    -- The slice.
    slice LONG)
returns table(id LONG) as
select f.* from __flow_before r join flow f on f.id = r.flow_id where r.begin = $slice;

-- Flows that lead to a slice or away from it.
create perfetto function directly_connected_flow(
    -- The slice.
    slice LONG)
returns table(id LONG) as
select f.* from __flow_direct r join flow f on f.id = r.flow_id where r.begin = $slice;

-- Where slices of several tracks are drawn in one picture: `layout_depth` is the line.
create perfetto function experimental_slice_layout(
    -- Numbers of tracks, with commas between.
    filter_track_ids STRING)
returns table(id LONG, layout_depth LONG) as
select * from __operator_slice_layout((select $filter_track_ids as filter_track_ids),
    (select id, track_id, ts, dur, depth, parent_id from slice));
