//! What files become, whole, cut off at every byte, and damaged.

mod tables;

use ferretto_protozero::Message;
use ferretto_trace_formats::recognize::{Format, recognize};
use ferretto_trace_formats::{Error, read};
use ferretto_trace_model::model::Model;
use ferretto_trace_tables::Tables;
use proptest::prelude::*;
use tables::{import, rows};

const COLLAPSED: &[u8] = b"# by hand\nmain;work;sleep 3\n\nmain;work 2\n;;main 1\nno number\nmain 0\n;; 4\n\xff;b 5\nmain;work;sleep 7";

const PERF_TEXT: &[u8] = b"my prog  20/21 [001] 5.000002:     1 cycles:P: \n\
\t    7f01 read+0x10 (/lib/libc.so)\n\t    4001 main+0x2 (/bin/my prog)\n\n\
other 30 4.000001: 1 cpu-clock:\n\tffff [unknown] ([kernel.kallsyms])\n\tab(c x)\n\tab std::f(int)+0x1 (x)\n\n\
idle 0 6.000000: 1 cycles:\n\n";

/// Two kinds of values, three locations, one of them with an inlined function, one in no mapping.
fn pprof() -> Vec<u8> {
    fn part(build: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        build(&mut Message::new(&mut bytes));
        bytes
    }
    let numbers = |fields: &[(u32, u64)]| {
        part(|message| fields.iter().for_each(|(field, value)| message.varint(*field, *value)))
    };
    let texts = ["", "cpu", "nanoseconds", "/bin/prog", "abcd", "main", "work", "main.c", "inner"];
    part(|profile| {
        for (kind, unit) in [(1, 2), (5, 99)] {
            profile.bytes(1, &numbers(&[(1, kind), (2, unit)]));
        }
        for (locations, values) in
            [(&[3u64, 2, 1][..], &[10u64, 1][..]), (&[1], &[5, u64::MAX]), (&[77], &[9])]
        {
            let sample = part(|sample| {
                sample.packed_varints(1, locations.iter().copied());
                values.iter().for_each(|value| sample.varint(2, *value));
            });
            profile.bytes(2, &sample);
        }
        profile.bytes(3, &numbers(&[(1, 1), (2, 0x1000), (3, 0x2000), (4, 64), (5, 3), (6, 4)]));
        for (id, mapping, address, lines) in
            [(1, 1, 0x1100, &[(1, 7)][..]), (2, 1, 0x1200, &[(3, 0), (2, 9)]), (3, 8, 0x30, &[])]
        {
            let location = part(|location| {
                for (field, value) in [(1, id), (2, mapping), (3, address)] {
                    location.varint(field, value);
                }
                for (function, line) in lines {
                    location.bytes(4, &numbers(&[(1, *function), (2, *line)]));
                }
            });
            profile.bytes(4, &location);
        }
        profile.bytes(5, &numbers(&[(1, 1), (2, 5), (4, 7)]));
        profile.bytes(5, &numbers(&[(1, 2), (2, 6)]));
        profile.bytes(5, &numbers(&[(1, 3), (2, 8), (4, 7), (5, 40)]));
        texts.iter().for_each(|text| profile.bytes(6, text.as_bytes()));
    })
}

fn samples() -> Vec<(Format, Vec<u8>)> {
    vec![
        (Format::CollapsedStack, COLLAPSED.to_vec()),
        (Format::PerfText, PERF_TEXT.to_vec()),
        (Format::Pprof, pprof()),
    ]
}

/// The functions of a stack, the outermost first.
fn stack(tables: &Tables, mut callsite: Option<i64>) -> String {
    let mut names = Vec::new();
    while let Some(at) = callsite {
        let row = usize::try_from(at).unwrap();
        let frame = tables.callsite.frame_id[row];
        names.push(tables.frame.name[frame.index()].map_or("-", |name| tables.strings.get(name)));
        callsite = tables.callsite.parent_id.get(row).map(|parent| i64::from(parent.0));
    }
    names.reverse();
    names.join(";")
}

fn stacks_of(tables: &Tables, table: &str, value: &str) -> Vec<String> {
    let rows = rows(tables, table, &["callsite_id", value]);
    rows.iter()
        .map(|row| {
            let (callsite, value) = row.split_once(' ').unwrap();
            format!("{} {value}", stack(tables, callsite.parse().ok()))
        })
        .collect()
}

#[test]
fn each_is_recognized() {
    for (format, file) in samples() {
        assert_eq!(recognize(&file), Some(format));
    }
}

