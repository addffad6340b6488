-- What is known of the whole: of each name the value of the first trace and machine.
create perfetto table _metadata_for_primary_scope(
    -- The name.
    name STRING,
    -- Its value, if it is a text.
    str_value STRING,
    -- Its value, if it is a number.
    int_value LONG,
    -- Whether there may be several.
    key_type STRING
) as
select name, str_value, int_value, key_type
from (
    select name, str_value, int_value, key_type,
        row_number() over (
            partition by name order by trace_id is null, trace_id, machine_id is null, machine_id) as number
    from metadata
)
where number = 1;
