-- Interrupts.
create perfetto view linux_hard_irqs(
    -- When it began.
    ts TIMESTAMP,
    -- How long it took.
    dur DURATION,
    -- Its name.
    name STRING,
    -- The slice.
    id JOINID(slice.id),
    -- The slice right above it.
    parent_id JOINID(slice.id)
) as
select s.ts, s.dur, s.name, s.id, s.parent_id from slice s join track t on t.id = s.track_id where t.type = 'cpu_irq';

-- Work that interrupts put off.
create perfetto view linux_soft_irqs(
    -- When it began.
    ts TIMESTAMP,
    -- How long it took.
    dur DURATION,
    -- Its name.
    name STRING,
    -- The slice.
    id JOINID(slice.id)
) as
select s.ts, s.dur, s.name, s.id from slice s join track t on t.id = s.track_id where t.type = 'cpu_softirq';

-- Both.
create perfetto view linux_irqs(
    -- When it began.
    ts TIMESTAMP,
    -- How long it took.
    dur DURATION,
    -- Its name.
    name STRING,
    -- The slice.
    id JOINID(slice.id),
    -- The slice right above it, of an interrupt.
    parent_id JOINID(slice.id),
    -- Whether it was put off.
    is_soft_irq BOOL
) as
select ts, dur, name, id, parent_id, 0 as is_soft_irq from linux_hard_irqs
union all
select ts, dur, name, id, cast(null as int), 1 from linux_soft_irqs;

-- What numbers of interrupts are called.
create perfetto view linux_interrupt_mapping(
    -- The row.
    id ID,
    -- The number.
    irq_id LONG,
    -- The name.
    name STRING,
    -- The machine.
    machine_id JOINID(machine.id)
) as
select id, irq_id, name, machine_id from _linux_interrupt_mapping;
