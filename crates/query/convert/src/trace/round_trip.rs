//! Tables of traces and of what is made of them and read again: the same rows, table by table.
//!
//! Rows are compared as text in which numbers of other rows are what those rows are, and in no order: which number a row has is a matter of
//! which was read first.

use std::io::Read;

use ferretto_import::{Options as ImportOptions, import};
use ferretto_trace_tables::{ArgSetId, CallsiteId, SliceId, Tables, TrackId, Upid, Utid, Value};

use super::{left_out, tests};
use crate::args::args_of;
use crate::packets::{Opened, open};
use crate::stacks::frame_name;
use crate::{Options, pftrace};

/// The tables of a file, which may be packets as text.
fn read(file: &[u8]) -> Tables {
    let Ok(Opened::Packets(mut file) | Opened::Archive(mut file) | Opened::Other(mut file)) = open(file)
    else {
        panic!("it cannot be read")
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let options = ImportOptions {
        config_printer: Some(|config| {
            ferretto_protos::text::format("perfetto.protos.TraceConfig", config).ok()
        }),
        ..ImportOptions::default()
    };
    import(&bytes[..], &options, &mut |_| true).unwrap().0
}

fn again(tables: &Tables) -> Tables {
    let crate::Form::Packets(sink) = pftrace::FORMAT.form else { panic!("it is of packets") };
    let mut trace = Vec::new();
    super::write(tables, &mut *sink(&mut trace, &Options::default())).unwrap();
    read(&trace)
}

fn index(number: i64) -> usize {
    usize::try_from(number).unwrap()
}

fn text(tables: &Tables, text: Option<ferretto_trace_tables::Str>) -> &str {
    text.map_or("-", |text| tables.strings.get(text))
}

fn process(tables: &Tables, upid: Upid) -> String {
    format!("{} {}", tables.process.pid[upid.index()], text(tables, tables.process.name[upid.index()]))
}

fn thread(tables: &Tables, utid: Utid) -> String {
    let process = tables.thread.upid.get(utid.index()).map(|upid| process(tables, upid));
    let name = text(tables, tables.thread.name[utid.index()]);
    format!("{process:?} {} {name}", tables.thread.tid[utid.index()])
}

fn track(tables: &Tables, track: TrackId) -> String {
    let row = track.index();
    let utid = tables.track.utid.get(row).map(|utid| thread(tables, utid));
    let upid = tables.track.upid.get(row).map(|upid| process(tables, upid));
    // What has no name gets that of its type.
    let type_ = || text(tables, tables.track.type_[row]).replace('_', " ");
    let name = tables.track.name[row].map_or_else(type_, |name| text(tables, Some(name)).to_owned());
    let unit = text(tables, tables.track.counter_unit[row]);
    let kind = text(tables, tables.track.event_type[row]);
    format!("{utid:?} {upid:?} {:?} {name} {unit} {kind}", tables.track.cpu.get(row))
}

fn args(tables: &Tables, set: ArgSetId) -> String {
    args_of(tables, set).map(|arg| format!("{}={:?}", arg.key, arg.value)).collect::<Vec<_>>().join(", ")
}

fn stack(tables: &Tables, callsite: CallsiteId) -> String {
    let parent = tables.callsite.parent_id.get(callsite.index());
    let above = parent.map_or_else(String::new, |parent| stack(tables, parent));
    let frame = tables.callsite.frame_id[callsite.index()];
    let mapping = tables.frame.mapping[frame.index()].index();
    // Paths are absolute afterwards.
    let file = text(tables, tables.mapping.name[mapping]).trim_start_matches('/');
    let build_id = text(tables, tables.mapping.build_id[mapping]);
    let at = tables.frame.rel_pc[frame.index()];
    format!("{above};{} {file} {build_id} {at}", frame_name(tables, callsite))
}

fn slice(tables: &Tables, slice: SliceId) -> String {
    let row = slice.index();
    let name = text(tables, tables.slice.name.at(row));
    format!("{} {name} on {}", tables.slice.ts.at(row), track(tables, tables.slice.track_id.at(row)))
}

/// A cell, and what a number in it stands for.
fn cell(tables: &Tables, table: &str, column: &str, value: Value) -> String {
    match (column, value) {
        (_, Value::Null) => "-".to_owned(),
        ("utid" | "waker_utid", Value::Int(utid)) => thread(tables, Utid(utid as u32)),
        ("upid", Value::Int(upid)) => process(tables, Upid(upid as u32)),
        ("track_id", Value::Int(id)) => track(tables, TrackId(id as u32)),
        ("slice_out" | "slice_in", Value::Int(id)) => slice(tables, SliceId(id as u32)),
        ("parent_id", Value::Int(id)) if table == "slice" => slice(tables, SliceId(id as u32)),
        ("arg_set_id", Value::Int(set)) => args(tables, ArgSetId(set as u32)),
        ("callsite_id", Value::Int(id)) => stack(tables, CallsiteId(id as u32)),
        ("waker_id" | "thread_state_id", Value::Int(id)) => {
            let states = &tables.thread_state;
            format!("{} {}", states.ts.at(index(id)), thread(tables, states.utid.at(index(id))))
        }
        ("task_context_id", Value::Int(id)) => {
            let contexts = &tables.profiler_task_context;
            format!("{:?}", contexts.utid.get(index(id)).map(|utid| thread(tables, utid)))
        }
        ("execution_context_id", Value::Int(id)) => {
            let contexts = &tables.profiler_execution_context;
            let mode = text(tables, contexts.cpu_mode[index(id)]);
            format!("{:?} {mode}", contexts.ucpu.get(index(id)))
        }
        (_, Value::Int(value)) => value.to_string(),
        (_, Value::Real(value)) => value.to_string(),
        (_, Value::Bool(value)) => value.to_string(),
        (_, Value::Str(it)) => tables.strings.get(it).to_owned(),
    }
}

/// All rows of a table, as text.
fn rows(tables: &Tables, name: &str, without: &[&str]) -> Vec<String> {
    let table = tables.find(name).unwrap();
    let columns = table.columns();
    let shown = || columns.iter().filter(|column| !without.contains(&column.name));
    let row = |row| {
        let cell = |column: &ferretto_trace_tables::table::Column<'_>| {
            format!("{}: {}", column.name, cell(tables, name, column.name, column.data.get(row)))
        };
        shown().map(cell).collect::<Vec<_>>().join(" | ")
    };
    let mut rows: Vec<_> = (0..table.len()).map(row).collect();
    rows.sort();
    rows
}

