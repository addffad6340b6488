use ferretto_import::{Options as ImportOptions, import};
use ferretto_trace_tables::Tables;

use crate::{Options, pftrace};

fn read(bytes: &[u8]) -> Tables {
    import(bytes, &ImportOptions::default(), &mut |_| true).unwrap().0
}

/// What a file of another format becomes, read again.
fn there_and_back(file: &[u8]) -> (Tables, Tables) {
    let before = read(file);
    let crate::Form::Packets(sink) = pftrace::FORMAT.form else { panic!("it is of packets") };
    let mut trace = Vec::new();
    super::write(&before, &mut *sink(&mut trace, &Options::default())).unwrap();
    let after = read(&trace);
    (before, after)
}

fn text(tables: &Tables, text: Option<ferretto_trace_tables::Str>) -> String {
    text.map_or("-", |text| tables.strings.get(text)).to_owned()
}

fn thread(tables: &Tables, utid: ferretto_trace_tables::Utid) -> String {
    let pid = tables.thread.upid.get(utid.index()).map_or(-1, |upid| tables.process.pid[upid.index()]);
    format!("{pid}/{} {}", tables.thread.tid[utid.index()], text(tables, tables.thread.name[utid.index()]))
}

fn track(tables: &Tables, track: ferretto_trace_tables::TrackId) -> String {
    let row = track.index();
    let utid = tables.track.utid.get(row).map(|utid| thread(tables, utid));
    let upid = tables.track.upid.get(row).map(|upid| tables.process.pid[upid.index()]);
    // What has no name gets that of its type.
    let type_ = || text(tables, tables.track.type_[row]).replace('_', " ");
    let name = tables.track.name[row].map_or_else(type_, |name| text(tables, Some(name)));
    let unit = text(tables, tables.track.counter_unit[row]);
    format!("{utid:?} {upid:?} {:?} {name} {unit}", tables.track.cpu.get(row))
}

/// Arguments, in whatever order.
fn args(tables: &Tables, set: Option<ferretto_trace_tables::ArgSetId>) -> Vec<String> {
    let Some(set) = set else { return Vec::new() };
    let mut args: Vec<_> = crate::args::args_of(tables, set)
        .filter(|arg| !matches!(arg.key, "utid" | "upid"))
        .map(|arg| format!("{}={:?}", arg.key, arg.value))
        .collect();
    args.sort();
    args
}

fn slice(tables: &Tables, row: usize) -> String {
    let slices = &tables.slice;
    format!(
        "{} {} {} {} {} {} {:?} {:?} {:?} {:?}",
        slices.ts.at(row),
        slices.dur.at(row),
        text(tables, slices.name.at(row)),
        text(tables, slices.category.at(row)),
        slices.depth.at(row),
        track(tables, slices.track_id.at(row)),
        args(tables, slices.arg_set_id.get(row)),
        slices.parent_id.get(row).map(|parent| slices.ts.at(parent.index())),
        slices.thread_ts.get(row),
        slices.thread_dur.get(row),
    )
}

fn slices(tables: &Tables) -> Vec<String> {
    let mut rows: Vec<_> = (0..tables.slice.len()).map(|row| slice(tables, row)).collect();
    rows.sort();
    rows
}

fn flows(tables: &Tables) -> Vec<String> {
    let flows = &tables.flow;
    let end = |row| slice(tables, row);
    let one =
        |row| format!("{} to {}", end(flows.slice_out.at(row).index()), end(flows.slice_in.at(row).index()));
    let mut rows: Vec<_> = (0..flows.len()).map(one).collect();
    rows.sort();
    rows
}

fn counters(tables: &Tables) -> Vec<String> {
    let counters = &tables.counter;
    let one = |row| {
        let set = args(tables, counters.arg_set_id.get(row));
        format!(
            "{} {} {} {set:?}",
            counters.ts.at(row),
            counters.value.at(row),
            track(tables, counters.track_id.at(row))
        )
    };
    let mut rows: Vec<_> = (0..counters.len()).map(one).collect();
    rows.sort();
    rows
}

fn sched(tables: &Tables) -> Vec<String> {
    let sched = &tables.sched;
    let one = |row| {
        let (state, utid) = (text(tables, sched.end_state.at(row)), thread(tables, sched.utid.at(row)));
        format!(
            "{} {} {utid} {state} {} {}",
            sched.ts.at(row),
            sched.dur.at(row),
            sched.priority.at(row),
            sched.ucpu.at(row).0
        )
    };
    (0..sched.len()).map(one).collect()
}

