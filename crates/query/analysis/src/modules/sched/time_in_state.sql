include perfetto module intervals.intersect;

-- How long each thread was in each state.
create perfetto table sched_time_in_state_for_thread(
    -- The thread.
    utid JOINID(thread.id),
    -- How long it was in any.
    total_runtime LONG,
    -- The state.
    state STRING,
    -- How long it was in this one.
    time_in_state LONG,
    -- Hundredths of the whole.
    percentage_in_state LONG
) as
select utid, sum(time_in_state) over (partition by utid) as total_runtime, state, time_in_state,
    time_in_state * 100 / sum(time_in_state) over (partition by utid) as percentage_in_state
from (select utid, state, sum(dur) as time_in_state from thread_state group by utid, state)
order by utid, state;

create perfetto macro _part_in_state(state Expr) returns Expr as max(iif(state = $state, percentage_in_state, null));

-- How much of its time each thread was in each state, in hundredths.
create perfetto table sched_percentage_of_time_in_state(
    -- The thread.
    utid JOINID(thread.id),
    -- It ran.
    running LONG,
    -- It was ready.
    runnable LONG,
    -- It was ready, and had been made to wait.
    runnable_preempted LONG,
    -- It slept.
    sleeping LONG,
    -- It slept and could not be woken.
    uninterruptible_sleep LONG,
    -- Anything else.
    other LONG
) as
select utid,
    _part_in_state!('Running') as running,
    _part_in_state!('R') as runnable,
    _part_in_state!('R+') as runnable_preempted,
    _part_in_state!('S') as sleeping,
    _part_in_state!('D') as uninterruptible_sleep,
    sum(iif(state in ('T', 't', 'X', 'Z', 'x', 'I', 'K', 'W', 'P', 'N'), time_in_state, null)) * 100 / max(total_runtime) as other
from sched_time_in_state_for_thread
group by utid;

create perfetto macro _thread_states_in(ts Expr, dur Expr, utid Expr) returns TableOrSubquery as (
    select t.state, t.io_wait, t.cpu, t.blocked_function, min(t.ts + t.dur, ($ts) + ($dur)) - max(t.ts, $ts) as dur
    from thread_state t
    where t.utid = $utid and t.dur > 0 and t.ts < ($ts) + ($dur) and t.ts + t.dur > $ts
);

-- How long a thread was in each state within an interval.
create perfetto function sched_time_in_state_for_thread_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- The thread.
    utid JOINID(thread.id))
returns table(
    -- The state.
    state STRING,
    -- Whether it waited for a device.
    io_wait BOOL,
    -- The function of the kernel that it waited in.
    blocked_function LONG,
    -- How long it was in that state.
    dur DURATION)
as
select state, io_wait, blocked_function, sum(dur) as dur
from _thread_states_in!($ts, $dur, $utid)
group by state, io_wait, blocked_function
order by 4 desc;

-- How long a thread was in each state on each CPU within an interval.
create perfetto function sched_time_in_state_and_cpu_for_thread_in_interval(
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- The thread.
    utid JOINID(thread.id))
returns table(
    -- The state.
    state STRING,
    -- Whether it waited for a device.
    io_wait BOOL,
    -- The CPU.
    cpu LONG,
    -- The function of the kernel that it waited in.
    blocked_function LONG,
    -- How long it was in that state.
    dur DURATION)
as
select state, io_wait, cpu, blocked_function, sum(dur) as dur
from _thread_states_in!($ts, $dur, $utid)
group by state, io_wait, cpu, blocked_function
order by 5 desc;

-- How long threads ran on a CPU within an interval, by the state that they were in afterwards.
create perfetto function sched_time_in_state_for_cpu_in_interval(
    -- The CPU.
    cpu LONG,
    -- Where the interval begins.
    ts TIMESTAMP,
    -- How long it is.
    dur LONG)
returns table(
    -- The state.
    end_state STRING,
    -- How long they ran.
    dur LONG)
as
select end_state, sum(min(s.ts + s.dur, $ts + $dur) - max(s.ts, $ts)) as dur
from sched s
where s.cpu = $cpu and s.dur != -1 and s.ts < $ts + $dur and s.ts + s.dur > $ts
group by end_state;