/// Columns that say nothing by themselves, or that are another trace's own.
const NOT_COMPARED: [&str; 8] = [
    "parent_upid of process",
    // Attributes of OpenTelemetry's resources have no words.
    "arg_set_id of process",
    "start_ts of thread",
    "end_ts of thread",
    "end_ts of process",
    "session_id of __intrinsic_profiler_sample",
    "counter_set_id of __intrinsic_profiler_sample",
    // A flow that had no number gets one.
    "trace_id of flow",
];

/// What is compared; of what is not, `left_out` tells, or it is the numbers of others, or what reading the file was like.
const TABLES: [&str; 17] = [
    "slice",
    "thread",
    "process",
    "sched",
    "thread_state",
    "spurious_sched_wakeup",
    "counter",
    "state",
    "flow",
    "logs",
    "cpu",
    "cpu_freq",
    "interrupt_mapping",
    "__intrinsic_profiler_sample",
    "heap_profile",
    "heap_profile_allocation",
    "profiler_smaps",
];

/// Compares all that can be carried, and gives the tables before and after.
fn check(file: &[u8]) -> (Tables, Tables) {
    let before = read(file);
    let after = again(&before);
    for name in TABLES {
        let of = format!(" of {name}");
        let without: Vec<&str> = NOT_COMPARED.iter().filter_map(|column| column.strip_suffix(&of)).collect();
        let compared = |tables: &Tables| {
            let mut rows = rows(tables, name, &without);
            // The idle task has its name in every trace of Perfetto, and threads counters of the time that their slices say.
            rows.retain(|row| {
                !row.starts_with("tid: 0 ")
                    && !row.starts_with("pid: 0 ")
                    && !row.contains(" thread_time - counter")
            });
            rows
        };
        assert_eq!(compared(&after), compared(&before), "{name}");
    }
    (before, after)
}

