//! Recordings of perf: what they become, and files that end anywhere.

mod tables;

use ferretto_trace_formats::Error;
use ferretto_trace_formats::recognize::{Format, recognize};
use ferretto_trace_tables::Tables;
use proptest::prelude::*;
use tables::{import, rows};

/// What `perf record -o - -z -g -e cpu-clock -F 1500 -- sh -c '…; ls /'` of perf 6.1 wrote.
const PIPED_AND_PACKED: &[u8] = include_bytes!("data/perf_piped_packed.data");

type Bytes = Vec<u8>;

fn words(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn halves(numbers: &[u32]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A text with its 0, in whole words.
fn text(text: &str) -> Bytes {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Bytes {
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

const KERNEL: u16 = 1;
const USER: u16 = 2;
/// IDENTIFIER, IP, TID, TIME, CPU, CALLCHAIN; what samples say, and what is behind other records.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 5;
const MARK_KERNEL: u64 = -128_i64 as u64;
const MARK_USER: u64 = -512_i64 as u64;

/// Software's event 0 or 2, every 1000, with the id behind each record.
fn attr(config: u64, period: u64) -> Bytes {
    let sample_id_all = 1 << 18;
    let mut attr = [halves(&[1, 112]), words(&[config, period, SAMPLE_TYPE, 0, sample_id_all])].concat();
    attr.resize(112, 0);
    attr
}

fn behind(pid: u32, tid: u32, time: u64, cpu: u64) -> Bytes {
    [halves(&[pid, tid]), words(&[time, cpu, 7])].concat()
}

fn sample(id: u64, misc: u16, (pid, tid): (u32, u32), time: u64, cpu: u64, chain: &[u64]) -> Bytes {
    let ip = chain.iter().copied().find(|address| *address < MARK_USER).unwrap_or(0);
    let head = [words(&[id, ip]), halves(&[pid, tid]), words(&[time, cpu, chain.len() as u64])].concat();
    record(9, misc, &[head, words(chain)].concat())
}

fn mmap2(
    misc: u16,
    (pid, tid): (u32, u32),
    start: u64,
    len: u64,
    offset: u64,
    path: &str,
    time: u64,
) -> Bytes {
    let place = [halves(&[pid, tid]), words(&[start, len, offset, 0, 0, 0, 0]), text(path)].concat();
    record(10, misc, &[place, behind(pid, tid, time, 0)].concat())
}

fn comm(misc: u16, pid: u32, tid: u32, name: &str, time: u64) -> Bytes {
    record(3, misc, &[halves(&[pid, tid]), text(name), behind(pid, tid, time, 0)].concat())
}

fn task(kind: u32, [pid, parent_pid, tid, parent_tid]: [u32; 4], time: u64) -> Bytes {
    let body = [halves(&[pid, parent_pid, tid, parent_tid]), words(&[time])].concat();
    record(kind, 0, &[body, behind(pid, tid, time, 0)].concat())
}

/// A program that starts a thread and a process, which runs another program.
fn records() -> Bytes {
    const EXEC: u16 = 1 << 13;
    let exe = 0x40_0000;
    [
        mmap2(
            KERNEL,
            (u32::MAX, 0),
            0xffff_ffff_8100_0000,
            0x100_0000,
            0xffff_ffff_8100_0000,
            "[kernel.kallsyms]_text",
            0,
        ),
        comm(USER, 10, 10, "app", 0),
        mmap2(USER, (10, 10), exe, 0x1000, 0x2000, "/bin/app", 0),
        // Out of order, as two processors' buffers are.
        sample(8, USER, (10, 11), 300, 1, &[MARK_USER, exe + 0x30]),
        sample(
            7,
            KERNEL,
            (10, 10),
            100,
            0,
            &[MARK_KERNEL, 0xffff_ffff_8100_0123, MARK_USER, exe + 0x11, exe + 0x21, 5],
        ),
        task(7, [10, 10, 11, 10], 200),
        task(7, [20, 10, 20, 10], 400),
        sample(7, USER, (20, 20), 410, 0, &[MARK_USER, exe + 0x11]),
        comm(USER | EXEC, 20, 20, "child", 420),
        sample(7, USER, (20, 20), 430, 0, &[MARK_USER, exe + 0x11]),
        record(2, 0, &[words(&[7, 12]), behind(10, 10, 440, 1)].concat()),
        task(4, [20, 10, 20, 10], 450),
        // It is sampled while it ends.
        sample(7, KERNEL, (20, 20), 455, 0, &[MARK_KERNEL, 0xffff_ffff_8100_0200]),
        record(18, 0, &behind(10, 10, 460, 0)),
    ]
    .concat()
}

/// The header, two things that were sampled, the records, and three features.
fn file() -> Bytes {
    const HEADER: u64 = 104;
    let attrs_at = HEADER + 16;
    let attrs_bytes = 2 * (112 + 16);
    let data_at = attrs_at + attrs_bytes;
    let records = records();
    let counted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(64), 0);
        [halves(&[bytes.len() as u32]), bytes].concat()
    };
    let command = [halves(&[2]), counted("perf"), counted("record")].concat();
    let build_id =
        record(67, USER, &[halves(&[u32::MAX]), vec![0xab; 20], vec![0; 4], text("/bin/app")].concat());
    let names =
        [halves(&[1, 112]), attr(0, 1000), halves(&[1]), counted("cpu-clock:u"), words(&[7])].concat();
    let features = [(2, build_id), (11, command), (12, names)];
    let mut at = data_at + records.len() as u64 + 16 * features.len() as u64;
    let mut table = Bytes::new();
    for (_, bytes) in &features {
        table.extend(words(&[at, bytes.len() as u64]));
        at += bytes.len() as u64;
    }
    let flags: u64 = features.iter().map(|(number, _)| 1 << number).sum();
    [
        b"PERFILE2".to_vec(),
        words(&[
            HEADER,
            112 + 16,
            attrs_at,
            attrs_bytes,
            data_at,
            records.len() as u64,
            0,
            0,
            flags,
            0,
            0,
            0,
        ]),
        words(&[7, 8]),
        attr(0, 1000),
        words(&[HEADER, 8]),
        attr(2, 1),
        words(&[HEADER + 8, 8]),
        records,
        table,
        features.into_iter().flat_map(|(_, bytes)| bytes).collect(),
    ]
    .concat()
}

/// The time of each sample and its addresses in their files, the innermost first.
fn samples(tables: &Tables) -> Vec<String> {
    let sample = |row: usize| {
        let mut at = tables.profiler_sample.callsite_id.get(row);
        let mut frames = Vec::new();
        while let Some(callsite) = at {
            let frame = tables.callsite.frame_id[callsite.index()].index();
            let path = tables.mapping.name[tables.frame.mapping[frame].index()];
            let path = path.map_or("-", |path| tables.strings.get(path));
            frames.push(format!("{}+{:#x}", path.rsplit('/').next().unwrap(), tables.frame.rel_pc[frame]));
            at = tables.callsite.parent_id.get(callsite.index());
        }
        format!("{} {}", tables.profiler_sample.ts.at(row), frames.join(" "))
    };
    (0..tables.profiler_sample.len()).map(sample).collect()
}

#[test]
fn samples_have_stacks_in_the_files_that_were_there() {
    let file = file();
    assert_eq!(recognize(&file), Some(Format::Perf));
    let (tables, end) = import(Format::Perf, &file);
    end.unwrap();
    assert_eq!(
        samples(&tables),
        [
            // Of callers it is the address before that behind the call. One is nowhere.
            "100 [kernel.kallsyms]_text+0x123 app+0x2010 app+0x2020 +0x4",
            "300 app+0x2030",
            // A child has its parent's files until it runs another program.
            "410 app+0x2011",
            "430 +0x400011",
            "455 [kernel.kallsyms]_text+0x200",
        ]
    );
    let mappings = rows(&tables, "stack_profile_mapping", &["name", "build_id", "exact_offset", "start"]);
    assert_eq!(mappings[1], format!("/bin/app {} 8192 4194304", "ab".repeat(20)));
    assert_eq!(
        rows(&tables, "__intrinsic_profiler_session", &["source", "cmdline"]),
        ["linux.perf perf record"]
    );
    let modes = rows(&tables, "__intrinsic_profiler_execution_context", &["ucpu", "cpu_mode"]);
    assert_eq!(modes, ["0 kernel", "1 user", "0 user"]);
}

#[test]
fn threads_and_processes_begin_end_and_have_names() {
    let (tables, _) = import(Format::Perf, &file());
    let threads = rows(&tables, "thread", &["tid", "name", "start_ts", "end_ts", "upid"]);
    assert_eq!(threads, ["0 swapper - - 0", "10 app - - 1", "11 app 200 - 1", "20 child 400 450 2"]);
    let processes = rows(&tables, "process", &["pid", "name", "start_ts", "end_ts", "parent_upid"]);
    assert_eq!(processes[1..], ["10 app - - -", "20 child 400 450 1"]);
    let stats: Vec<String> = rows(&tables, "stats", &["name", "idx", "value"])
        .into_iter()
        .filter(|row| row.starts_with("perf_") && !row.ends_with(" 0"))
        .collect();
    assert_eq!(
        stats,
        [
            "perf_dummy_mapping_used - 2",
            "perf_cpu_lost_records 1 12",
            "perf_unknown_record_type 18 1",
            "perf_record_skipped 18 1"
        ]
    );
}

#[test]
fn counters_are_of_a_processor_and_count_on() {
    let (tables, _) = import(Format::Perf, &file());
    let tracks = rows(&tables, "track", &["name", "type", "cpu"]);
    assert_eq!(tracks, ["cpu-clock:u perf_cpu_counter 0", "page-faults perf_cpu_counter 1"]);
    let values = rows(&tables, "counter", &["ts", "track_id", "value"]);
    assert_eq!(values, ["100 0 1000", "300 1 1", "410 0 2000", "430 0 3000", "455 0 4000"]);
    assert_eq!(rows(&tables, "__intrinsic_profiler_counter_set", &["counter_id"]).len(), 5);
}

#[test]
fn what_is_piped_and_packed_is_read() {
    assert_eq!(recognize(PIPED_AND_PACKED), Some(Format::Perf));
    let (tables, end) = import(Format::Perf, PIPED_AND_PACKED);
    end.unwrap();
    assert_eq!((tables.profiler_sample.len(), tables.counter.len()), (15, 15));
    let threads = rows(&tables, "thread", &["name"]);
    assert_eq!(threads, ["swapper", "sh", "ls"]);
    assert_eq!(rows(&tables, "track", &["name", "type"]), ["cpu-clock perf_global_counter"]);
    let command = &rows(&tables, "__intrinsic_profiler_session", &["cmdline"])[0];
    assert!(command.starts_with("/usr/bin/perf record -o - -z"), "{command}");
    assert!(samples(&tables).iter().any(|sample| sample.contains("libc.so.6+0x")));
}

#[test]
fn a_recording_that_was_not_finished_is_read_to_its_end() {
    let mut bytes = file();
    // The size of its records is not known.
    let records = records().len();
    bytes[48..56].fill(0);
    bytes.truncate(104 + 16 + 2 * 128 + records);
    let (tables, end) = import(Format::Perf, &bytes);
    end.unwrap();
    assert_eq!(tables.profiler_sample.len(), 5);
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    for file in [file(), PIPED_AND_PACKED.to_vec()] {
        let mut before = 0;
        for end in 0..file.len() {
            let (tables, told) = import(Format::Perf, &file[..end]);
            let found = tables.profiler_sample.len();
            assert!(found >= before, "up to {end}: {found} of {before}");
            before = found;
            if let Err(Error::Broken { offset, .. }) = told {
                assert!(offset <= end as u64, "{offset} of {end}");
            }
        }
        assert!(before >= 5, "{before}");
    }
}

#[test]
fn what_is_no_such_file_is_said_with_its_place() {
    for (bytes, at) in [
        (b"PERFILE2".to_vec(), 8),
        ([&b"PERFILE2"[..], &words(&[77])].concat(), 8),
        ([&b"PERFILE2"[..], &words(&[16]), &record(3, 0, &[]), &[0; 8]].concat(), 24),
        ([&b"PERFILE2"[..], &words(&[104, 8, 104, 0, 104, 0, 0, 0, 0, 0, 0, 0])].concat(), 104),
        ([&b"PERFILE2"[..], &words(&[104, 128, 104, 0, 5, 0, 0, 0, 0, 0, 0, 0])].concat(), 40),
    ] {
        let (_, end) = import(Format::Perf, &bytes);
        assert!(matches!(end, Err(Error::Broken { offset, .. }) if offset == at), "{at}: {end:?}");
    }
    assert_eq!(recognize(b"2ELIFREP\0\0\0\0"), Some(Format::ForeignPerf));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn damaged_files_do_no_harm(
        is_piped: bool,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = if is_piped { PIPED_AND_PACKED.to_vec() } else { file() };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = import(Format::Perf, &file);
    }
}

/// A pipe with one tracepoint, what describes it, and a sample of it.
fn with_a_tracepoint(tracing_data: &[u8]) -> Vec<u8> {
    let record = |kind: u32, bytes: &[u8]| {
        let head = [kind.to_le_bytes().to_vec(), vec![0, 0], (bytes.len() as u16 + 8).to_le_bytes().to_vec()];
        [head.concat(), bytes.to_vec()].concat()
    };
    // A tracepoint, number 77; samples have TID, TIME, CPU, RAW, and others the same at their end.
    let mut attr = vec![0; 64];
    attr[..8].copy_from_slice(&[2, 0, 0, 0, 64, 0, 0, 0]);
    attr[8] = 77;
    attr[16] = 1;
    attr[24..32].copy_from_slice(&(1_u64 << 1 | 1 << 2 | 1 << 7 | 1 << 10).to_le_bytes());
    let data_len = tracing_data.len().next_multiple_of(8);
    let mut data = tracing_data.to_vec();
    data.resize(data_len, 0);
    let raw = b"\x4d\0\x05\0\x07\0\0\0\xfd\xff\xff\xffhello\0\0\0";
    let mut sample = [7_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat();
    sample.extend(1_000_u64.to_le_bytes());
    sample.extend(3_u64.to_le_bytes());
    sample.extend((raw.len() as u32).to_le_bytes());
    sample.extend(raw);
    [
        b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec(),
        record(64, &attr),
        record(66, &(tracing_data.len() as u32).to_le_bytes().repeat(2)[..8]),
        data,
        record(9, &sample),
    ]
    .concat()
}

#[test]
fn samples_of_tracepoints_are_events_of_the_kernel_with_their_arguments() {
    let format = "name: greets\nID: 77\nformat:\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int number;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:char word[8];\toffset:12;\tsize:8;\tsigned:0;\n";
    let mut data = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for name in [&b"header_page\0"[..], b"header_event\0"] {
        data.extend([name, &0_u64.to_le_bytes()].concat());
    }
    data.extend([0_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
    data.extend(b"test\0\x01\0\0\0");
    data.extend((format.len() as u64).to_le_bytes());
    data.extend(format.as_bytes());
    let (tables, end) = import(Format::Perf, &with_a_tracepoint(&data));
    end.unwrap();
    assert_eq!(rows(&tables, "ftrace_event", &["ts", "name", "common_flags", "ucpu"]), ["1000 greets 5 3"]);
    let args = rows(&tables, "args", &["key", "int_value", "string_value"]);
    assert_eq!(args[..2], ["number -3 -", "word - hello"]);
    assert_eq!(tables.profiler_sample.len(), 1);
    // Without a description it is a sample all the same.
    let (tables, _) = import(Format::Perf, &with_a_tracepoint(b""));
    assert_eq!((tables.ftrace_event.len(), tables.profiler_sample.len()), (0, 1));
}
