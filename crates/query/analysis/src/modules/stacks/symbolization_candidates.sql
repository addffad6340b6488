include perfetto module stacks.cpu_profiling;

-- What Breakpad calls a build of Chrome's libraries: its build id in another order of bytes; NULL of others.
create perfetto function _to_breakpad_module(
    -- The file.
    mapping STRING,
    -- Its build id.
    build_id STRING)
-- The name.
returns STRING as
select iif(
    length($build_id) >= 40 and (
        $mapping glob '*libmonochrome_64.so' or $mapping glob '*libmonochrome.so' or $mapping glob '*libchrome.so'
        or $mapping glob '*libwebviewchromium.so' or $mapping glob '*libchromium_android_linker.so'),
    substr($build_id, 7, 2) || substr($build_id, 5, 2) || substr($build_id, 3, 2) || substr($build_id, 1, 2)
        || substr($build_id, 11, 2) || substr($build_id, 9, 2) || substr($build_id, 15, 2) || substr($build_id, 13, 2)
        || substr($build_id, 17, 16) || '0',
    null);

-- Places in programs that have no names yet.
create perfetto table _stacks_symbolization_candidates(
    -- The process.
    upid JOINID(process.id),
    -- The file.
    module STRING,
    -- Its build id.
    build_id STRING,
    -- The place in it.
    rel_pc LONG,
    -- What Breakpad calls the build.
    breakpad_module_id STRING
) as
select distinct s.upid, m.name as module, m.build_id, f.rel_pc, _to_breakpad_module(m.name, m.build_id) as breakpad_module_id
from (
    select t.upid, c.callsite_id from cpu_profiling_samples c join thread t on t.utid = c.utid
    union
    select upid, callsite_id from heap_profile_allocation
) s
join (
    select id, ancestor_id from __operator_slice_ancestors((select id, parent_id from stack_profile_callsite))
    union all
    select id, id from stack_profile_callsite
) a on a.id = s.callsite_id
join stack_profile_callsite c on c.id = a.ancestor_id
join stack_profile_frame f on f.id = c.frame_id
join stack_profile_mapping m on m.id = f.mapping
where f.symbol_set_id is null and m.build_id != '';
