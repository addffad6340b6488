include perfetto module linux.threads;
include perfetto module viz.summary.trace;

create perfetto table _kernel_threads as
select k.utid from linux_kernel_threads k
where k.machine_id in (select machine_id from metadata where name = 'system_name' and str_value = 'Linux');

create perfetto table _threads_with_kernel_flag as
select t.id, t.utid, t.upid, t.tid, t.name, t.is_main_thread, t.is_idle, t.machine_id,
    k.utid is not null as is_kernel_thread
from thread t left join _kernel_threads k on k.utid = t.utid;
