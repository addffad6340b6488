include perfetto module intervals.intersect;
with a(id, ts, dur, cpu) as (values (0, 0, 10, 1), (1, 10, 0, 1), (2, 4, 10, 2)),
    b(id, ts, dur, cpu) as (values (7, 5, 10, 1), (8, 6, 2, 2), (9, 6, 2, null))
select ts, dur, id_0, id_1, cpu from _interval_intersect!((a, b), (cpu)) order by ts
----
5|5|0|7|1
6|2|2|8|2
10|0|1|7|1

include perfetto module intervals.intersect;
with a(id, ts, dur) as (values (0, 0, 10)), b(id, ts, dur) as (values (1, 2, 20)), c(id, ts, dur) as (values (2, 1, 5))
select * from _interval_intersect!((a, b, (select * from c)), ())
----
2|4|0|1|2

include perfetto module intervals.intersect;
select id, ts, dur from _interval_intersect_single!(105, 10, (select * from slice where dur >= 0))
----
0|105|10
1|110|5

include perfetto module intervals.intersect;
select * from _interval_intersect!(((select 1 as id, 2 as ts, -1 as dur), slice), ())
----
error: no negative duration

include perfetto module intervals.intersect;
select ts, dur, group_id, id, interval_ends_at_ts from interval_self_intersect!((select id, ts, dur from slice where id < 2))
order by ts, id
----
100|10|1|0|0
110|10|2|0|0
110|10|2|1|0
120|30|3|0|0
120|30|3|1|1
150|0|4|0|1

include perfetto module intervals.overlap;
select * from intervals_overlap_count_by_group!((select *, name = 'Load' as g from slice where name is not null), ts, dur, g)
----
100|1|0
110|2|0
120|1|0
120|1|1
150|0|0
320|0|1

include perfetto module intervals.overlap;
select * from interval_merge_overlapping!((select column1 as ts, column2 as dur from (values (1, 4), (2, 4), (10, 3), (14, 2))), 1)
----
1|5
10|6

include perfetto module slices.flat_slices;
include perfetto module intervals.overlap;
select root_id, id, ts, dur from _intervals_flatten!(_intervals_merge_root_and_children!(
    (select id, ts, dur from slice where parent_id is null), (select parent_id as root_id, * from slice where parent_id = 0)))
----
0|0|100|10
0|1|110|10
0|0|120|30
2|2|120|200

include perfetto module intervals.create_intervals;
with starts(ts) as (values (30), (10)), ends(ts) as (values (10), (40))
select * from _interval_create!(starts, ends)
----
10|30
30|10

include perfetto module intervals.fill_gaps;
select ts, dur, g, v from _intervals_fill_gaps!((g), (v), (select 150 as ts, 50 as dur, 'x' as g, 7 as v))
----
100|50|x|NULL
150|50|x|7
200|200|x|NULL

include perfetto module counters.intervals;
with c(id, ts, track_id, value) as (values (0, 100, 1, 5.0), (1, 120, 1, 5.0), (2, 140, 1, 5.0), (3, 160, 1, 7.0), (4, 130, 2, 1.0))
select id, ts, dur, track_id, value, next_value, delta_value from counter_leading_intervals!(c)
----
0|100|20|1|5.0|5.0|NULL
1|120|20|1|5.0|5.0|0.0
2|140|20|1|5.0|7.0|0.0
3|160|240|1|7.0|NULL|2.0
4|130|270|2|1.0|NULL|NULL