fn states(tables: &Tables) -> Vec<String> {
    let states = &tables.thread_state;
    let one = |row| {
        format!(
            "{} {} {} {} {:?} {} {:?} {:?} {:?} {:?}",
            states.ts.at(row),
            states.dur.at(row),
            thread(tables, states.utid.at(row)),
            text(tables, states.state.at(row)),
            states.io_wait.get(row),
            text(tables, states.blocked_function.at(row)),
            states.waker_utid.get(row).map(|utid| thread(tables, utid)),
            states.waker_id.get(row).map(|id| id.0),
            states.irq_context.get(row),
            states.ucpu.get(row).map(|ucpu| ucpu.0),
        )
    };
    (0..states.len()).map(one).collect()
}

fn spurious(tables: &Tables) -> Vec<String> {
    let rows = &tables.spurious_sched_wakeup;
    let one = |row| {
        let [utid, waker] = [rows.utid.at(row), rows.waker_utid.at(row)].map(|utid| thread(tables, utid));
        format!("{} {} {utid} {waker}", rows.ts.at(row), rows.thread_state_id.at(row).0)
    };
    (0..rows.len()).map(one).collect()
}

fn stack(tables: &Tables, callsite: Option<ferretto_trace_tables::CallsiteId>) -> Vec<String> {
    let mut frames = Vec::new();
    let mut at = callsite;
    while let Some(callsite) = at {
        let frame = tables.callsite.frame_id[callsite.index()].index();
        let mapping = tables.frame.mapping[frame].index();
        let path = text(tables, tables.mapping.name[mapping]);
        let name = text(tables, tables.frame.name[frame]);
        frames.push(format!("{name} {:x} {}", tables.frame.rel_pc[frame], path.trim_start_matches('/')));
        at = tables.callsite.parent_id.get(callsite.index());
    }
    frames
}

fn samples(tables: &Tables) -> Vec<String> {
    let samples = &tables.profiler_sample;
    let one = |row| {
        let context = samples.task_context_id.get(row).map(|id| id.index());
        let utid = context
            .and_then(|row| tables.profiler_task_context.utid.get(row))
            .map(|utid| thread(tables, utid));
        let source = text(tables, samples.source.at(row));
        format!("{} {source} {utid:?} {:?}", samples.ts.at(row), stack(tables, samples.callsite_id.get(row)))
    };
    (0..samples.len()).map(one).collect()
}

#[test]
fn slices_have_their_arguments_and_their_places() {
    let (before, after) = there_and_back(
        br#"{"traceEvents":[
        {"ph":"M","pid":1,"name":"process_name","args":{"name":"app"}},
        {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"main"}},
        {"ph":"X","pid":1,"tid":2,"ts":1,"dur":10,"name":"outer","cat":"a,b","args":{"n":1,"list":[{"x":1.5},"y",true],"o":{"p":{"q":-1}},"big":18446744073709551615}},
        {"ph":"X","pid":1,"tid":2,"ts":1,"dur":5,"name":"inner","tts":3,"tdur":2},
        {"ph":"X","pid":1,"tid":2,"ts":3,"dur":0,"name":"nothing"},
        {"ph":"i","pid":1,"tid":2,"ts":5,"s":"t","name":"tick","cat":"c"},
        {"ph":"X","pid":1,"tid":2,"ts":6,"dur":5,"name":"to the end"},
        {"ph":"X","pid":1,"tid":2,"ts":11,"dur":2,"name":"next"},
        {"ph":"B","pid":1,"tid":3,"ts":2,"name":"endless"},
        {"ph":"B","pid":1,"tid":3,"ts":3,"name":"within"},
        {"ph":"E","pid":1,"tid":3,"ts":4},
        {"ph":"X","pid":7,"tid":2,"ts":4,"dur":1,"name":"same tid"},
        {"ph":"i","pid":1,"tid":2,"ts":8,"s":"p","name":"of the process"},
        {"ph":"i","pid":1,"tid":2,"ts":9,"s":"g","name":"of all"},
        {"ph":"b","pid":1,"tid":2,"ts":5,"id":"0x1","cat":"n","name":"request"},
        {"ph":"n","pid":1,"tid":2,"ts":6,"id":"0x1","cat":"n","name":"step"},
        {"ph":"b","pid":1,"tid":2,"ts":6,"id":"0x2","cat":"n","name":"request"},
        {"ph":"e","pid":1,"tid":2,"ts":9,"id":"0x1","cat":"n","name":"request"},
        {"ph":"e","pid":1,"tid":2,"ts":10,"id":"0x2","cat":"n","name":"request"}
        ]}"#,
    );
    assert_eq!(before.slice.len(), 14);
    assert_eq!(slices(&after), slices(&before));
    let names =
        |tables: &Tables| tables.process.name.iter().map(|name| text(tables, *name)).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
}

