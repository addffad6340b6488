//! What profilers write: dumps of heaps, and samples of processors.

use std::fmt::Write;

use super::Numbers;

/// Clocks, and the processes that are looked at.
const HEAD: &str = r#"
packet { clock_snapshot { primary_trace_clock: BUILTIN_CLOCK_BOOTTIME
    clocks { clock_id: 6 timestamp: 1000000000 } clocks { clock_id: 3 timestamp: 1000000000 } clocks { clock_id: 4 timestamp: 400000000 }
    clocks { clock_id: 1 timestamp: 1700000000000000000 }
} }
packet { timestamp: 1000000000 trusted_packet_sequence_id: 1 process_tree {
    processes { pid: 100 ppid: 1 cmdline: "/bin/eager" cmdline: "--now" uid: 1000 } processes { pid: 200 ppid: 1 cmdline: "/bin/lazy" }
    threads { tid: 101 tgid: 100 name: "worker" } threads { tid: 201 tgid: 200 name: "waiter" }
} }
"#;

/// Functions, by the numbers of their frames. The last one lies in the kernel.
const FUNCTIONS: [&str; 8] =
    ["main", "run", "parse", "read", "compress", "render", "allocate", "do_syscall_64"];

/// Stacks by the numbers of their frames, outermost first.
const STACKS: [&[usize]; 6] = [&[0], &[0, 1], &[0, 1, 2], &[0, 1, 3, 7], &[0, 1, 2, 6], &[0, 4, 5, 6]];

/// What stands behind the numbers of frames and stacks. A generation has its own numbers: `shift` more than the first.
fn interned(shift: usize) -> String {
    let mut text = format!(
        "interned_data {{ build_ids {{ iid: {0} str: \"\\x01\\xfe\" }} mapping_paths {{ iid: {0} str: \"usr\" }} \
         mapping_paths {{ iid: {1} str: \"prog\" }} mapping_paths {{ iid: {2} str: \"kernel\" }} \
         mappings {{ iid: {0} build_id: {0} start: 4096 end: 65536 exact_offset: 512 load_bias: 16 path_string_ids: {0} path_string_ids: {1} }} \
         mappings {{ iid: {1} path_string_ids: {2} }} ",
        shift + 1,
        shift + 2,
        shift + 3,
    );
    for (at, name) in FUNCTIONS.iter().enumerate() {
        let iid = shift + at + 1;
        let mapping = shift + if at == FUNCTIONS.len() - 1 { 2 } else { 1 };
        write!(
            text,
            "function_names {{ iid: {iid} str: \"{name}\" }} \
             frames {{ iid: {iid} function_name_id: {iid} mapping_id: {mapping} rel_pc: {} }} ",
            at * 64 + 8
        )
        .expect("a text");
    }
    for (at, frames) in STACKS.iter().enumerate() {
        write!(text, "callstacks {{ iid: {} ", shift + at + 1).expect("a text");
        for frame in *frames {
            write!(text, "frame_ids: {} ", shift + frame + 1).expect("a text");
        }
        text.push_str("} ");
    }
    text.push_str("} ");
    text
}