#[test]
fn collapsed_stacks_are_sums_by_stack() {
    let (tables, end) = import(Format::CollapsedStack, COLLAPSED);
    end.unwrap();
    let expected = ["main;work;sleep 3", "main;work 2", "main 1", "\u{fffd};b 5", "main;work;sleep 7"];
    assert_eq!(stacks_of(&tables, "__intrinsic_aggregate_sample", "value"), expected);
    let profiles =
        rows(&tables, "__intrinsic_aggregate_profile", &["scope", "sample_type_type", "sample_type_unit"]);
    assert_eq!(profiles, ["collapsed_stack_file samples count"]);
    assert_eq!(tables.callsite.len(), 5);
}

#[test]
fn the_text_of_perf_is_samples_by_time() {
    let (tables, end) = import(Format::PerfText, PERF_TEXT);
    end.unwrap();
    // A parenthesis within the address: all behind it is the function. As upstream has it.
    let expected = ["std::f(int);x);[unknown] 4000001000", "main;read 5000002000"];
    assert_eq!(stacks_of(&tables, "__intrinsic_profiler_sample", "ts"), expected);
    let mappings = rows(&tables, "stack_profile_mapping", &["name"]);
    assert_eq!(mappings, ["/lib/libc.so", "/bin/my prog", "[kernel.kallsyms]", "c x", "x"]);
    let threads = rows(&tables, "thread", &["tid", "name"]);
    assert!(threads.contains(&"21 my prog".to_owned()), "{threads:?}");
    let lost = rows(&tables, "stats", &["name", "value"]);
    assert!(lost.contains(&"perf_text_importer_sample_no_frames 1".to_owned()));
}

#[test]
fn a_profile_of_pprof_has_each_kind_of_value() {
    let (tables, end) = import(Format::Pprof, &pprof());
    end.unwrap();
    let expected = ["main;inner;[unknown] 10", "main;inner;[unknown] 1", "main 5", "main -1"];
    assert_eq!(stacks_of(&tables, "__intrinsic_aggregate_sample", "value"), expected);
    let kinds =
        rows(&tables, "__intrinsic_aggregate_profile", &["name", "sample_type_type", "sample_type_unit"]);
    assert_eq!(kinds, ["pprof cpu cpu nanoseconds", "pprof main main -"]);
    let symbols = rows(
        &tables,
        "stack_profile_symbol",
        &["symbol_set_id", "name", "source_file", "line_number", "inlined"],
    );
    assert_eq!(symbols, ["0 main main.c 7 false", "1 inner main.c 40 true", "1 work - 9 false"]);
    let frames = rows(&tables, "stack_profile_frame", &["rel_pc", "symbol_set_id"]);
    assert_eq!(frames, ["256 0", "512 1", "48 -"]);
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    for (format, file) in samples() {
        for end in 0..file.len() {
            _ = import(format, &file[..end]);
            let _ = recognize(&file[..end]);
        }
    }
}

#[test]
fn what_is_no_such_file_is_said_with_its_place() {
    let file = b"a 1 1.000000: c:\n\tab f (x)\n\nno sample\n";
    let (tables, end) = import(Format::PerfText, file);
    assert!(matches!(end, Err(Error::Broken { offset: 28, .. })), "{end:?}");
    assert_eq!(tables.profiler_sample.len(), 1);
    assert!(matches!(import(Format::Pprof, b"").1, Err(Error::Broken { .. })));
    assert!(matches!(import(Format::Ninja, b"").1, Err(Error::NoReader(Format::Ninja))));
}

#[test]
fn a_packed_profile_is_one() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&pprof()).unwrap();
    let packed = gzip.finish().unwrap();
    assert_eq!(recognize(&packed), Some(Format::Gzip));
    let unpacked = ferretto_trace_read::container::unpacked(packed.as_slice()).unwrap();
    let mut model = Model::default();
    read(Format::Pprof, std::io::BufReader::new(unpacked), &mut model).unwrap();
    assert_eq!(model.finish().aggregate_sample.len(), 4);
}

proptest! {
    #[test]
    fn damaged_files_do_no_harm(
        which in 0usize..3,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (format, mut file) = samples().swap_remove(which);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = recognize(&file);
        _ = import(format, &file);
    }

    #[test]
    fn anything_may_be_a_file(file in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = recognize(&file);
        for format in [Format::CollapsedStack, Format::PerfText, Format::Pprof] {
            _ = import(format, &file);
        }
    }
}
