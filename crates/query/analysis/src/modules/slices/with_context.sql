include perfetto module std.thread.with_context;

-- Slices of threads, with their threads and processes.
create perfetto view thread_slice(
    -- The slice.
    id ID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- Its track.
    track_id JOINID(track.id),
    -- What the track is called.
    track_name STRING,
    -- What the thread is called.
    thread_name STRING,
    -- The thread.
    utid JOINID(thread.id),
    -- The thread's number in the system.
    tid LONG,
    -- Whether it is the main thread of its process.
    is_main_thread BOOL,
    -- What the process is called.
    process_name STRING,
    -- The process.
    upid JOINID(process.id),
    -- The process's number in the system.
    pid LONG,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG
) as
select s.id, s.ts, s.dur, s.category, s.name, s.track_id, k.name as track_name, t.thread_name, t.utid, t.tid,
    t.is_main_thread, t.process_name, t.upid, t.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from slice s join thread_track k on k.id = s.track_id join _thread_with_process t on t.utid = k.utid;

-- Slices of processes, with their processes.
create perfetto view process_slice(
    -- The slice.
    id ID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- Its track.
    track_id JOINID(track.id),
    -- What the track is called.
    track_name STRING,
    -- What the process is called.
    process_name STRING,
    -- The process.
    upid JOINID(process.id),
    -- The process's number in the system.
    pid LONG,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID,
    -- When it begins, on the thread's clock.
    thread_ts TIMESTAMP,
    -- How long it is, on the thread's clock.
    thread_dur LONG
) as
select s.id, s.ts, s.dur, s.category, s.name, s.track_id, k.name as track_name, p.name as process_name, p.upid, p.pid,
    s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
from slice s join process_track k on k.id = s.track_id join process p on p.upid = k.upid;

-- Slices of threads and of processes.
create perfetto view thread_or_process_slice(
    -- The slice.
    id JOINID(slice.id),
    -- When it begins.
    ts TIMESTAMP,
    -- How long it is.
    dur DURATION,
    -- Its category.
    category STRING,
    -- Its name.
    name STRING,
    -- Its track.
    track_id JOINID(track.id),
    -- What the track is called.
    track_name STRING,
    -- What the thread is called.
    thread_name STRING,
    -- The thread.
    utid JOINID(thread.id),
    -- The thread's number in the system.
    tid LONG,
    -- What the process is called.
    process_name STRING,
    -- The process.
    upid JOINID(process.id),
    -- The process's number in the system.
    pid LONG,
    -- How many slices lie above it.
    depth LONG,
    -- The slice right above it.
    parent_id JOINID(slice.id),
    -- Its arguments.
    arg_set_id ARGSETID
) as
select s.id, s.ts, s.dur, s.category, s.name, s.track_id, s.track_name, s.thread_name, s.utid, s.tid, s.process_name, s.upid,
    s.pid, s.depth, s.parent_id, s.arg_set_id
from thread_track k join thread_slice s on s.track_id = k.id
union all
select id, ts, dur, category, name, track_id, track_name, cast(null as text), cast(null as int), cast(null as int),
    process_name, upid, pid, depth, parent_id, arg_set_id
from process_slice;
