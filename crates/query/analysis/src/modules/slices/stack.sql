include perfetto module slices.hierarchy;

-- Slices with a number of the stack that each is the lowest of: the same for all stacks of the same names and categories.
create perfetto view slice_with_stack_id(
    -- The slice.
    id ID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its track.
    track_id JOINID(track.id),
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG,
    -- Instructions that the thread had done when it began.
    thread_instruction_count LONG,
    -- Instructions that the thread did in it.
    thread_instruction_delta LONG,
    -- The number of its stack.
    stack_id LONG,
    -- That of the slice right above it, or 0.
    parent_stack_id LONG
) as
select s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur,
    s.thread_instruction_count, s.thread_instruction_delta, h.stack_id, ifnull(p.stack_id, 0) as parent_stack_id
from slice s
join __slice_stacks h on h.id = s.id
left join __slice_stacks p on p.id = s.parent_id;

create perfetto table __slice_stacks as
select a.below as id,
    hash(group_concat(hash(ifnull(s.category, '') || '|' || s.name), '|' order by a.below = a.above desc, s.depth)) as stack_id
from __slice_above_or_self a join slice s on s.id = a.above
group by a.below;

-- Slices of a stack, and those that lie above them.
create perfetto function ancestor_slice_by_stack(
    -- The number of the stack.
    stack_hash LONG)
returns table(
    -- The slice.
    id JOINID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its track.
    track_id JOINID(track.id),
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG)
as
select s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from slice s
where s.id in (
    select a.above from __slice_above_or_self a join __slice_stacks h on h.id = a.below where h.stack_id = $stack_hash)
order by s.ts;

-- Slices of a stack, and those that lie below them.
create perfetto function descendant_slice_by_stack(
    -- The number of the stack.
    stack_hash LONG)
returns table(
    -- The slice.
    id JOINID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its track.
    track_id JOINID(track.id),
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG)
as
select s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from slice s
where s.id in (
    select a.below from __slice_above_or_self a join __slice_stacks h on h.id = a.above where h.stack_id = $stack_hash)
order by s.ts;
