//! Profiles of Firefox: what they become, and files that end anywhere.

mod tables;

use ferretto_trace_formats::Error;
use ferretto_trace_formats::recognize::{Format, recognize};
use ferretto_trace_tables::Tables;
use proptest::prelude::*;
use tables::{import, rows};

/// As the browser dumps it: another process within, whose times are from its own begin.
const RAW: &str = r#"{"meta":{"version":29,"startTime":1000.0,"categories":[{"name":"Idle"},{"name":"DOM"}]},"libs":[],
"threads":[{"name":"GeckoMain","processName":"Parent","tid":11,"pid":10,
 "frameTable":{"schema":{"location":0,"relevantForJS":1,"line":2},"data":[[1],[2,false,7],[3]]},
 "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,1],[1,2]]},
 "samples":{"schema":{"stack":0,"time":1,"eventDelay":2},"data":[[2,5.5,0],[1,2.25],[null,6]]},
 "markers":{"schema":{"name":0,"startTime":1,"endTime":2,"phase":3,"category":4,"data":5},
  "data":[[4,3.0,null,0,1,{"type":"tick","n":[1,2]}],[5,1.0,4.0,1,1],[6,2.0,6.0,1,0],[7,3.5,null,2,1],[7,null,9.0,3,1],[7,8.0,null,2,0]]},
 "stringTable":["(root)","main (in libxul.so)","run (app.js:3)","leaf (in libc.so)","Tick","Load","Overlaps","Task"]}],
"processes":[{"meta":{"startTime":1010.0},"threads":[{"name":"Web","tid":21,"pid":20,
 "frameTable":{"schema":{"location":0},"data":[[0]]},"stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0]]},
 "samples":{"schema":{"stack":0,"time":1},"data":[[0,1.0]]},
 "markers":{"schema":{"name":0},"data":[]},"stringTable":["only (in libxul.so)"]}],"processes":[]}]}"#;

/// As the profiler saves it: tables of columns, shared by all threads.
const PROCESSED: &str = r#"{"meta":{"preprocessedProfileVersion":57,"startTime":5.0,"categories":[{"name":"Other"}]},"libs":[],
"shared":{"stringArray":["lib.so","outer","inner","lib.rs","Work"],
 "frameTable":{"length":2,"address":[16,32],"func":[0,1],"line":[null,8]},
 "funcTable":{"length":2,"name":[1,2],"resource":[0,-1],"source":[null,0],"lineNumber":[3,null]},
 "resourceTable":{"length":1,"lib":[0],"name":[0],"type":[1]},
 "sources":{"length":1,"filename":[3]},
 "stackTable":{"length":2,"frame":[0,1],"prefix":[null,0]}},
"threads":[{"name":"worker","pid":"7","tid":"8.1","processName":"app",
 "samples":{"length":2,"stack":[1,0],"timeDeltas":[1,2.5],"weight":null},
 "markers":{"length":1,"name":[4],"startTime":[1.0],"endTime":[2.0],"phase":[1],"category":[0],"data":[null]}}]}"#;

/// The frames of each sample with their libraries, the outermost first.
fn samples(tables: &Tables) -> Vec<String> {
    let samples = rows(tables, "__intrinsic_profiler_sample", &["ts", "callsite_id"]);
    let sample = |row: &String| {
        let (ts, callsite) = row.split_once(' ').unwrap();
        let mut at = callsite.parse::<usize>().ok();
        let mut frames = Vec::new();
        while let Some(row) = at {
            let frame = tables.callsite.frame_id[row].index();
            let text = |text: Option<_>| text.map_or("-", |text| tables.strings.get(text));
            let library = tables.mapping.name[tables.frame.mapping[frame].index()];
            frames.push(format!("{}@{}", text(tables.frame.name[frame]), text(library)));
            at = tables.callsite.parent_id.get(row).map(|parent| parent.index());
        }
        frames.reverse();
        format!("{ts} {}", frames.join(";"))
    };
    samples.iter().map(sample).collect()
}