#[test]
fn flows_lead_where_they_led() {
    let (before, after) = there_and_back(
        br#"[
        {"ph":"X","pid":1,"tid":2,"ts":1,"dur":1,"name":"a","bind_id":"0x5","flow_out":true},
        {"ph":"X","pid":1,"tid":2,"ts":3,"dur":1,"name":"b","bind_id":"0x5","flow_in":true,"flow_out":true},
        {"ph":"b","pid":1,"tid":2,"ts":5,"name":"c","cat":"x","id":"1","bind_id":"0x5","flow_in":true},
        {"ph":"e","pid":1,"tid":2,"ts":6,"name":"c","cat":"x","id":"1"},
        {"ph":"X","pid":1,"tid":2,"ts":8,"dur":4,"name":"d"},
        {"ph":"s","pid":1,"tid":2,"ts":9,"name":"f","cat":"f","id":7},
        {"ph":"X","pid":1,"tid":3,"ts":10,"dur":4,"name":"e"},
        {"ph":"f","pid":1,"tid":3,"ts":11,"name":"f","cat":"f","id":7,"bp":"e"},
        {"ph":"X","pid":1,"tid":3,"ts":15,"dur":4,"name":"g"},
        {"ph":"f","pid":1,"tid":3,"ts":16,"name":"f","cat":"f","id":7,"bp":"e"}
        ]"#,
    );
    assert_eq!(before.flow.len(), 4);
    assert_eq!(flows(&after), flows(&before));
}

#[test]
fn counters_have_their_values() {
    let (before, after) = there_and_back(
        br#"[
        {"ph":"M","pid":1,"name":"process_name","args":{"name":"app"}},
        {"ph":"C","pid":1,"ts":1,"name":"fps","args":{"value":59.94}},
        {"ph":"C","pid":1,"ts":2,"name":"fps","args":{"value":-3}},
        {"ph":"C","pid":1,"ts":2,"name":"mem","args":{"a":1e300,"b":9007199254740993}},
        {"ph":"C","pid":2,"ts":3,"name":"fps","args":{"value":0}}
        ]"#,
    );
    assert_eq!(before.counter.len(), 5);
    assert_eq!(counters(&after), counters(&before));
}

pub(super) const FTRACE: &[u8] = b"# tracer: nop
 sh-7  (    7) [000] d...  1.000000: sched_waking: comm=work pid=9 prio=120 target_cpu=001
 sh-7  (    7) [000] d...  1.000010: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
 <idle>-0  (-----) [001] d...  1.000020: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=work next_pid=9 next_prio=98
 work-9  (    9) [001] d...  1.000030: sched_waking: comm=sh pid=7 prio=120 target_cpu=000
 work-9  (    9) [001] d...  1.000032: sched_waking: comm=sh pid=7 prio=120 target_cpu=000
 <idle>-0  (-----) [000] d...  1.000040: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=sh next_pid=7 next_prio=120
 sh-7  (    7) [000] ....  1.000041: tracing_mark_write: B|7|call
 sh-7  (    7) [000] ....  1.000042: tracing_mark_write: C|7|depth|3
 sh-7  (    7) [000] ....  1.000043: tracing_mark_write: E|7
 sh-7  (    7) [000] ....  1.000044: tracing_mark_write: S|7|later|1
 sh-7  (    7) [000] d...  1.000045: cpu_frequency: state=1800000 cpu_id=1
 sh-7  (    7) [000] d...  1.000046: cpu_idle: state=4294967295 cpu_id=1
 work-9  (    9) [001] d...  1.000050: sched_switch: prev_comm=work prev_pid=9 prev_prio=98 prev_state=D|K ==> next_comm=other next_pid=11 next_prio=120
 work-9  (    9) [001] d...  1.000050: sched_blocked_reason: pid=9 iowait=1 caller=do_page_fault
 sh-7  (    7) [000] ....  1.000052: tracing_mark_write: F|7|later|1
 sh-7  (    7) [000] d...  1.000060: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=work next_pid=9 next_prio=98
 other-11  (   11) [001] d...  1.000070: sched_switch: prev_comm=other prev_pid=11 prev_prio=120 prev_state=Z ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

#[test]
fn scheduling_and_states_of_threads_are_what_they_were() {
    let (before, after) = there_and_back(FTRACE);
    assert_eq!((before.sched.len(), before.spurious_sched_wakeup.len()), (6, 1));
    assert_eq!(sched(&after), sched(&before));
    assert_eq!(states(&after), states(&before));
    assert_eq!(spurious(&after), spurious(&before));
    assert_eq!(counters(&after), counters(&before));
    assert_eq!(slices(&after), slices(&before));
}

