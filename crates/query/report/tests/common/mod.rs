//! A trace whose answers are known.
#![allow(dead_code, reason = "each test file uses its part")]

use ferretto_analysis::{Options, Trace};
use ferretto_trace_tables::tables::{
    CallsiteRow, CounterRow, CpuRow, FrameRow, HeapProfileAllocationRow, ProcessRow, SchedRow, SliceRow,
    StatRow, ThreadRow, ThreadStateRow, TrackRow,
};
use ferretto_trace_tables::{CallsiteId, FrameId, SliceId, Str, Tables, TrackId, Ucpu, Upid, Utid};

pub(crate) const MS: i64 = 1_000_000;
/// What a name may be.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m\"'&";

/// One CPU for 120 ms. `main` ran from 0 to 40, was preempted until 90 and ran until 100; another process ran between, and `worker` from 100 on,
/// which `main` had woken at 95. The other one waited for a device from 90 to 110.
pub(crate) fn tables() -> Tables {
    let mut tables = Tables::default();
    let mut text = |text: &str| -> Option<Str> { Some(tables.strings.intern(text)) };
    let [app, main, worker, hostile] = ["app", "main", "worker", HOSTILE].map(&mut text);
    let [running, ready, preempted, asleep, blocked, function] =
        ["Running", "R", "R+", "S", "D", "io_schedule"].map(&mut text);
    let [slice, counter, execution, queue, of_process] =
        ["slice", "counter", "thread_execution", "queue", "process_counter_track_event"].map(&mut text);
    let [request, dropped, error] = ["request", "ftrace_cpu_dropped_events_delta", "error"].map(&mut text);
    let [caller, callee] = ["allocate", "parse"].map(&mut text);

    tables.cpu.push(CpuRow { ucpu: Ucpu(0), cpu: 0, ..CpuRow::default() });
    tables.process.push(ProcessRow { pid: 10, name: app, ..ProcessRow::default() });
    tables.process.push(ProcessRow { pid: 20, name: hostile, ..ProcessRow::default() });
    tables.thread.push(ThreadRow { is_idle: true, ..ThreadRow::default() });
    for (tid, name, upid) in [(10, main, 0), (11, worker, 0), (20, hostile, 1)] {
        tables.thread.push(ThreadRow { tid, name, upid: Some(Upid(upid)), ..ThreadRow::default() });
    }
    let (of_main, of_worker, other) = (Utid(1), Utid(2), Utid(3));
    for (ts, dur, utid) in [(0, 40, of_main), (40, 50, other), (90, 10, of_main), (100, -1, of_worker)] {
        let dur = if dur < 0 { dur } else { dur * MS };
        tables.sched.push(SchedRow { ts: ts * MS, dur, utid, ucpu: Ucpu(0), ..SchedRow::default() });
    }
    let mut state = |ts: i64, dur: i64, utid, state, waker_utid| {
        let is_device = state == blocked;
        let dur = if dur < 0 { dur } else { dur * MS };
        tables.thread_state.push(ThreadStateRow {
            ts: ts * MS,
            dur,
            utid,
            state,
            waker_utid,
            io_wait: is_device.then_some(1),
            blocked_function: function.filter(|_| is_device),
            ucpu: (state == running).then_some(Ucpu(0)),
            ..ThreadStateRow::default()
        });
    };
    state(0, 40, of_main, running, None);
    state(0, 95, of_worker, asleep, None);
    state(30, 10, other, ready, Some(of_main));
    state(40, 50, of_main, preempted, None);
    state(40, 50, other, running, None);
    state(90, 10, of_main, running, None);
    state(90, 20, other, blocked, None);
    state(95, 5, of_worker, ready, Some(of_main));
    state(100, -1, of_main, asleep, None);
    state(100, -1, of_worker, running, None);
    state(110, -1, other, ready, Some(of_main));

    tables.track.push(TrackRow {
        event_type: slice,
        type_: execution,
        utid: Some(of_main),
        ..TrackRow::default()
    });
    let of_counter = TrackRow { event_type: counter, type_: of_process, name: queue, ..TrackRow::default() };
    tables.track.push(TrackRow { upid: Some(Upid(0)), ..of_counter });
    for (ts, dur, name, parent) in
        [(0, 100, request, None), (10, 30, hostile, Some(SliceId(0))), (105, 10, request, None)]
    {
        let slice = SliceRow {
            ts: ts * MS,
            dur: dur * MS,
            track_id: TrackId(0),
            name,
            parent_id: parent,
            ..SliceRow::default()
        };
        tables.slice.push(slice);
    }
    tables.slice.push(SliceRow {
        ts: 116 * MS,
        dur: -1,
        track_id: TrackId(0),
        name: request,
        ..SliceRow::default()
    });
    for (ts, value) in [(0, 1.0), (60, 3.0), (120, 2.0)] {
        tables.counter.push(CounterRow { ts: ts * MS, track_id: TrackId(1), value, arg_set_id: None });
    }
    tables.stats.push(StatRow {
        name: dropped,
        idx: Some(0),
        severity: error,
        value: 12,
        ..StatRow::default()
    });

    for name in [caller, callee] {
        tables.frame.push(FrameRow { name, ..FrameRow::default() });
    }
    tables.callsite.push(CallsiteRow { frame_id: FrameId(0), ..CallsiteRow::default() });
    tables.callsite.push(CallsiteRow { frame_id: FrameId(1), depth: 1, parent_id: Some(CallsiteId(0)) });
    let heap = HeapProfileAllocationRow {
        upid: Upid(0),
        count: 1,
        size: 5_000,
        ..HeapProfileAllocationRow::default()
    };
    tables.heap_profile_allocation.push(HeapProfileAllocationRow { callsite_id: CallsiteId(1), ..heap });
    tables
}

/// To be asked.
pub(crate) fn trace(tables: Tables) -> Trace {
    Trace::of(tables, &Options { threads: 1, ..Options::default() }).unwrap()
}
