-- Where it was recorded.
select
    (select max(str_value) from metadata where name = 'system_name') as os,
    (select max(str_value) from metadata where name = 'system_release') as kernel,
    (select max(str_value) from metadata where name = 'system_machine') as arch,
    (select max(str_value) from metadata where name = 'trace_config_pbtxt') as config
