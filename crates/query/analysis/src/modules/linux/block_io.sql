include perfetto module intervals.overlap;

-- How many operations each block device has at a time.
create perfetto view linux_active_block_io_operations_by_device(
    -- When the number changes.
    ts LONG,
    -- The number from then on.
    ops_in_queue_or_device LONG,
    -- The device.
    dev LONG
) as
select ts, value as ops_in_queue_or_device, group_name as dev
from intervals_overlap_count_by_group!(
    (select s.ts, s.dur, extract_arg(t.dimension_arg_set_id, 'block_device') as dev
    from slice s join track t on t.id = s.track_id where t.type = 'block_io'), ts, dur, dev);

-- The major number of a device.
create perfetto function linux_device_major_id(
    -- The device.
    dev LONG)
-- Its major number.
returns LONG as select ($dev >> 8) & 4095;

-- The minor number of a device.
create perfetto function linux_device_minor_id(
    -- The device.
    dev LONG)
-- Its minor number.
returns LONG as select ($dev & 255) | (($dev >> 20) << 8);
