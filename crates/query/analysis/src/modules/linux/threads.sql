-- Threads of the kernel: of process 2, and of those that it began.
create perfetto table linux_kernel_threads(
    -- The process.
    upid JOINID(process.id),
    -- The thread.
    utid JOINID(thread.id),
    -- The process's number in the system.
    pid LONG,
    -- The thread's number in the system.
    tid LONG,
    -- What the process is called.
    process_name STRING,
    -- What the thread is called.
    thread_name STRING,
    -- The machine.
    machine_id JOINID(machine.id)
) as
select p.upid, t.utid, p.pid, t.tid, p.name as process_name, t.name as thread_name, p.machine_id
from process p join thread t on t.upid = p.upid
where p.pid = 2 or p.parent_upid in (select upid from process where pid = 2)
order by p.upid, t.utid;