/// Samples by cycles of two processes, in three generations of interned state, with what was lost and skipped; and a program's own, as Chrome
/// takes them.
pub(crate) fn samples() -> Vec<u8> {
    let mut numbers = Numbers::of(1);
    let mut text = HEAD.to_owned();
    let mut ts = 1_000_000_000;
    for generation in 0..3 {
        let shift = generation * 20;
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: 3 sequence_flags: 1 timestamp: {ts} trace_packet_defaults {{ perf_sample_defaults {{ \
             timebase {{ counter: HW_CPU_CYCLES }} }} }} {} }}",
            interned(shift)
        )
        .expect("a text");
        for at in 0..100 {
            ts += 500_000 + numbers.below(1_000_000);
            let (pid, tid) = [(100, 100), (100, 101), (200, 201)][numbers.below(3) as usize];
            let stack = shift as u64 + 1 + numbers.below(STACKS.len() as u64);
            let (cpu, mode) = (numbers.below(4), ["MODE_USER", "MODE_KERNEL"][numbers.below(2) as usize]);
            let error = if at % 17 == 0 { "unwind_error: UNWIND_ERROR_MAX_FRAMES_EXCEEDED" } else { "" };
            let what = match at % 29 {
                28 => "sample_skipped_reason: PROFILER_SKIP_UNWIND_ENQUEUE".to_owned(),
                _ => format!("callstack_iid: {stack} {error}"),
            };
            writeln!(
                text,
                "packet {{ trusted_packet_sequence_id: 3 sequence_flags: 2 timestamp: {ts} perf_sample {{ cpu: {cpu} pid: {pid} tid: {tid} \
                 cpu_mode: {mode} timebase_count: {} {what} }} }}",
                ts / 100
            )
            .expect("a text");
        }
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: 3 sequence_flags: 2 timestamp: {ts} perf_sample {{ cpu: 2 kernel_records_lost: 7 }} }}"
        )
        .expect("a text");
    }
    // By the monotonic clock, as the head has it, and after all others: v52 takes a packet's samples when its packet comes.
    let mut us = 2_000_000;
    writeln!(
        text,
        "packet {{ trusted_packet_sequence_id: 4 sequence_flags: 1 timestamp: {us}000 thread_descriptor {{ pid: 200 tid: 200 reference_timestamp_us: {us} \
         thread_name: \"sampled\" }} {} }}",
        interned(0)
    )
    .expect("a text");
    for _ in 0..20 {
        let deltas = [1000 + numbers.below(5000), 2500];
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: 4 sequence_flags: 2 timestamp: {us}000 streaming_profile_packet {{ \
             callstack_iid: {} callstack_iid: {} timestamp_delta_us: {} timestamp_delta_us: {} process_priority: {} }} }}",
            1 + numbers.below(6),
            1 + numbers.below(6),
            deltas[0],
            deltas[1],
            numbers.below(10),
        )
        .expect("a text");
        us += deltas.iter().sum::<u64>();
    }
    parsed(&text)
}

/// Dumps of two heaps, which go on in several packets and in new generations of interned state.
pub(crate) fn heaps() -> Vec<u8> {
    let mut numbers = Numbers::of(2);
    let mut text = HEAD.to_owned();
    let mut sums = [[(0, 0, 0, 0); STACKS.len()]; 2];
    let mut index = 0;
    for dump in 0..8 {
        let shift = dump / 3 * 20;
        let ts = 1_000_000_000 + dump as u64 * 20_000_000;
        let flags = if dump % 3 == 0 { 1 } else { 2 };
        let state = if flags == 1 { interned(shift) } else { String::new() };
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: 3 sequence_flags: {flags} timestamp: {ts} {state} }}"
        )
        .expect("a text");
        for (process, sums) in sums.iter_mut().enumerate() {
            let mut samples = String::new();
            for (stack, (allocated, freed, allocs, frees)) in sums.iter_mut().enumerate() {
                let more = numbers.below(5);
                *allocs += more;
                *allocated += more * 4096;
                let less = numbers.below(*allocs - *frees + 1);
                *frees += less;
                *freed += less * 4096;
                write!(
                    samples,
                    "samples {{ callstack_id: {} self_allocated: {allocated} self_freed: {freed} alloc_count: {allocs} free_count: {frees} }} ",
                    shift + stack + 1
                )
                .expect("a text");
            }
            let continued = if process == 0 { "continued: true" } else { "" };
            writeln!(
                text,
                "packet {{ trusted_packet_sequence_id: 3 sequence_flags: 2 timestamp: {0} profile_packet {{ index: {index} {continued} process_dumps {{ \
                 pid: {1} heap_name: \"libc.malloc\" timestamp: {2} sampling_interval_bytes: 4096 stats {{ heap_samples: {dump} }} {samples} }} }} }}",
                ts + 1000,
                [100, 200][process],
                // By the coarse clock of the monotonic time, as the profiler says it.
                ts - 600_000_000,
            )
            .expect("a text");
            index += 1;
        }
    }
    parsed(&text)
}

fn parsed(text: &str) -> Vec<u8> {
    ferretto_protos::text::parse("perfetto.protos.Trace", text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}
