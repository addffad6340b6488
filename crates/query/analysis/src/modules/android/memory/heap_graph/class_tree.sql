-- The objects of Java heaps as a tree of classes: each object lies where the shortest way from a root leads, and objects with the same classes
-- on the way to them are one row.
include perfetto module graphs.search;

-- The object through which each one is reached. Roots come by the names of their classes.
create perfetto table _heap_graph_object_min_depth_tree as
select node_id as id, parent_node_id as parent_id
from graph_reachable_bfs!(
    (
        select r.owner_id as source_node_id, r.owned_id as dest_node_id
        from heap_graph_reference r
        join heap_graph_object o on o.id = r.owner_id
        join heap_graph_class c on c.id = o.type_id
        where r.owned_id is not null
            -- What these refer to they do not keep.
            and not (ifnull(r.field_name, '') = 'java.lang.ref.Reference.referent'
                and c.kind in ('KIND_FINALIZER_REFERENCE', 'KIND_PHANTOM_REFERENCE', 'KIND_WEAK_REFERENCE'))
        order by r.owned_id
    ),
    (
        select o.id as node_id
        from heap_graph_object o join heap_graph_class c on o.type_id = c.id
        where o.root_type is not null
        order by c.name, o.id
    )
)
order by id;

-- Of each object a number that all have whose ways have the same classes, and that of where it hangs. Objects below one of their own class are
-- one with it.
create perfetto table _heap_graph_path_hashes as
with recursive
objects as (
    select t.id, t.parent_id, o.upid, o.graph_sample_ts, ifnull(o.root_type, '') as root_type,
        ifnull(o.heap_type, '') as heap_type, coalesce(c.deobfuscated_name, c.name, '') as name
    from _heap_graph_object_min_depth_tree t
    join heap_graph_object o on o.id = t.id
    join heap_graph_class c on c.id = o.type_id
),
ways(id, name, path_hash, parent_path_hash) as (
    select id, name, hash(upid, graph_sample_ts, name, root_type, heap_type), 0
    from objects where parent_id is null
    union all
    select o.id, o.name,
        iif(o.name = w.name, w.path_hash, hash(w.path_hash, o.name, o.heap_type)),
        iif(o.name = w.name, w.parent_path_hash, w.path_hash)
    from ways w join objects o on o.parent_id = w.id
)
select id, path_hash, parent_path_hash, name from ways order by id;

-- The tree.
create perfetto table _heap_graph_class_tree as
with
classes as (
    select h.path_hash, min(h.parent_path_hash) as parent_path_hash, min(h.id) as first, min(h.name) as name,
        min(o.graph_sample_ts) as graph_sample_ts, min(o.upid) as upid, min(o.root_type) as root_type,
        min(o.heap_type) as heap_type, count(*) as self_count, sum(iif(o.self_size > 0, o.self_size, 0)) as self_size,
        sum(o.native_size > 0) as native_count, sum(o.native_size) as native_size
    from _heap_graph_path_hashes h join heap_graph_object o on o.id = h.id
    group by h.path_hash
),
-- Memory beside the heap that its objects hold.
beside as (
    select hash(path_hash, 'native', '') as own_hash, path_hash as above, graph_sample_ts, upid, '[native] ' || name as name,
        root_type, 'HEAP_TYPE_NATIVE' as heap_type, native_count, native_size, first
    from classes where native_size > 0
),
nodes as (
    select path_hash as own_hash, parent_path_hash as above, graph_sample_ts, upid, name, root_type, heap_type, self_count,
        self_size, first
    from classes
    union all
    select own_hash, above, graph_sample_ts, upid, name, root_type, heap_type, native_count, native_size, first
    from beside
),
numbered as (
    select *, row_number() over (order by first, own_hash) - 1 as id from nodes
)
select n.id, p.id as parent_id, n.graph_sample_ts, n.upid, n.name, n.root_type, n.heap_type, n.self_count, n.self_size
from numbered n left join numbered p on p.own_hash = n.above
order by n.id;
