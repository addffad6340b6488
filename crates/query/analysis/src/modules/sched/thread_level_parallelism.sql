include perfetto module intervals.overlap;

-- How many threads are ready to run at a time.
create perfetto table sched_runnable_thread_count(
    -- When the number changes.
    ts TIMESTAMP,
    -- The number from then on.
    runnable_thread_count LONG
) as
select ts, value as runnable_thread_count
from intervals_overlap_count!((select ts, dur from thread_state where state = 'R'), ts, dur);

-- How many threads are in uninterruptible sleep at a time.
create perfetto table sched_uninterruptible_sleep_thread_count(
    -- When the number changes.
    ts TIMESTAMP,
    -- The number from then on.
    uninterruptible_sleep_thread_count LONG
) as
select ts, value as uninterruptible_sleep_thread_count
from intervals_overlap_count!((select ts, dur from thread_state where state = 'D'), ts, dur);

-- How many CPUs have something to do at a time.
create perfetto table sched_active_cpu_count(
    -- When the number changes.
    ts TIMESTAMP,
    -- The number from then on.
    active_cpu_count LONG
) as
select ts, value as active_cpu_count
from intervals_overlap_count!(
    (select s.ts, s.dur from sched s join thread t on t.utid = s.utid where not ifnull(t.is_idle, 0)), ts, dur);
