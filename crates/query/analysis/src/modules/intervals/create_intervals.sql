-- Intervals made of times at which they begin, each until the next time at which one ends: `ts` and `dur`.
create perfetto macro _interval_create(
    -- When they begin, a column `ts`.
    starts_table TableOrSubquery,
    -- When they end, a column `ts`.
    ends_table TableOrSubquery)
returns TableOrSubquery as (
    select * from __operator_interval_create((select ts from $starts_table), (select ts from $ends_table))
);
