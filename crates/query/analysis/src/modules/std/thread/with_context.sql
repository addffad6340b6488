create perfetto view _thread_with_process as
select t.utid, t.tid, t.name as thread_name, t.is_main_thread, p.upid, p.pid, p.name as process_name
from thread t left join process p on p.upid = t.upid;
