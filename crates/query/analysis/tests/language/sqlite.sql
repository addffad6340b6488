select 7 / 2, 7 / 0, 7 % 0, 7.0 / 2, -7 / 2, -7 % 3
----
3|NULL|NULL|3.5|-3|-1

select 1 = 1, 2 > 3, null = 1, not 0, 5 and 0, 'a' like 'A', 'a' glob 'A'
----
1|0|NULL|1|0|1|0

select null is null, 1 is 1, 1 is not 1, null is not 1, 1 is null
----
1|1|0|1|0

select iif(1, 'a', 'b'), iif(0, 'a', 'b'), ifnull(null, 3), coalesce(null, null, 4), nullif(1, 1)
----
a|b|3|4|NULL

select min(3, 1, 2), max(3, 1, 2), min(1, null), max('a', 'b')
----
1|3|NULL|b

select printf('%05d %.2f %s %x', 42, 1.005, 'x', 255), format('%d%%', 7)
----
00042 1.00 x ff|7%

select instr('hello', 'l'), substr('hello', 2, 3), substr('hello', -3), length('hé'), hex('AB'), upper('x'), trim('  a ')
----
3|ell|llo|2|4142|X|a

select typeof(1), typeof(1.5), typeof('x'), typeof(null)
----
integer|real|text|null

select cast('12abc' as int), cast(3.9 as int), cast(5 as text), cast('x' as real), cast(1 as real)
----
12|3|5|0.0|1.0

select name, "not a column", "Mixed" from slice where id = 0
----
frame|not a column|Mixed

select track_id, name, max(dur), count(*) from slice group by track_id
----
0|frame|50|2
1|Load|200|2

select name, min(ts) from slice
----
frame|100

select group_concat(name), group_concat(name, '-'), total(dur), sum(dur > 20) from slice
----
frame,draw,Load|frame-draw-Load|259.0|2

select count(*) from slice where dur
----
4

select name from slice order by name
----
NULL
Load
draw
frame

select column1 from (values (1), (2))
----
1
2

select ID, Slice.TS from SLICE where NAME = 'draw'
----
1|110

select ts, lead(ts) over (order by ts) - ts, row_number() over (order by ts), lead(ts, 1, ts) over (order by ts) from slice
----
100|10|1|110
110|10|2|120
120|280|3|400
400|NULL|4|400

with recursive c(x) as (select 1 union all select x + 1 from c where x < 3) select x from c
----
1
2
3

with recursive c(x) as (select 1 union all select x + 1 from c) select x from c limit 2
----
1
2

create perfetto table numbers as with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) select x from c;
select count(*), sum(x), min(x), max(x), (select x from numbers limit 1 offset 9999) from numbers
----
20000|200010000|1|20000|10000

select name, ts, ts from slice where id = 2 union select 'a', 1, 2
----
Load|120|120
a|1|2

select s.name, t.name from slice s join thread_track k on k.id = s.track_id join thread t using (utid)
----
frame|main
draw|main
Load|worker
NULL|worker

create table t(id integer primary key, a text, b int); insert into t(a, b) values ('x', 1), ('y', null); select * from t
----
1|x|1
2|y|NULL

select nam from slice
----
error: there is no column nam

select 1 from nothing
----
error: there is no table or view nothing

update slice set ts = 1
----
error: UPDATE is no statement

select 1 union all select name from slice where id = 0 union all select 'z'
----
1
frame
z

select s.id, a.id from slice s left join slice a on a.parent_id = s.id
----
0|1
1|NULL
2|NULL
3|NULL

select 'x' in (1, 'x'), name in (1, 'frame'), id in ('a', 0), id = 'a', id < 'a', coalesce(name, id) from slice where id in (0, 3)
----
1|1|1|0|1|frame
1|NULL|0|0|1|3

select 'Ab' regexp '^a', regexp('^a', 'Ab', 'i'), regexp_extract('ab12', '([0-9]+)'), regexp_replace_simple('a.b', '[.]', '$0'), unhex('0xf'), 0x10
----
0|1|12|a$0b|15|16

with a(id, x) as (values (1, 10), (2, 20)), b(id, y) as (values (1, 5)), c(id, z) as (values (2, 7)) select *, c.id from a left join b using (id) left join c using (id) order by id
----
1|10|5|NULL|NULL
2|20|NULL|7|2

select * from ((select 1 as a), (select 2 as b))
----
1|2

select ceil(5), floor(-1.5), trunc(2.9), ceil('2.5'), floor('x'), sqrt('4'), sqrt('x'), exp('x')
----
5|-2.0|2.0|3.0|NULL|2.0|NULL|NULL

select count(*) from (select 9007199254740993 as n) where n = 9007199254740992.0 or n in (9007199254740992.0, 0.5)
----
0

select id from slice where id = 1.0 or id in (3.0, 'x')
----
1
3

select id from slice where id < 1.5 and id != 0.0
----
1