fn facts(tables: &Tables) -> Vec<String> {
    let mut facts = rows(tables, "metadata", &[]);
    let is_files = |row: &String| {
        ["trace_size_bytes", "trace_type", "trace_time_clock"].iter().any(|it| row.contains(it))
    };
    facts.retain(|row| !is_files(row));
    facts
}

#[test]
fn chromes_events() {
    let (before, _) = check(
        br#"{"traceEvents":[
        {"ph":"M","pid":1,"name":"process_name","args":{"name":"app"}},
        {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"worker"}},
        {"ph":"X","pid":1,"tid":2,"ts":5,"dur":5,"cat":"c","name":"outer","args":{"n":-3,"list":[{"x":1},{"x":"two"}],"no":null,"f":0.5,"t":true}},
        {"ph":"X","pid":1,"tid":2,"ts":6,"dur":2,"name":"inner","args":{"deep":{"deeper":{"s":"x"}},"big":18446744073709551615}},
        {"ph":"b","pid":1,"tid":2,"ts":5,"id":"0x1","cat":"n","name":"request","args":{"a.b":1}},
        {"ph":"e","pid":1,"tid":2,"ts":9,"id":"0x1","cat":"n","name":"request"},
        {"ph":"X","pid":1,"tid":2,"ts":20,"dur":1,"name":"a","bind_id":"0x5","flow_out":true},
        {"ph":"X","pid":1,"tid":3,"ts":23,"dur":1,"name":"b","bind_id":"0x5","flow_in":true},
        {"ph":"C","pid":1,"ts":1,"name":"fps","args":{"value":59.94}}
        ],"metadata":{"version":3}}"#,
    );
    assert_eq!((before.slice.len(), before.flow.len(), before.counter.len()), (5, 1, 1));
    let keys = rows(&before, "slice", &[]).join("\n");
    for key in ["args.n=Int(-3)", "args.list[1].x=Text(\"two\")", "args.deep.deeper.s=Text(\"x\")"] {
        assert!(keys.contains(key), "{key}: {keys}");
    }
    let said = left_out(&before);
    assert!(said.contains(&"metadata: json_metadata.version".to_owned()), "{said:?}");
}

/// What stands in a column of arguments.
fn sets(tables: &Tables, table: &str) -> Vec<String> {
    let table = tables.find(table).unwrap();
    let set = |row| match table.cell("arg_set_id", row) {
        Value::Int(set) => Some(args(tables, ArgSetId(set as u32))),
        _ => None,
    };
    let mut sets: Vec<_> = (0..table.len()).filter_map(set).collect();
    sets.sort();
    sets
}

