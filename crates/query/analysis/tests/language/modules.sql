include perfetto module *; select 1
----
1

include perfetto module slices.withcontext
----
error: there is no module slices.withcontext here

include perfetto module slices.with_context;
create perfetto table thread_slice as select 1
----
error: there is a table or view thread_slice already

include perfetto module slices.with_context;
select name, thread_name, tid from thread_slice where name is not null order by ts
----
frame|main|10
draw|main|10
Load|worker|11

select s.name, a.name from slice s left join ancestor_slice(s.id) a
----
frame|NULL
draw|frame
Load|NULL
NULL|NULL

select s.name, count(d.id) from slice s left join descendant_slice(s.id) d where s.name is not null group by s.name order by 1
----
Load|0
draw|0
frame|1

select count(*) from slice s join following_flow(s.id)
----
0

create perfetto function above(id long) returns table(name string) as select s.name from slice s where s.id = $id;
select s.name, a.name from slice s join above(s.parent_id) a
----
draw|frame

select slice_is_ancestor(0, 1), slice_is_ancestor(1, 0), slice_is_ancestor(0, 99)
----
1|0|NULL

include perfetto module slices.self_dur;
select * from slice_self_dur order by id
----
0|40
1|10
2|200
3|-1

include perfetto module slices.stack;
select count(distinct stack_id), sum(parent_stack_id != 0) from slice_with_stack_id where name is not null
----
3|1

include perfetto module slices.hierarchy;
select name from _slice_ancestor_and_self(1) order by depth
----
frame
draw

include perfetto module sched.states;
select sched_state_io_to_human_readable_string('D', 1), sched_state_to_human_readable_string('R+')
----
Uninterruptible Sleep (IO)|Runnable (Preempted)

include perfetto module std.metasql.unparenthesize;
select track_id, depth, count(*) from slice group by metasql_unparenthesize_exprlist!((track_id, depth))
----
0|0|1
0|1|1
1|0|2

create perfetto macro twice(a Expr, b Expr) returns Expr as $a * $b;
select 0 __intrinsic_token_apply_prefix!(twice, (1, 2, 3), (5, 6))
----
0|5|12

create perfetto macro same(a Expr, b Expr) returns Expr as $a = $b;
select count(*) from slice where __intrinsic_token_apply_and!(same, (id, depth), (1, 1))
----
1

select create_function('f(x INT)', 'INT', 'SELECT $x + 1');
select create_view_function('g(x INT)', 'y INT', 'SELECT f($x) AS y');
select y from g(5)
----
6

select import('time.conversion'); select time_to_ms(2000000)
----
2

select hash(1, 'hello', 42), hash('single_arg')
----
4730678220997103486|1309196097616646754

select 256 >> 4, 1 << 3
----
16|8

select name, internal_layout(ts, dur) over (order by ts rows between unbounded preceding and current row) from slice where name is not null
----
frame|0
draw|1
Load|1

include perfetto module viz.threads;
select name, is_kernel_thread from _threads_with_kernel_flag
----
main|0
worker|0
