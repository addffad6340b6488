-- Whether a machine runs Linux.
create perfetto function _is_linux_machine(
    -- The machine.
    machine_id JOINID(machine.id))
-- 1 if it does.
returns LONG as
select count(*) = 1 from metadata m where m.name = 'system_name' and m.str_value = 'Linux' and m.machine_id = $machine_id;