#[test]
fn chromes_flows_with_names_and_how_processes_and_threads_are_sorted() {
    let (before, after) = check(
        br#"[
        {"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":-5}},
        {"ph":"M","pid":1,"tid":2,"name":"thread_sort_index","args":{"sort_index":7}},
        {"ph":"X","pid":1,"tid":2,"ts":10,"dur":9,"name":"a"},
        {"ph":"s","pid":1,"tid":2,"ts":11,"id":1,"cat":"net","name":"request"},
        {"ph":"s","pid":1,"tid":2,"ts":12,"id":2,"cat":"net","name":"other"},
        {"ph":"X","pid":1,"tid":3,"ts":30,"dur":9,"name":"b"},
        {"ph":"t","pid":1,"tid":3,"ts":31,"id":1,"cat":"net","name":"request"},
        {"ph":"X","pid":1,"tid":4,"ts":50,"dur":9,"name":"c"},
        {"ph":"f","bp":"e","pid":1,"tid":4,"ts":51,"id":1,"cat":"net","name":"request"},
        {"ph":"f","bp":"e","pid":1,"tid":4,"ts":52,"id":2,"cat":"net","name":"other"},
        {"ph":"X","pid":1,"tid":4,"ts":70,"dur":9,"name":"d"},
        {"ph":"f","bp":"e","pid":1,"tid":4,"ts":71,"id":2,"cat":"net","name":"other"}
        ]"#,
    );
    assert_eq!(before.flow.len(), 4);
    assert_eq!(sets(&before, "flow").len(), 4);
    assert_eq!(sets(&before, "process"), ["process_sort_index_hint=Int(-5)"]);
    assert_eq!(sets(&before, "thread"), ["thread_sort_index_hint=Int(7)"]);
    assert_eq!(sets(&after, "process"), sets(&before, "process"));
    assert_eq!(left_out(&before), Vec::<String>::new());
}

#[test]
fn of_flows_at_instants_only_the_arguments_are_left_out() {
    let file = br#"[
        {"ph":"X","pid":1,"tid":2,"ts":10,"dur":9,"name":"a"},
        {"ph":"s","pid":1,"tid":2,"ts":11,"id":1,"cat":"net","name":"request"},
        {"ph":"f","pid":1,"tid":3,"ts":12,"id":1,"cat":"net","name":"request"},
        {"ph":"X","pid":1,"tid":3,"ts":20,"dur":0,"name":"at once"}
        ]"#;
    let before = read(file);
    assert_eq!(left_out(&before), ["flow, its arguments, at instants: 1 row"]);
    let after = again(&before);
    assert_eq!(
        rows(&after, "flow", &["trace_id", "arg_set_id"]),
        rows(&before, "flow", &["trace_id", "arg_set_id"])
    );
}

#[test]
fn labels_of_processes_and_which_are_the_kernels() {
    let file = r#"
packet { trusted_packet_sequence_id: 1 process_tree { processes { pid: 7 ppid: 1 cmdline: "/bin/prog" is_kthread: false } } }
packet { trusted_packet_sequence_id: 2 sequence_flags: 1 track_descriptor { uuid: 1 process { pid: 7 process_labels: "one" process_labels: "two" } } }
"#;
    let before = read(file.as_bytes());
    let of_known = |tables: &Tables| {
        let mut sets = sets(tables, "process");
        sets.retain(|set| {
            set.contains("chrome.process_label[1]=Text(\"two\")") && set.contains("is_kthread=Bool(false)")
        });
        sets.len()
    };
    assert_eq!(of_known(&before), 1, "{:?}", sets(&before, "process"));
    assert_eq!(of_known(&again(&before)), 1);
    assert_eq!(left_out(&before), Vec::<String>::new());
}

#[test]
fn the_kernels_events_as_text() {
    let (before, _) = check(tests::FTRACE);
    assert_eq!((before.sched.len(), before.spurious_sched_wakeup.len()), (6, 1));
}

#[test]
fn perf_script() {
    let (before, _) = check(
        b"prog 31/32 303.417513: 1 cycles:\n\t55d main+0x5 (/bin/prog)\n\t7f2 start+0x1 (/lib/libc.so)\n\n\
          prog 31/33 303.417600: 1 cycles:\n\t55d work+0x5 (/bin/prog)\n\t7f2 start+0x1 (/lib/libc.so)\n\n",
    );
    assert_eq!(before.profiler_sample.len(), 2);
}

#[test]
fn perf_data() {
    let (before, _) = check(include_bytes!("../../../../read/formats/tests/data/perf_piped_packed.data"));
    assert_eq!((before.profiler_sample.len(), before.counter.len()), (15, 15));
    let said = left_out(&before);
    assert!(said.iter().any(|what| what.starts_with("thread, its times of ending: 2")), "{said:?}");
}