#[test]
fn a_dump_of_the_browser_has_samples_and_markers() {
    assert_eq!(recognize(RAW.as_bytes()), Some(Format::Gecko));
    let (tables, end) = import(Format::Gecko, RAW.as_bytes());
    end.unwrap();
    assert_eq!(
        samples(&tables),
        [
            "2250000 main@libxul.so;run (app.js:3)@gecko",
            "5500000 main@libxul.so;run (app.js:3)@gecko;leaf@libc.so",
            "11000000 only@libxul.so",
        ]
    );
    let slices = rows(&tables, "slice", &["ts", "dur", "track_id", "depth", "category", "name"]);
    assert_eq!(
        slices,
        [
            "1000000 3000000 0 0 DOM Load",
            "2000000 4000000 1 0 Idle Overlaps",
            "3000000 0 0 1 DOM Tick",
            "3500000 5500000 2 0 DOM Task",
            "8000000 -1 0 0 Idle Task",
        ]
    );
    assert_eq!(
        rows(&tables, "track", &["name", "type"])[..2],
        ["- thread_execution", "Markers gecko_marker"]
    );
    let threads = rows(&tables, "thread", &["tid", "name", "upid"]);
    assert!(
        ["11 GeckoMain 1", "21 Web 2"].iter().all(|it| threads.contains(&(*it).to_owned())),
        "{threads:?}"
    );
    assert!(rows(&tables, "process", &["pid", "name"]).contains(&"10 Parent".to_owned()));
    let args = rows(&tables, "args", &["flat_key", "key", "int_value", "string_value"]);
    assert!(args.contains(&"data.n data.n[1] 2 -".to_owned()), "{args:?}");
}

#[test]
fn a_saved_profile_may_share_its_tables() {
    let (tables, end) = import(Format::Gecko, PROCESSED.as_bytes());
    end.unwrap();
    assert_eq!(samples(&tables), ["1000000 outer@lib.so;inner@gecko", "3500000 outer@lib.so"]);
    assert_eq!(rows(&tables, "slice", &["ts", "dur", "category", "name"]), ["1000000 1000000 Other Work"]);
    let symbols = rows(&tables, "stack_profile_symbol", &["name", "source_file", "line_number"]);
    assert_eq!(symbols, ["outer - 3", "inner lib.rs 8"]);
    assert!(rows(&tables, "thread", &["tid", "name"]).contains(&"8 worker".to_owned()));
}

#[test]
fn a_file_that_ends_anywhere_gives_the_threads_that_are_whole() {
    for file in [RAW, PROCESSED] {
        for end in 0..file.len() {
            let (_, told) = import(Format::Gecko, &file.as_bytes()[..end]);
            assert!(
                matches!(told, Err(Error::Broken { offset, .. }) if offset <= end as u64),
                "{end}: {told:?}"
            );
        }
    }
    let second = RAW.find("\"processes\":[{").unwrap();
    let (tables, _) = import(Format::Gecko, &RAW.as_bytes()[..second + 100]);
    assert_eq!(samples(&tables).len(), 2);
}

#[test]
fn deep_stacks_and_stacks_in_circles_end() {
    let stacks: Vec<String> = (0..5000).map(|n: u32| format!("[{},0]", n.wrapping_sub(1))).collect();
    for stacks in [stacks.join(","), "[1,0],[0,0]".to_owned()] {
        let file = format!(
            r#"{{"meta":{{}},"threads":[{{"frameTable":{{"schema":{{"location":0}},"data":[[0]]}},
            "stackTable":{{"schema":{{"prefix":0,"frame":1}},"data":[{stacks}]}},
            "samples":{{"schema":{{"stack":0,"time":1}},"data":[[1,1],[4999,2]]}},"stringTable":["f"]}}]}}"#
        );
        import(Format::Gecko, file.as_bytes()).1.unwrap();
    }
    assert!(import(Format::Gecko, format!("{{\"meta\":{}", "[".repeat(10_000)).as_bytes()).1.is_err());
    assert!(import(Format::Gecko, "{\"processes\":[".repeat(10_000).as_bytes()).1.is_err());
}

proptest! {
    #[test]
    fn damaged_files_do_no_harm(
        is_raw: bool,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = if is_raw { RAW } else { PROCESSED }.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = import(Format::Gecko, &file);
    }
}
