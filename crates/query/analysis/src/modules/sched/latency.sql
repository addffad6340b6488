include perfetto module sched.runnable;

create perfetto view _sched_with_thread_state_join as
select t.id as thread_state_id, s.id as sched_id
from sched s join thread_state t on t.utid = s.utid and t.ts = s.ts and t.dur = s.dur;

-- How long a thread was ready before each time that it ran.
create perfetto table sched_latency_for_running_interval(
    -- The row of `thread_state` in which it ran.
    thread_state_id JOINID(thread_state.id),
    -- The row of `sched`.
    sched_id JOINID(sched.id),
    -- The thread.
    utid JOINID(thread.id),
    -- The row of `thread_state` in which it was ready.
    runnable_latency_id JOINID(thread_state.id),
    -- How long it was.
    latency_dur LONG
) as
select r.id as thread_state_id, j.sched_id, p.utid, r.prev_runnable_id as runnable_latency_id, p.dur as latency_dur
from sched_previous_runnable_on_thread r
join thread_state p on p.id = r.prev_runnable_id
join _sched_with_thread_state_join j on j.thread_state_id = r.id;