#[test]
fn sums_by_stack() {
    for file in [&b"main;work;sleep 3\nmain;work 1\n"[..], &pprof()] {
        let before = read(file);
        let after = again(&before);
        assert_eq!(after.profiler_sample.len(), before.aggregate_sample.len());
        let stacks = |tables: &Tables, ids: &mut dyn Iterator<Item = CallsiteId>| {
            let mut stacks: Vec<_> = ids.map(|id| stack(tables, id)).collect();
            stacks.sort();
            stacks
        };
        let samples = &after.profiler_sample.callsite_id;
        let mut samples = (0..after.profiler_sample.len()).filter_map(|row| samples.get(row));
        assert_eq!(
            stacks(&after, &mut samples),
            stacks(&before, &mut before.aggregate_sample.callsite_id.iter().copied())
        );
        let said = left_out(&before);
        assert!(said.iter().any(|what| what.contains("__intrinsic_aggregate_sample")), "{said:?}");
    }
}

/// Two samples in two functions, of one kind of value.
fn pprof() -> Vec<u8> {
    use ferretto_protozero::{Message, varint};
    let mut bytes = Vec::new();
    let mut profile = Message::new(&mut bytes);
    let packed = |values: &[u64]| {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| varint::encode(*value, &mut bytes));
        bytes
    };
    let mut numbers = |field: u32, values: &[(u32, u64)]| {
        let mut message = profile.nested(field);
        values.iter().for_each(|(number, value)| message.varint(*number, *value));
    };
    numbers(1, &[(1, 1), (2, 2)]);
    for (id, name) in [(1, 3), (2, 4)] {
        numbers(5, &[(1, id), (2, name)]);
    }
    for (stack, value) in [(&[1][..], 5), (&[2, 1], 7)] {
        let mut sample = profile.nested(2);
        sample.bytes(1, &packed(stack));
        sample.bytes(2, &packed(&[value]));
    }
    for id in [1, 2] {
        let mut location = profile.nested(4);
        location.varint(1, id);
        location.nested(4).varint(1, id);
    }
    ["", "cpu", "nanoseconds", "main", "work"].iter().for_each(|text| profile.string(6, text));
    drop(profile);
    bytes
}

#[test]
fn firefoxs_profiles() {
    let (before, _) = check(
        br#"{"meta":{"version":29,"startTime":1000.0,"categories":[{"name":"Idle"},{"name":"DOM"}]},"libs":[],
        "threads":[{"name":"GeckoMain","processName":"Parent","tid":10,"pid":10,
         "frameTable":{"schema":{"location":0},"data":[[1],[2],[3]]},
         "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,1],[1,2]]},
         "samples":{"schema":{"stack":0,"time":1},"data":[[2,5.5],[1,2.25]]},
         "markers":{"schema":{"name":0,"startTime":1,"endTime":2,"phase":3,"category":4,"data":5},
          "data":[[4,3.0,null,0,1,{"type":"tick","n":[1,2]}],[5,1.0,4.0,1,1],[6,2.0,6.0,1,0]]},
         "stringTable":["(root)","main (in libxul.so)","run (app.js:3)","leaf (in libc.so)","Tick","Load","Overlaps"]}],
        "processes":[]}"#,
    );
    assert_eq!((before.profiler_sample.len(), before.slice.len()), (2, 3));
}

