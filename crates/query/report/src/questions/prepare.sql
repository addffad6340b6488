-- What the other questions stand on. Names of processes: of paths the last part, but not of the kernel's threads, such as `kworker/0:1`.
create perfetto table _report_process as
select upid, pid,
    coalesce(
        nullif(iif(name glob '/*' or name glob '.*/*' or name glob '*/*/*', regexp_extract(name, '[^/]*$'), name), ''),
        'process ' || pid) as name
from process;

-- And of threads: who has none is called by its number.
create perfetto table _report_thread as
select t.utid, t.tid, coalesce(t.name, 'thread ' || t.tid) as thread, t.upid, p.pid,
    coalesce(p.name, t.name, 'thread ' || t.tid) as process, ifnull(t.is_idle, 0) as is_idle
from thread t left join _report_process p on p.upid = t.upid;

-- When scheduling was recorded.
create perfetto table _report_window as
select ifnull(min(ts), trace_start()) as begins, trace_end() as ends from sched;

-- Who ran, without the idle ones; what has no end lasts to that of the trace.
create perfetto view _report_sched as
select s.ts, iif(s.dur < 0, trace_end() - s.ts, s.dur) as dur, s.utid, s.ucpu, t.thread, t.process, t.upid, t.pid, t.tid
from sched s join _report_thread t on t.utid = s.utid
where not t.is_idle;

-- States of threads, each with the one behind it, which says who woke the thread and where it ran then. Where a state has no end although
-- another one follows, something is missing in between: it is taken to last until that.
create perfetto table _report_state as
select ts, iif(dur < 0, ifnull(next_ts, trace_end()) - ts, dur) as dur, utid, state, io_wait, blocked_function, next_ts is not null as has_end,
    waker_utid, irq_context, next_waker, next_irq, next_state, next_ucpu
from (
    select ts, dur, utid, state, io_wait, blocked_function, waker_utid, irq_context,
        lead(ts) over (partition by utid order by ts, id) as next_ts,
        lead(waker_utid) over (partition by utid order by ts, id) as next_waker,
        lead(irq_context) over (partition by utid order by ts, id) as next_irq,
        lead(state) over (partition by utid order by ts, id) as next_state,
        lead(ucpu) over (partition by utid order by ts, id) as next_ucpu
    from thread_state
);

-- Whose tracks are.
create perfetto table _report_track as
select k.id as track_id, coalesce(t.thread, p.name, k.name) as owner, coalesce(t.process, p.name) as process
from track k
left join thread_track a on a.id = k.id
left join _report_thread t on t.utid = a.utid
left join process_track b on b.id = k.id
left join _report_process p on p.upid = b.upid;