#[test]
fn samples_have_their_stacks() {
    let (before, after) = there_and_back(
        b"prog 31/32 303.417513: 1 cycles:\n\t55d main+0x5 (/bin/prog)\n\t7f2 start+0x1 (/lib/libc.so)\n\n\
          prog 31/33 303.417600: 1 cycles:\n\t55d work+0x5 (/bin/prog)\n\t7f2 start+0x1 (/lib/libc.so)\n\n",
    );
    assert_eq!(before.profiler_sample.len(), 2);
    assert_eq!(samples(&after), samples(&before));
}

#[test]
fn profiles_that_sum_up_are_samples_with_a_weight() {
    let (before, after) = there_and_back(b"main;work;sleep 3\nmain;work 1\nmain;wait 40\n");
    let stacks = |tables: &Tables, ids: Vec<Option<ferretto_trace_tables::CallsiteId>>| {
        ids.into_iter().map(|id| stack(tables, id)).collect::<Vec<_>>()
    };
    let sums = before.aggregate_sample.callsite_id.iter().map(|id| Some(*id)).collect();
    let samples =
        (0..after.profiler_sample.len()).map(|row| after.profiler_sample.callsite_id.get(row)).collect();
    assert_eq!(stacks(&after, samples), stacks(&before, sums));
    let values: Vec<f64> = after.counter.value.iter().collect();
    assert_eq!(values, before.aggregate_sample.value);
}

#[test]
fn logs_and_clocks_are_kept() {
    use ferretto_trace_tables::tables::{ClockSnapshotRow, LogRow, ThreadRow};
    let mut tables = Tables::default();
    let mut word = |word: &str| Some(tables.strings.intern(word));
    let [journal, android, tag, msg] = ["systemd_journald", "android_logcat", "sshd", "hello"].map(&mut word);
    tables.thread.push(ThreadRow { tid: 5, ..ThreadRow::default() });
    for (snapshot_id, ts) in [(0, 100), (1, 900)] {
        let clock_value = 1_000_000 + ts;
        tables.clock_snapshot.push(ClockSnapshotRow {
            ts,
            clock_id: 1,
            clock_value,
            snapshot_id,
            ..Default::default()
        });
    }
    for (ts, log_source) in [(200, journal), (300, android)] {
        let utid = Some(ferretto_trace_tables::Utid(0));
        tables.logs.push(LogRow { ts, utid, prio: 4, log_source, tag, msg, arg_set_id: None });
    }
    let crate::Form::Packets(sink) = pftrace::FORMAT.form else { panic!("it is of packets") };
    let mut trace = Vec::new();
    super::write(&tables, &mut *sink(&mut trace, &Options::default())).unwrap();
    let after = read(&trace);
    let lines = |tables: &Tables| {
        let logs = &tables.logs;
        let one = |row| {
            let tid = logs.utid.get(row).map(|utid| tables.thread.tid[utid.index()]);
            let texts =
                [logs.log_source.at(row), logs.tag.at(row), logs.msg.at(row)].map(|it| text(tables, it));
            format!("{} {tid:?} {} {texts:?}", logs.ts.at(row), logs.prio.at(row))
        };
        (0..logs.len()).map(one).collect::<Vec<_>>()
    };
    assert_eq!(lines(&after), lines(&tables));
    let clocks = &after.clock_snapshot;
    let of_wall: Vec<_> = (0..clocks.len())
        .filter(|row| clocks.clock_id.at(*row) == 1)
        .map(|row| (clocks.ts.at(row), clocks.clock_value.at(row)))
        .collect();
    assert_eq!(of_wall, [(100, 1_000_100), (900, 1_000_900)]);
}

#[test]
fn compressed_packets_are_the_same_packets() {
    let before = read(FTRACE);
    let crate::Form::Packets(sink) = pftrace::FORMAT.form else { panic!("it is of packets") };
    let [plain, compressed] = [false, true].map(|compress| {
        let options = Options { compress, ..Options::default() };
        let mut trace = Vec::new();
        super::write(&before, &mut *sink(&mut trace, &options)).unwrap();
        trace
    });
    assert!(compressed.len() < plain.len());
    let packets = |trace: &[u8]| {
        let mut packets = Vec::new();
        let reader = ferretto_trace_read::Reader::new(trace);
        let end = reader
            .for_each(|packet, place| packets.push((packet.to_vec(), place.in_batch.is_some())))
            .unwrap();
        assert_eq!((end.broken_batches, end.torn_at), (0, None));
        packets
    };
    let (plain, compressed) = (packets(&plain), packets(&compressed));
    assert!(compressed.iter().all(|(_, is_in_batch)| *is_in_batch));
    let bodies =
        |packets: Vec<(Vec<u8>, bool)>| packets.into_iter().map(|(body, _)| body).collect::<Vec<_>>();
    assert_eq!(bodies(compressed), bodies(plain));
}