#[test]
fn opentelemetrys_spans() {
    let (before, _) = check(
        br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},
          {"key":"host","value":{"stringValue":"h"}}]},
         "scopeSpans":[{"spans":[
          {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","name":"a","kind":2,
           "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
           "attributes":[{"key":"n","value":{"intValue":"5"}},{"key":"x","value":{"doubleValue":0.5}},
            {"key":"map","value":{"kvlistValue":{"values":[{"key":"deep","value":{"boolValue":true}}]}}}]},
          {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B175","parentSpanId":"EEE19B7EC3C1B174","name":"b",
           "startTimeUnixNano":1544712660500000000,"endTimeUnixNano":1544712660600000000,
           "events":[{"timeUnixNano":"1544712660550000000","name":"e"}],"status":{"code":2},
           "links":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174"}]}],
          "scope":{"name":"lib","version":"1"}}]}]}"#,
    );
    assert_eq!((before.slice.len(), before.flow.len()), (3, 1));
    assert!(rows(&before, "slice", &[]).iter().any(|row| row.contains("otlp.")));
    let said = left_out(&before);
    assert!(said.contains(&"process, its arguments: 1 row".to_owned()), "{said:?}");
}

/// As the SDK writes it: a thread's events on other tracks, states, typed arguments, counters.
const OF_A_PROGRAM: &str = r#"
packet { trusted_packet_sequence_id: 1 trace_config { buffers { size_kb: 64 } unique_session_name: "mine" } }
packet { trusted_packet_sequence_id: 1 trace_uuid { msb: 1 lsb: 2 } }
packet { trusted_packet_sequence_id: 1 system_info { utsname { sysname: "Linux" version: "1" release: "6.1" machine: "x86_64" } tracing_service_version: "v1" timezone_off_mins: -60 } }
packet { timestamp: 10 trusted_packet_sequence_id: 1 service_event { tracing_started: true } }
packet { trusted_packet_sequence_id: 1 trace_attributes { attribute { key: "who" string_value: "me" } attribute { key: "n" long_value: 7 } } }
packet { trusted_packet_sequence_id: 1 cpu_info { cpus { processor: "Slow" frequencies: 1000 frequencies: 2000 capacity: 512 } cpus { processor: "Fast" frequencies: 3000 capacity: 1024 } } }
packet { trusted_packet_sequence_id: 1 interrupt_info { irq_mapping { irq_id: 7 name: "eth0" } } }
packet { trusted_packet_sequence_id: 1 process_tree { processes { pid: 7 ppid: 1 cmdline: "/bin/prog" cmdline: "--fast" uid: 1000 } } }
packet { trusted_packet_sequence_id: 2 sequence_flags: 1 track_descriptor { uuid: 1 process { pid: 7 process_name: "prog" } } }
packet { trusted_packet_sequence_id: 2 track_descriptor { uuid: 2 parent_uuid: 1 thread { pid: 7 tid: 8 thread_name: "worker" } }
  trace_packet_defaults { track_event_defaults { track_uuid: 2 } } }
packet { trusted_packet_sequence_id: 2 track_descriptor { uuid: 3 parent_uuid: 1 name: "Orders" } }
packet { trusted_packet_sequence_id: 2 track_descriptor { uuid: 4 parent_uuid: 1 name: "Door" state {} } }
packet { trusted_packet_sequence_id: 2 track_descriptor { uuid: 5 parent_uuid: 1 name: "Load" counter { unit_name: "percent" } } }
packet { timestamp: 100 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_SLICE_BEGIN categories: "c" name: "outer"
  source_location { file_name: "a.rs" function_name: "f" line_number: 3 } debug_annotations { name: "a" array_values { int_value: 1 } array_values { dict_entries { name: "x" pointer_value: 255 } } } flow_ids: 9 } }
packet { timestamp: 110 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_SLICE_BEGIN track_uuid: 3 categories: "c" name: "order" terminating_flow_ids: 9 debug_annotations { name: "j" legacy_json_value: "{\"a\":[1,null]}" } } }
packet { timestamp: 120 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_STATE track_uuid: 4 categories: "c" name: "open" debug_annotations { name: "by" string_value: "me" } } }
packet { timestamp: 125 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_COUNTER track_uuid: 5 double_counter_value: 0.25 } }
packet { timestamp: 130 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_STATE track_uuid: 4 name: "shut" } }
packet { timestamp: 140 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_STATE track_uuid: 4 } }
packet { timestamp: 150 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_STATE track_uuid: 4 name: "open" } }
packet { timestamp: 160 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_SLICE_END track_uuid: 3 } }
packet { timestamp: 170 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { type: TYPE_SLICE_END } }
"#;

