include perfetto module callstacks.stack_profile;

create perfetto table _linux_perf_raw_callstacks as
select * from _callstacks_for_callsites!((select callsite_id from perf_sample)) order by id;

-- The tree of all stacks of `perf`, with samples.
create perfetto table linux_perf_samples_summary_tree(
    -- The place in the tree.
    id LONG,
    -- The place that called it.
    parent_id LONG,
    -- The function.
    name STRING,
    -- The file that it is in.
    mapping_name STRING,
    -- Its source.
    source_file STRING,
    -- The line there.
    line_number LONG,
    -- Samples in it.
    self_count LONG,
    -- Samples in it and in what it called.
    cumulative_count LONG
) as
select * from _callstacks_with_cumulative!(_linux_perf_raw_callstacks) order by id;
