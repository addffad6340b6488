select extract_arg(arg_set_id, 'count') + 1, extract_arg(arg_set_id, 'what'), extract_arg(arg_set_id, 'none') from slice where id < 2
----
8|a text|NULL
NULL|NULL|NULL

select key, display_value from args
----
count|7
what|a text

select trace_start(), trace_end(), trace_dur(), start_ts from trace_bounds
----
100|400|300|100

create perfetto table t as select id, dur as d from slice where dur > 0; select sum(d) from t
----
260

create perfetto table t(id long, d long) as select id, dur as d from slice; select count(*) from t
----
4

create perfetto table t(id long, e long) as select id, dur as d from slice
----
error: declares the column e

create perfetto view v as select name from slice; create perfetto view w as select name from v where name is not null; select count(*) from w
----
3

create perfetto table t as select 1; create perfetto table t as select 2
----
error: already

create perfetto table t as select 1 as x; create or replace perfetto table t as select 2 as x; select x from t
----
2

create perfetto function f(x long, y long) returns long as select $x * 2 + $y; select f(f(1, 2), 3)
----
11

create perfetto function f(n string) returns long as select max(dur) from slice where name = $n; select f('draw'), f('none')
----
10|NULL

create perfetto function f(t long) returns table(n string, d long) as select name as n, dur as d from slice where track_id = $t; select * from f(0)
----
frame|50
draw|10

create perfetto function f(x long) returns long as select f($x); select f(1)
----
error: calls itself

create perfetto macro m(col ColumnName, t TableOrSubquery) returns TableOrSubquery as (select max($col) as m from $t); select m from m!(dur, slice)
----
200

select nothing!(1)
----
error: there is no macro nothing!

include perfetto module no.such.module
----
error: there is no module no.such.module

create perfetto index i on slice(ts); select count(*) from slices
----
4

select name from __intrinsic_slice where slice.name glob 'd*'
----
error: there is no column

select name from __intrinsic_slice where name glob '[dL]*a[wd]'
----
draw
Load

select name from descendant_slice(0)
----
draw

select id, name from ancestor_slice(1); 
----
0|frame

select slice_is_ancestor(0, 1), slice_is_ancestor(1, 0)
----
1|0

select __intrinsic_arg_set_to_json(arg_set_id), __intrinsic_arg_set_to_json(null) from slice where id < 1
----
{"count":7,"what":"a text"}|NULL

select extract_metadata('trace_uuid'), extract_metadata_for_machine(0, 'none'), extract_metadata_for_trace(7, 'trace_uuid')
----
NULL|NULL|NULL

select to_realtime(1), to_monotonic(1), abs_time_str(1)
----
NULL|NULL|NULL

select count(*) from gpu_track union all select count(*) from _trace_import_logs union all select count(*) from __intrinsic_trace_diagnostics
----
0
0
0

include perfetto module android.memory.*; select count(*) from _android_heap_profile_intervals union all select count(*) from android_heap_graph_java_oome_details union all select count(*) from _heap_graph_class_tree
----
0
0
0

select id, layout_depth from experimental_slice_layout((select group_concat(track_id) from slice))
----
0|0
1|1
2|2
3|0

select layout_depth from experimental_slice_layout('1')
----
0
0

select to_ftrace(0), to_ftrace(null)
----
NULL|NULL

include perfetto module android.process_metadata;
select count(*) from android_process_metadata
----
0

select to_timecode(3599123456789), to_timecode(360000000000000), to_timecode(null)
----
00:59:59 123 456 789|100:00:00 000 000 000|NULL
