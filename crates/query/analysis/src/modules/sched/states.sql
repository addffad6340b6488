-- What the letter of a state means.
create perfetto function sched_state_to_human_readable_string(
    -- The letter, as `thread_state` has it.
    short_name STRING)
-- Its meaning.
returns STRING as
select case $short_name
    when 'R' then 'Runnable'
    when 'R+' then 'Runnable (Preempted)'
    when 'S' then 'Sleeping'
    when 'D' then 'Uninterruptible Sleep'
    when 'T' then 'Stopped'
    when 't' then 'Traced'
    when 'X' then 'Exit (Dead)'
    when 'Z' then 'Exit (Zombie)'
    when 'x' then 'Task Dead'
    when 'I' then 'Idle'
    when 'K' then 'Wakekill'
    when 'W' then 'Waking'
    when 'P' then 'Parked'
    when 'N' then 'No Load'
    else $short_name
end;

-- What the letter of a state means, and whether it waited for a device.
create perfetto function sched_state_io_to_human_readable_string(
    -- The letter, as `thread_state` has it.
    sched_state STRING,
    -- Whether it waited for a device.
    io_wait BOOL)
-- Its meaning.
returns STRING as
select sched_state_to_human_readable_string($sched_state) || case $io_wait when 1 then ' (IO)' when 0 then ' (non-IO)' else '' end;