#[test]
fn a_programs_events_and_facts() {
    let (before, after) = check(OF_A_PROGRAM.as_bytes());
    assert_eq!((before.slice.len(), before.flow.len(), before.counter.len()), (2, 1, 1));
    assert_eq!((before.state.len(), before.cpu_freq.ucpu.len()), (3, 3));
    assert_eq!(facts(&after), facts(&before));
    assert_eq!(left_out(&before), Vec::<String>::new());
    let owned = |tables: &Tables| {
        let row = tables.process.pid.iter().position(|pid| *pid == 7).unwrap();
        (tables.process.uid.get(row), tables.process.parent_upid.get(row).map(|it| process(tables, it)))
    };
    assert_eq!(owned(&before), (Some(1000), Some("1 -".to_owned())));
    assert_eq!(owned(&after), owned(&before));
    let slices = rows(&before, "slice", &[]).join("\n");
    for arg in [
        "source_location.file_name=Text(\"a.rs\")",
        "legacy_event.passthrough_utid=",
        "debug.a[1].x=Pointer(255)",
    ] {
        assert!(slices.contains(arg), "{arg}: {slices}");
    }
}

/// Two dumps of two heaps, and where memory lies.
const OF_MEMORY: &str = r#"
packet { timestamp: 5 trusted_packet_sequence_id: 1 clock_snapshot { clocks { clock_id: 6 timestamp: 1000 } clocks { clock_id: 4 timestamp: 500 } } }
packet { timestamp: 1100 trusted_packet_sequence_id: 3 sequence_flags: 1
  interned_data { function_names { iid: 1 str: "main" } function_names { iid: 2 str: "work" } mapping_paths { iid: 1 str: "bin" } build_ids { iid: 1 str: "\x01\xfe" }
    mappings { iid: 1 build_id: 1 start: 4096 end: 8192 path_string_ids: 1 } frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 8 } frames { iid: 2 function_name_id: 2 mapping_id: 1 rel_pc: 16 }
    callstacks { iid: 1 frame_ids: 1 } callstacks { iid: 2 frame_ids: 1 frame_ids: 2 } } }
packet { timestamp: 1200 trusted_packet_sequence_id: 3 sequence_flags: 2 profile_packet { index: 0
  process_dumps { pid: 7 timestamp: 600 start_timestamp: 510 heap_name: "malloc" samples { callstack_id: 1 self_allocated: 100 alloc_count: 2 } samples { callstack_id: 2 self_allocated: 64 alloc_count: 1 self_freed: 64 free_count: 1 } }
  process_dumps { pid: 9 timestamp: 600 samples { callstack_id: 2 self_allocated: 8 alloc_count: 1 } } } }
packet { timestamp: 1300 trusted_packet_sequence_id: 3 sequence_flags: 2 profile_packet { index: 1
  process_dumps { pid: 7 timestamp: 700 start_timestamp: 600 heap_name: "malloc" samples { callstack_id: 1 self_allocated: 150 alloc_count: 3 self_freed: 50 free_count: 1 } } } }
packet { timestamp: 1400 trusted_packet_sequence_id: 4 smaps_packet { pid: 7 entries { path: "/lib/a.so" size_kb: 12 private_dirty_kb: 4 start_address: 4096 } entries { path: "/tmp/b (deleted)" size_kb: 8 } } }
packet { timestamp: 1500 trusted_packet_sequence_id: 4 smaps_packet { pid: 7 packed_entries { string_table: "/a" string_table: "/b" aggregate_count: [2, 1] size_kb: [8, 4] rss_kb: [3, 1] } } }
"#;

