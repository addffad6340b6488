-- Of each time that a thread ran, the last time before that it was ready to run, and the last time that another thread woke it.
create perfetto table sched_previous_runnable_on_thread(
    -- The row of `thread_state` in which it ran.
    id JOINID(thread_state.id),
    -- The row in which it was ready.
    prev_runnable_id JOINID(thread_state.id),
    -- The row in which it was woken.
    prev_wakeup_runnable_id JOINID(thread_state.id)
) as
select id, prev_runnable_id, prev_wakeup_runnable_id
from (
    select id, state,
        max(iif(state != 'Running', id, null)) over (
            partition by utid order by id rows between unbounded preceding and current row) as prev_runnable_id,
        max(iif(waker_utid is not null and ifnull(irq_context, 0) != 1, id, null)) over (
            partition by utid order by id rows between unbounded preceding and current row) as prev_wakeup_runnable_id
    from thread_state
    where state glob 'R*' and dur != -1
)
where state = 'Running'
order by id;
