include perfetto module std.thread.with_context;

-- What ran on CPUs, with threads and processes.
create perfetto view sched_with_thread_process(
    -- The row of `sched`.
    id ID(sched.id),
    -- When it began to run.
    ts TIMESTAMP,
    -- How long it ran.
    dur DURATION,
    -- The thread.
    utid JOINID(thread.id),
    -- What the thread is called.
    thread_name STRING,
    -- The process.
    upid JOINID(process.id),
    -- What the process is called.
    process_name STRING,
    -- The CPU.
    cpu LONG,
    -- The state that it was in when it ran no longer.
    end_state STRING,
    -- Its priority in the kernel.
    priority LONG
) as
select s.id, s.ts, s.dur, s.utid, t.thread_name, t.upid, t.process_name, s.cpu, s.end_state, s.priority
from sched s join _thread_with_process t on t.utid = s.utid;
