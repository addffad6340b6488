create table a(ts int, dur int, part int, x int); insert into a values (0, 10, 1, 1), (20, 10, 1, 2), (0, 5, 2, 3);
create table b(ts int, dur int, part int, y text); insert into b values (5, 20, 1, 'p'), (0, 9, 3, 'q');
create virtual table s using span_join(a partitioned part, b partitioned part);
select * from s
----
5|5|1|1|p
20|5|1|2|p

create table a(ts int, dur int, x int); insert into a values (100, 400, 1);
create table b(ts int, dur int, y int); insert into b values (50, 200, 7), (300, 100, 8);
create virtual table s using span_left_join(a, b);
select ts, dur, x, y from s
----
100|150|1|7
250|50|1|NULL
300|100|1|8
400|100|1|NULL

create table a(ts int, dur int, x int);
create table b(ts int, y int); insert into b values (5, 7);
create virtual table s using span_outer_join(a, b);
select * from s
----
5|0|NULL|7

create table a(ts int, dur int, x int); create table b(ts int, dur int, x int);
create virtual table s using span_join(a, b)
----
error: both tables have a column x
