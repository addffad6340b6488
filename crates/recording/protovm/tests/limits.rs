//! What hostile programs and packets cannot do.

mod notation;

use std::time::{Duration, Instant};

use ferretto_protovm::{AbortReason, ApplyError, MAX_DEPTH, MAX_PROGRAM_SIZE, Program, ProgramError, Vm};
use notation::{message, program, program_bytes};
use proptest::prelude::*;

fn used(vm: &Vm) -> usize {
    vm.memory_usage_bytes() - vm.program().memory_bytes()
}

fn abort_reason(result: Result<(), ApplyError>) -> AbortReason {
    match result {
        Err(ApplyError::Aborted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_memory_limit_is_strict() {
    // A field takes 96 bytes, and its text as well.
    let cases = [("1:1", 96), ("1:1 2:2", 192), ("1:\"abc\"", 99), ("1:{2:2}", 98), ("1:1 1:2", 288)];
    for (packet, needed) in cases {
        let mut vm = Vm::new(program("merge"), needed);
        assert_eq!(vm.apply(&message(packet)), Ok(()), "{packet}");
        assert_eq!(used(&vm), needed, "{packet}");

        let mut vm = Vm::new(program("merge\ndst 1"), needed - 1);
        let result = vm.apply(&message(packet));
        if packet == "1:1 1:2" {
            // The second element is dropped: see `an_element_without_memory_is_dropped`.
            assert_eq!(used(&vm), 192);
        } else {
            assert!(matches!(abort_reason(result), AbortReason::MemoryLimit { .. }), "{packet}");
        }
    }
}

#[test]
fn an_element_without_memory_is_dropped() {
    let mut vm = Vm::new(program("merge"), 288 - 1);
    assert_eq!(vm.apply(&message("1:1 1:2")), Ok(()));
    let mut state = Vec::new();
    vm.serialize_state(&mut state);
    assert_eq!(state, message("1:1"));
}

#[test]
fn a_state_that_is_too_large_to_begin_with_is_dropped() {
    for (limit, expected) in [(2, "1:1"), (1, "")] {
        let vm = Vm::with_state(program("merge"), limit, &message("1:1"));
        let mut state = Vec::new();
        vm.serialize_state(&mut state);
        assert_eq!(state, message(expected));
    }
}

#[test]
fn deleting_gives_memory_back_except_at_the_root() {
    let mut vm = Vm::new(program("merge\ndst 1\n  del"), 1 << 20);
    vm.apply(&message("1:{2:2}")).unwrap();
    assert_eq!(used(&vm), 0);
    let mut vm = Vm::new(program("merge\ndel"), 500);
    for expected in [96, 192, 288, 384, 480] {
        vm.apply(&message("1:1")).unwrap();
        assert_eq!(used(&vm), expected);
    }
    assert!(matches!(abort_reason(vm.apply(&message("1:1"))), AbortReason::MemoryLimit { .. }));
}

/// Selects within selects, `levels` in all, and a set in the innermost.
fn nested_selects(levels: usize) -> String {
    let selects = (0..levels).map(|level| format!("{:indent$}dst+ 1\n", "", indent = 2 * level));
    selects.chain([format!("{:indent$}set", "", indent = 2 * levels)]).collect()
}

#[test]
fn programs_are_bounded_in_depth() {
    // Each select is a level, and its path another.
    let deepest = nested_selects(MAX_DEPTH / 2 - 1);
    let mut vm = Vm::new(program(&deepest), 1 << 20);
    assert_eq!(vm.apply(&message("7:7")), Ok(()));
    let clone = vm.clone_read_only();
    assert!(clone.memory_usage_bytes() > MAX_DEPTH);

    let too_deep = program_bytes(&nested_selects(MAX_DEPTH / 2));
    assert_eq!(Program::parse(&too_deep).map(drop), Err(ProgramError::TooDeep));

    let path = |len| program_bytes(&format!("dst+{}", " 1".repeat(len)));
    assert!(Program::parse(&path(MAX_DEPTH - 1)).is_ok());
    assert_eq!(Program::parse(&path(MAX_DEPTH)).map(drop), Err(ProgramError::TooDeep));
}

#[test]
fn the_deepest_program_runs_on_a_small_stack() {
    let iterations =
        (0..MAX_DEPTH / 2 - 1).map(|level| format!("{:indent$}src 1[*]\n", "", indent = 2 * level));
    let text: String = iterations.collect();
    let mut packet = Vec::new();
    for _ in 0..MAX_DEPTH {
        let mut outer = vec![0x0a];
        ferretto_protozero::varint::encode(packet.len() as u64, &mut outer);
        outer.extend(packet);
        packet = outer;
    }
    for text in [text, nested_selects(MAX_DEPTH / 2 - 1)] {
        let (program, packet) = (program(&text), packet.clone());
        let run = move || {
            let mut vm = Vm::new(program, 1 << 20);
            vm.apply(&packet).unwrap();
            vm.apply(&packet).unwrap();
            vm.clone_read_only().memory_usage_bytes()
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn programs_are_bounded_in_size() {
    let instructions = |count| message("2:{}").repeat(count);
    assert!(Program::parse(&instructions(MAX_PROGRAM_SIZE)).is_ok());
    assert_eq!(Program::parse(&instructions(MAX_PROGRAM_SIZE + 1)).map(drop), Err(ProgramError::TooLong));
}

#[test]
fn programs_take_memory_as_their_sizes_justify() {
    // The shortest of each: an instruction, one within another, a component of a path.
    let path = "1:{".to_owned() + &"2:{} ".repeat(200) + "}";
    for shortest in ["2:{}", "2:{7:{}}", &format!("2:{{{path}}}")] {
        let bytes = message(shortest).repeat(100);
        let taken = Program::parse(&bytes).unwrap().memory_bytes();
        assert!(taken <= 17 * bytes.len(), "{shortest:.10}: {} bytes take {taken}", bytes.len());
    }
}

#[test]
fn a_program_cannot_run_forever() {
    // For each element of the packet, each of the state, each of the packet again, …
    let text = "
merge
src 1[*]
  dst 1[*]
    src 2[*]
      dst 2[*]
        set";
    let packet = message(&("1:{} ".repeat(10_000) + "2:1"));
    let mut vm = Vm::new(program(text), 1 << 24);
    let start = Instant::now();
    assert_eq!(abort_reason(vm.apply(&packet)), AbortReason::TooManySteps);
    // Some tens of milliseconds; a debug build on a busy machine takes longer.
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn looking_for_fields_counts_as_steps() {
    // 2^28 is a number that is skipped, as if the field were not there.
    let cases =
        [("3:1 ", "src 9 | skip\n"), ("268435456:1 ", "src 9[*]\n"), ("268435456:1 ", "src\n  merge\n")];
    for (fields, look) in cases {
        let packet = message(&fields.repeat(10_000));
        let mut vm = Vm::new(program(&look.repeat(500)), 1 << 20);
        assert_eq!(abort_reason(vm.apply(&packet)), AbortReason::TooManySteps, "{fields} {look}");
    }
}

/// Each field is made and deleted again, so that no memory grows; the last one has no room.
#[test]
fn a_merge_that_aborts_has_taken_steps_and_ends_at_their_bound() {
    let packet = message(&("1:1 1:{} ".repeat(1000) + "2:\"" + &"a".repeat(2000) + "\""));
    for text in ["merge del", "dst+ 3\n  merge del"] {
        let mut vm = Vm::new(program(text), 1024);
        let reason = abort_reason(vm.apply(&packet));
        assert!(matches!(reason, AbortReason::MemoryLimit { .. }), "{reason}");
        assert!(vm.last_steps() >= 2000, "{}", vm.last_steps());
        let mut vm = Vm::new(program(text), 1024);
        let Err(ApplyError::Aborted { reason, .. }) = vm.apply_within(&packet, 100) else { panic!("{text}") };
        assert_eq!(reason, AbortReason::TooManySteps);
        assert!((100..110).contains(&vm.last_steps()), "{}", vm.last_steps());
    }
}

/// Likewise a message that does not fit when a field in it is selected, again and again.
#[test]
fn a_message_that_does_not_become_one_has_taken_steps() {
    let state = message(&"1:1 ".repeat(1000));
    let mut vm = Vm::with_state(program("dst 2 | skip\ndst 2 | skip"), 4000, &state);
    let reason = abort_reason(vm.apply(&[]));
    assert!(matches!(reason, AbortReason::MemoryLimit { .. }), "{reason}");
    assert!(vm.last_steps() >= 20, "{}", vm.last_steps());
    assert!(vm.apply_within(&[], 10).is_err());
    assert!(vm.last_steps() <= 30, "{}", vm.last_steps());
}

#[test]
fn packets_of_a_megabyte_fit_the_bound_on_steps() {
    let text = "
src 1[*]
  src 2
    load 0
  dst+ 3[2=r0]
    src 3 | skip
      dst+ 3
        set
    merge del";
    let packet: String = (0..100_000).map(|key| format!("1:{{2:{key} 3:{key}}} ")).collect();
    let mut vm = Vm::new(program(text), 1 << 30);
    assert_eq!(vm.apply(&message(&packet)), Ok(()));
}

/// A message of small numbers, with messages in it: as a program it is mostly one that does something.
fn any_message(depth: u32) -> impl Strategy<Value = Vec<u8>> {
    let number = (1u8..8, 0u8..6).prop_map(|(field, value)| vec![field << 3, value]);
    let noise = proptest::collection::vec(any::<u8>(), 0..3);
    let leaf = prop_oneof![8 => number, 1 => noise];
    leaf.prop_recursive(depth, 64, 5, |inner| {
        let fields = proptest::collection::vec(inner, 0..5);
        (1u8..8, fields).prop_map(|(field, fields)| {
            let nested = fields.concat();
            let mut out = vec![field << 3 | 2];
            ferretto_protozero::varint::encode(nested.len() as u64, &mut out);
            out.extend(nested);
            out
        })
    })
}

fn any_messages() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any_message(5), 0..6).prop_map(|fields| fields.concat())
}

/// Lines as `notation::program` takes them.
fn any_program() -> impl Strategy<Value = String> {
    const LINES: &[&str] = &[
        "src 1",
        "src 2 1",
        "src 1[*]",
        "src 2[*r0]",
        "src 1[1]",
        "dst 1",
        "dst+ 2",
        "dst+ 1 2",
        "dst+ 1[0]",
        "dst+ 1[1]",
        "dst+ 2[1=r0]",
        "dst 2[1=r0]",
        "dst 1[*]",
        "dst 2[*r1]",
        "both+ 1",
        "dst",
        "src",
        "load 0",
        "load 0 dst",
        "load 40",
        "set",
        "del",
        "merge",
        "merge skip",
        "merge del",
        "merge skip del",
        "none",
    ];
    let line = (proptest::sample::select(LINES), 0usize..6, proptest::bool::weighted(0.7));
    proptest::collection::vec(line, 1..20).prop_map(|lines| {
        let lines = lines.into_iter().map(|(line, level, skip)| {
            let level_of_failure = if skip { "| skip" } else { "" };
            format!("{:indent$}{line} {level_of_failure}\n", "", indent = 2 * level)
        });
        lines.collect()
    })
}

fn run(program: &[u8], limit: usize, state: &[u8], packets: &[Vec<u8>]) {
    let Ok(program) = Program::parse(program) else { return };
    let mut vm = Vm::with_state(program, limit, state);
    for packet in packets {
        let mut before = Vec::new();
        vm.serialize_state(&mut before);
        let concerns = vm.concerns(packet, &mut 0);
        assert!(vm.may_concern(packet) || !concerns);
        let outcome = vm.apply(packet);
        assert!(used(&vm) <= limit);
        let mut state = Vec::new();
        vm.serialize_state(&mut state);
        assert!(concerns || (outcome == Err(ApplyError::Failed) && state == before));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_vm_panic(
        program in proptest::collection::vec(any_message(6), 0..6),
        limit in 0usize..2000,
        state in any_messages(),
        packets in proptest::collection::vec(any_messages(), 0..5),
    ) {
        let mut bytes = Vec::new();
        for instruction in program {
            bytes.push(0x12);
            ferretto_protozero::varint::encode(instruction.len() as u64, &mut bytes);
            bytes.extend(instruction);
        }
        run(&bytes, limit, &state, &packets);
    }

    #[test]
    fn no_program_makes_a_vm_panic(
        text in any_program(),
        limit in prop_oneof![0usize..2000, Just(1 << 20)],
        state in any_messages(),
        packets in proptest::collection::vec(any_messages(), 0..5),
    ) {
        run(&program_bytes(&text), limit, &state, &packets);
    }
}