#[test]
fn heaps_and_where_memory_lies() {
    let (before, _) = check(OF_MEMORY.as_bytes());
    assert_eq!((before.heap_profile.upid.len(), before.heap_profile_allocation.len()), (3, 6));
    assert_eq!(before.profiler_smaps.upid.len(), 4);
    assert_eq!(left_out(&before), Vec::<String>::new());
}

/// Two processes, of which one owns a part of what the other shares with it, and what is shared by all.
fn of_snapshots() -> Vec<u8> {
    use ferretto_protos::fields::{trace, trace_packet};
    use ferretto_protozero::Message;
    let mut bytes = Vec::new();
    let mut trace = Message::new(&mut bytes);
    for (ts, level) in [(100, 0), (200, 1)] {
        let mut packet = trace.nested(trace::PACKET);
        packet.varint(trace_packet::TIMESTAMP, ts);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
        let mut dump = packet.nested(73);
        dump.varint(2, level);
        for pid in [40, 50] {
            let mut process = dump.nested(3);
            process.varint(1, pid);
            let names = ["malloc", "malloc/used", "skia/images/1", "shared", "global/all"];
            for (at, name) in (1..).zip(names).take(if pid == 40 { 5 } else { 4 }) {
                let mut node = process.nested(2);
                node.varint(1, pid * 100 + at);
                node.string(2, name);
                if at != 3 {
                    node.varint(4, ts * 100 / at + pid);
                }
                let mut entry = node.nested(5);
                entry.string(1, "count");
                entry.varint(2, at % 2 + 1);
                entry.varint(3, at);
                drop(entry);
                let mut entry = node.nested(5);
                entry.string(1, "kind");
                entry.string(4, "of heap");
            }
            for (source, target, importance) in
                [(4, 4004, 2), (3, 4005, 1)].into_iter().skip(if pid == 40 { 1 } else { 0 })
            {
                let mut edge = process.nested(3);
                edge.varint(1, pid * 100 + source);
                edge.varint(2, target);
                edge.varint(3, importance);
            }
        }
    }
    drop(trace);
    bytes
}

#[test]
fn what_programs_say_of_their_memory() {
    let before = read(&of_snapshots());
    let after = again(&before);
    assert_eq!(left_out(&before), Vec::<String>::new());
    assert_eq!(
        rows(&after, "memory_snapshot", &["track_id"]),
        rows(&before, "memory_snapshot", &["track_id"])
    );
    let dump = |tables: &Tables, row: usize| {
        let dump = tables.process_memory_snapshot.snapshot_id[row].index();
        let process = process(tables, tables.process_memory_snapshot.upid[row]);
        format!("{} {process}", tables.memory_snapshot.timestamp[dump])
    };
    let node = |tables: &Tables, row: usize| {
        let nodes = &tables.memory_snapshot_node;
        let set = nodes.arg_set_id.get(row).map(|set| args(tables, set));
        let of = dump(tables, nodes.process_snapshot_id[row].index());
        let above = nodes.parent_node_id.get(row).map(|it| text(tables, nodes.path[it.index()]));
        let path = text(tables, nodes.path[row]);
        format!("{of} {path} in {above:?} {} {} {set:?}", nodes.size[row], nodes.effective_size[row])
    };
    let all = |tables: &Tables| {
        let mut all: Vec<_> =
            (0..tables.process_memory_snapshot.upid.len()).map(|row| dump(tables, row)).collect();
        all.extend((0..tables.memory_snapshot_node.size.len()).map(|row| node(tables, row)));
        let edges = &tables.memory_snapshot_edge;
        all.extend((0..edges.importance.len()).map(|row| {
            let [from, to] =
                [edges.source_node_id[row], edges.target_node_id[row]].map(|it| node(tables, it.index()));
            format!("{from} owns {to} {}", edges.importance[row])
        }));
        all.sort();
        all
    };
    assert_eq!(
        (before.process_memory_snapshot.upid.len(), before.memory_snapshot_edge.importance.len()),
        (6, 6)
    );
    assert_eq!(all(&after), all(&before));
}
