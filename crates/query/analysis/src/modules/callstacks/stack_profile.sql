include perfetto module graphs.hierarchy;
include perfetto module graphs.scan;

-- Functions of frames: those that were inlined into each other have numbers one behind the other, the innermost first.
create perfetto view __frame_functions as
select f.id as frame_id, s.id as symbol_id, s.name, s.source_file, s.line_number, s.inlined,
    s.id is min(s.id) over (partition by f.id) as is_innermost,
    s.id is max(s.id) over (partition by f.id) as is_outermost
from stack_profile_frame f left join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id;

create perfetto table _callstack_spc_raw_forest as
select row_number() over (order by c.id, s.symbol_id) - 1 as id, c.id as callsite_id, s.symbol_id, c.frame_id,
    c.parent_id as caller_id, s.is_innermost as is_leaf, s.is_outermost, s.name, s.source_file, s.line_number, s.inlined
from stack_profile_callsite c join __frame_functions s on s.frame_id = c.frame_id;

-- All stacks of the trace as trees of functions, inlined ones too.
create perfetto table _callstack_spc_forest as
select r.id, p.id as parent_id,
    coalesce(r.name, f.deobfuscated_name, f.name, 'unknown') as name,
    f.mapping as mapping_id, r.source_file, r.line_number, 0 as column_number, r.inlined, r.callsite_id,
    r.is_leaf as is_leaf_function_in_callsite_frame
from _callstack_spc_raw_forest r
join stack_profile_frame f on f.id = r.frame_id
left join (
    -- The outer function of the same frame, or the innermost one of the caller's.
    select i.id as child_id, o.id
    from _callstack_spc_raw_forest i
    join _callstack_spc_raw_forest o on o.callsite_id = i.callsite_id and o.symbol_id = i.symbol_id + 1
    where not i.is_outermost
    union all
    select i.id, o.id
    from _callstack_spc_raw_forest i
    join _callstack_spc_raw_forest o on o.callsite_id = i.caller_id and o.is_leaf
    where i.is_outermost
) p on p.child_id = r.id
order by r.id;

-- The functions of some stacks.
create perfetto macro _callstacks_for_stack_profile_samples(
    -- The stacks: `callsite_id`.
    spc_samples TableOrSubquery)
returns TableOrSubquery as (
    select f.id, f.parent_id, f.callsite_id, f.name, m.name as mapping_name, f.source_file, f.line_number, f.inlined,
        f.is_leaf_function_in_callsite_frame
    from _tree_reachable_ancestors_or_self!(
        _callstack_spc_forest,
        (select f.id from $spc_samples s join _callstack_spc_forest f on f.callsite_id = s.callsite_id
        where f.is_leaf_function_in_callsite_frame)) g
    join _callstack_spc_forest f on f.id = g.id
    join stack_profile_mapping m on m.id = f.mapping_id
);

-- The functions of samples' stacks, with how many samples are in each itself.
create perfetto macro _callstacks_for_callsites(
    -- The samples: `callsite_id`.
    samples TableOrSubquery)
returns TableOrSubquery as (
    select c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
        iif(c.is_leaf_function_in_callsite_frame, ifnull(m.self_count, 0), 0) as self_count
    from _callstacks_for_stack_profile_samples!($samples) c
    left join (select callsite_id, count(*) as self_count from $samples group by callsite_id) m
        on m.callsite_id = c.callsite_id
);

-- The functions of samples' stacks, with the sum of the values of those that are in each itself.
create perfetto macro _callstacks_for_callsites_weighted(
    -- The samples: `callsite_id` and `value`.
    samples TableOrSubquery)
returns TableOrSubquery as (
    select c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
        iif(c.is_leaf_function_in_callsite_frame, ifnull(m.self_value, 0), 0) as self_value
    from _callstacks_for_stack_profile_samples!($samples) c
    left join (select callsite_id, sum(value) as self_value from $samples group by callsite_id) m
        on m.callsite_id = c.callsite_id
);

-- Of a tree of functions the sum of `self_count` of each and of all below it: `id`, `cumulative_count`.
create perfetto macro _callstacks_self_to_cumulative(
    -- The tree: `id`, `parent_id`, `self_count`.
    callstacks TableOrSubquery)
returns TableOrSubquery as (
    select a.ancestor_id as id, sum(c.self_count) as cumulative_count
    from (
        select id, ancestor_id from __operator_slice_ancestors((select id, parent_id from $callstacks))
        union all
        select id, id from $callstacks
    ) a
    join (select id, self_count from $callstacks) c on c.id = a.id
    group by a.ancestor_id
);

-- That tree with both: its columns and `cumulative_count`.
create perfetto macro _callstacks_with_cumulative(
    -- The tree, as `_callstacks_for_callsites` makes it.
    callstacks TableOrSubquery)
returns TableOrSubquery as (
    select r.id, r.parent_id, r.name, r.mapping_name, r.source_file, r.line_number, r.self_count, a.cumulative_count
    from $callstacks r
    join _callstacks_self_to_cumulative!((select id, parent_id, self_count from $callstacks)) a on a.id = r.id
    order by r.id
);
