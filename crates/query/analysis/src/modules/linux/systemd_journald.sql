-- What systemd's journal has.
create perfetto view linux_systemd_journald_logs(
    -- The row of `logs`.
    id ID,
    -- When it was written.
    ts TIMESTAMP,
    -- The thread that wrote it.
    utid JOINID(thread.id),
    -- How important it is, as Android numbers it.
    prio LONG,
    -- Who wrote it.
    tag STRING,
    -- The text.
    msg STRING,
    -- The user.
    uid LONG,
    -- The program.
    comm STRING,
    -- The unit.
    systemd_unit STRING,
    -- The host.
    hostname STRING,
    -- How it came to the journal.
    transport STRING
) as
select id, ts, utid, prio, tag, msg,
    cast(extract_arg(arg_set_id, 'uid') as int) as uid,
    extract_arg(arg_set_id, 'comm') as comm,
    extract_arg(arg_set_id, 'systemd_unit') as systemd_unit,
    extract_arg(arg_set_id, 'hostname') as hostname,
    extract_arg(arg_set_id, 'transport') as transport
from logs
where log_source = 'systemd_journald';
