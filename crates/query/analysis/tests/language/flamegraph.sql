create virtual table f using __intrinsic_flamegraph((
    select 1 as id, null as parent_id, 'main' as name, 1 as value, 'x' as lib
    union all select 2, 1, 'a', 2, 'y' union all select 3, 1, 'a', 3, 'z' union all select 4, 2, 'b', 4, 'y'));
select name, depth, self_value, cumulative_value, parent_cumulative_value, x_start, x_end, lib
from f(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN', 'aggregate', 'ONE_OR_SUMMARY', 'lib', 'lib'))
----
main|1|1|10|NULL|0|10|x
a|2|5|9|10|0|9|y and 2 others
b|3|4|4|9|0|4|y

create virtual table f using __intrinsic_flamegraph((
    select 1 as id, null as parent_id, 'main' as name, 1.5 as value, 'x' as lib
    union all select 2, 1, 'a', 2.0, 'y' union all select 3, 2, 'skip', 3.0, 'y' union all select 4, 1, 'gone', 9.0, 'y'));
select name, depth, self_value, cumulative_value, lib from f(__intrinsic_flamegraph_config('value', 'value', 'view', 'BOTTOM_UP',
    'filter', 'HIDE_FRAME', '^skip$', '', 'filter', 'HIDE_STACK', 'GONE', 'i', 'aggregate', 'CONCAT_WITH_COMMA', 'lib', 'lib'))
----
a|-1|5.0|5.0|y,y
main|-1|1.5|1.5|x
main|-2|0.0|5.0|x

create virtual table f using __intrinsic_flamegraph((
    select 2 as id, 1 as parent_id, 'b' as name, 2 as value union all select 1, null, 'a', 1 union all select 3, 2, 'c', 4));
select name, depth, cumulative_value from f(__intrinsic_flamegraph_config(
    'value', 'value', 'view', 'PIVOT', 'view_pattern', '^b$', ''))
----
b|1|6
b|-1|6
c|2|4
a|-2|6

create virtual table f using __intrinsic_flamegraph((select 1 as id, null as parent_id, 'a' as name, 2 as value));
select depth, cumulative_value from f(__intrinsic_flamegraph_config('value', 'value')) where __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT')
----
0|2.0

create virtual table f using __intrinsic_flamegraph((select 1 as id, null as parent_id, 'a' as name, -2 as value));
select * from f(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN'))
----
error: must be non-negative
