//! What programs do, one promise a test.

mod notation;

use std::sync::Arc;

use ferretto_protovm::{AbortReason, ApplyError, Vm};
use notation::{message, program};

const PLENTY: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Ok,
    Error,
    Abort,
}
use Is::{Abort, Error, Ok};

fn outcome(result: &Result<(), ApplyError>) -> Is {
    match result {
        Result::Ok(()) => Ok,
        Err(ApplyError::Failed) => Error,
        Err(ApplyError::Aborted { .. } | ApplyError::ReadOnly) => Abort,
    }
}

fn state(vm: &Vm) -> Vec<u8> {
    let mut out = Vec::new();
    vm.serialize_state(&mut out);
    out
}

/// Runs the program on each packet of `(state before, packet, outcome, state after)`.
fn check(text: &str, cases: &[(&str, &str, Is, &str)]) {
    for case @ (before, packet, expected, after) in cases {
        let mut vm = match *before {
            "" => Vm::new(program(text), PLENTY),
            before => Vm::with_state(program(text), PLENTY, &message(before)),
        };
        let result = vm.apply(&message(packet));
        assert_eq!(outcome(&result), *expected, "{case:?}: {result:?}");
        assert_eq!(state(&vm), message(after), "{case:?}");
    }
}

/// The reason of an abort.
fn reason(text: &str, before: &str, packet: &str) -> AbortReason {
    let mut vm = Vm::with_state(program(text), PLENTY, &message(before));
    match vm.apply(&message(packet)) {
        Err(ApplyError::Aborted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_select_steps_into_fields() {
    let text = "
src 1 2
  dst+ 3 4
    set";
    check(
        text,
        &[
            ("", "1:{2:7}", Ok, "3:{4:7}"),
            ("3:{4:1 5:2}", "1:{2:7}", Ok, "3:{4:7 5:2}"),
            ("", "1:{2:\"text\"}", Ok, "3:{4:\"text\"}"),
            ("", "1:{2:7f}", Ok, "3:{4:7f}"),
            ("", "1:{2:7d}", Ok, "3:{4:7d}"),
            // Of several values of a field in the packet the first counts.
            ("", "1:{2:7 2:8}", Ok, "3:{4:7}"),
            ("9:1", "1:{3:7}", Error, "9:1"),
            ("9:1", "1:5", Abort, "9:1"),
            ("3:5", "1:{2:7}", Abort, "3:5"),
        ],
    );
}

#[test]
fn a_select_does_not_create_unless_told_to() {
    let text = "
src 1
  dst 2
    set";
    check(text, &[("", "1:7", Error, ""), ("2:1", "1:7", Ok, "2:7")]);
    assert_eq!(reason("src+ 1", "", "1:7"), AbortReason::CreateInSource);
}

#[test]
fn a_select_steps_into_elements_by_index() {
    let text = "
src 1[1]
  dst+ 2[1]
    set";
    check(
        text,
        &[
            ("2:{3:1} 2:{3:2} 2:{3:3}", "1:{9:1} 1:{9:2}", Ok, "2:{3:1} 2:{9:2} 2:{3:3}"),
            // The next one is added, even without create_if_not_exist.
            ("2:{3:1}", "1:{9:1} 1:{9:2}", Ok, "2:{3:1} 2:{9:2}"),
            ("2:{3:1}", "1:{9:1}", Error, "2:{3:1}"),
            ("", "1:{9:1} 1:{9:2}", Abort, ""),
            // Numbers selected by index are empty messages, as with upstream.
            ("2:{3:1}", "1:5 1:6", Ok, "2:{3:1} 2:{}"),
        ],
    );
    let beyond = AbortReason::IndexBeyondEnd { index: 5, len: 2 };
    assert_eq!(reason("dst+ 2[5]", "2:{} 2:{}", ""), beyond);
}

#[test]
fn a_select_steps_into_elements_by_key() {
    let text = "
src 1[*]
  src 2
    load 4
  dst+ 5[2=r4]
    merge";
    check(
        text,
        &[
            ("", "1:{2:9 3:1} 1:{2:7 3:2}", Ok, "5:{2:7 3:2} 5:{2:9 3:1}"),
            ("5:{2:7 6:1}", "1:{2:7 3:2}", Ok, "5:{2:7 3:2 6:1}"),
            ("5:{2:8} 5:{2:7 6:1}", "1:{2:7 3:2}", Ok, "5:{2:7 3:2 6:1} 5:{2:8}"),
            // Keys have 32 bits.
            ("5:{2:1}", "1:{2:4294967297 3:2}", Ok, "5:{2:4294967297 3:2}"),
            ("5:{3:1}", "1:{2:1}", Abort, "5:{3:1}"),
            ("5:1", "1:{2:1}", Abort, "5:1"),
        ],
    );
    assert_eq!(reason("src 5[2=r4]", "", ""), AbortReason::EmptyRegister(4));
    assert_eq!(reason("src 1\n  load 0\nsrc 5[2=r0]", "", "1:1"), AbortReason::KeyInSource);
}

#[test]
fn a_select_iterates_over_the_source() {
    let text = "
src 1[*] 2
  dst+ 3
    set";
    check(
        text,
        &[
            ("", "1:{2:1} 4:1 1:{2:2}", Ok, "3:2"),
            // Without elements nothing is run, and nothing fails.
            ("", "4:1", Ok, ""),
            // The first element without a field 2 ends it.
            ("", "1:{2:1} 1:{} 1:{2:3}", Error, "3:1"),
        ],
    );
}

#[test]
fn a_select_iterates_over_the_destination() {
    let text = "
src 1
  dst 2[*]
    dst+ 3
      set";
    check(
        text,
        &[
            ("2:{3:1} 2:{} 2:{4:5}", "1:7", Ok, "2:{3:7} 2:{3:7} 2:{3:7 4:5}"),
            ("2:{}", "1:7", Ok, "2:{3:7}"),
            ("", "1:7", Ok, ""),
            ("2:{3:1} 2:5", "1:7", Abort, "2:{3:7} 2:5"),
        ],
    );
    assert_eq!(reason("both 1[*]", "", ""), AbortReason::IterateBoth);
}

#[test]
fn an_iteration_stores_its_index() {
    let by_index = "
src 1[*r2]
  dst+ 5[9=r2]
    set";
    check(by_index, &[("", "1:\"a\" 1:\"b\" 1:\"c\"", Ok, "5:\"a\" 5:\"b\" 5:\"c\"")]);
    let in_state = "
dst 1[*r3]
  dst+ 2
    merge
src 6
  dst+ 5[9=r3]
    set";
    check(in_state, &[("1:{} 1:{} 5:{9:1 3:8}", "6:{3:4}", Ok, "1:{2:{6:{3:4}}} 1:{2:{6:{3:4}}} 5:{3:4}")]);
    assert_eq!(reason("src 1[*r32]", "", "1:1"), AbortReason::NoSuchRegister(32));
}

#[test]
fn the_cursor_both_moves_the_destination() {
    check("both+ 1\n  set", &[("", "3:1", Ok, "1:{3:1}")]);
}

#[test]
fn cursors_come_back_after_a_select() {
    let text = "
src 1
  dst+ 2
    set
src 3
  dst+ 4
    set";
    check(text, &[("", "1:5 3:6", Ok, "2:5 4:6")]);
}

#[test]
fn a_path_begins_with_a_field() {
    assert_eq!(reason("src [1]", "", "1:1"), AbortReason::NoFieldId);
    assert_eq!(reason("dst [2=r0]", "", "1:1"), AbortReason::NoFieldId);
}

#[test]
fn abort_levels_say_what_a_failure_ends() {
    // The select of field 1 fails if it is not there; what runs after it?
    let cases = [
        ("skip", "skip", Ok, "2:2 3:3"),
        ("break", "skip", Ok, "3:3"),
        ("", "skip", Ok, "3:3"),
        ("break", "break", Error, ""),
        ("", "", Error, ""),
        ("abort", "skip", Abort, ""),
        ("skip", "abort", Ok, "2:2 3:3"),
        ("break", "abort", Abort, ""),
    ];
    for (inner, outer, expected, after) in cases {
        let text = format!(
            "
src | {outer}
  src 1 | {inner}
    dst+ 1
      set
  src 2
    dst+ 2
      set
src 3
  dst+ 3
    set"
        )
        .replace("| \n", "\n");
        check(&text, &[("", "2:2 3:3", expected, after)]);
    }
}

#[test]
fn instructions_nested_in_others_than_selects_run_after_them() {
    let text = "
merge
  dst 1
    del";
    check(text, &[("", "1:1 2:2", Ok, "2:2"), ("1:1", "2:2", Ok, "2:2"), ("", "2:2", Error, "2:2")]);
}

#[test]
fn an_unknown_operation_aborts() {
    assert_eq!(reason("none", "", ""), AbortReason::UnknownOperation);
}

#[test]
fn registers_hold_numbers_from_packet_to_packet() {
    let text = "
src 1 | skip
  load 31
dst+ 5[2=r31]
  set";
    let mut vm = Vm::new(program(text), PLENTY);
    vm.apply(&message("1:7 2:1")).unwrap();
    vm.apply(&message("2:2")).unwrap();
    assert_eq!(state(&vm), message("5:{2:2}"));

    assert_eq!(reason("src 1\n  load 32", "", "1:1"), AbortReason::NoSuchRegister(32));
    // Of a register's number the lowest eight bits count.
    check("src 1\n  load 256\ndst+ 5[2=r0]\n  set", &[("", "1:1", Ok, "5:{1:1}")]);
    let text = "
dst 1
  load 0 dst
dst+ 5[2=r0]
  set";
    check(text, &[("1:3", "2:3", Ok, "1:3 5:{2:3}"), ("1:{}", "2:3", Abort, "1:{}")]);
}

#[test]
fn a_merge_takes_over_the_fields_of_the_source() {
    check(
        "merge",
        &[
            ("", "1:1 2:\"a\"", Ok, "1:1 2:\"a\""),
            ("1:1 2:2", "2:3 4:4", Ok, "1:1 2:3 4:4"),
            ("1:1", "", Ok, "1:1"),
            ("1:{2:2}", "1:{3:3}", Ok, "1:{3:3}"),
            ("1:1", "1:{3:3}", Ok, "1:{3:3}"),
            // Repeated fields are replaced as a whole.
            ("1:1 1:2 1:3", "1:4", Ok, "1:4"),
            ("1:1", "1:4 1:5", Ok, "1:4 1:5"),
            ("1:1 1:2 1:3", "1:4 1:5", Ok, "1:4 1:5"),
            // An empty message is a value like any other.
            ("1:{2:2}", "1:{}", Ok, "1:{}"),
        ],
    );
    check("src 1\n  merge", &[("1:1", "1:1", Abort, "1:1")]);
    check("dst 1\n  merge", &[("1:1", "1:1", Abort, "1:1")]);
}

#[test]
fn a_merge_can_delete_what_is_empty_in_the_source() {
    check("merge del", &[("1:{2:2} 3:3 4:4 4:5", "1:{} 4:\"\" 5:{}", Ok, "3:3 5:{}")]);
}

#[test]
fn a_merge_can_leave_alone_the_messages_merged_before() {
    let text = "
src 1 | skip
  dst+ 1
    merge
merge skip";
    check(
        text,
        &[
            ("1:{2:2} 3:3", "1:{4:4} 3:4", Ok, "1:{2:2 4:4} 3:4"),
            // A message that nothing was selected in is replaced.
            ("1:{2:2} 5:{2:2}", "1:{4:4} 5:{3:3}", Ok, "1:{2:2 4:4} 5:{3:3}"),
        ],
    );
}

#[test]
fn a_map_cannot_be_merged() {
    let text = "
src 1
  load 0
dst+ 2[1=r0]
merge";
    check(text, &[("2:{1:5}", "1:5 2:{}", Abort, "1:5 2:{1:5}")]);
}

#[test]
fn a_set_replaces_values_of_its_kind() {
    let text = "
src 1
  dst+ 2
    set";
    check(
        text,
        &[
            ("2:1", "1:5f", Ok, "2:5f"),
            ("2:{3:3}", "1:\"a\"", Ok, "2:\"a\""),
            ("2:1", "1:\"a\"", Abort, "2:1"),
            ("2:\"a\"", "1:1", Abort, "2:\"a\""),
        ],
    );
    // A root set to a number is no message.
    check("src 1\n  set", &[("", "1:1", Ok, "")]);
}

#[test]
fn a_del_deletes_fields_and_elements() {
    let text = "
dst 1
  del";
    check(text, &[("1:1 2:2", "", Ok, "2:2"), ("1:{3:3}", "", Ok, ""), ("1:1 1:2", "", Abort, "1:1 1:2")]);
    check("dst 1[1]\n  del", &[("1:1 1:2 1:3", "", Ok, "1:1 1:3")]);
    let by_key = "
src 2[*]
  load 0
  dst 1[3=r0]
    del";
    check(by_key, &[("1:{3:3} 1:{3:4} 1:{3:5}", "2:3 2:5", Ok, "1:{3:4}")]);
    check("del", &[("1:1 2:2", "", Ok, "")]);
    // An element of an iteration becomes empty.
    check("dst 1[*]\n  del", &[("1:1 1:2", "", Ok, "")]);
}

#[test]
fn what_was_deleted_cannot_be_used() {
    for after in ["merge", "set", "del", "load 0 dst", "dst 2", "dst+ 2[0]", "dst 2[*]"] {
        let text = format!("dst 1\n  del\n  {after}");
        assert_eq!(reason(&text, "1:{}", "1:1"), AbortReason::Deleted, "{after}");
    }
}

#[test]
fn what_an_outer_select_points_at_cannot_be_deleted() {
    for inner in ["src 1", "dst", "both"] {
        let text = format!("dst 1\n  {inner}\n    del");
        assert_eq!(reason(&text, "1:{}", "1:1"), AbortReason::DeleteSelected, "{inner}");
    }
    check("src 1\n  del", &[("1:1", "1:1", Ok, "")]);
}

#[test]
fn an_abort_says_where_and_why() {
    let text = "
merge
src 1
  merge
  src 2
    load 99";
    let mut vm = Vm::new(program(text), PLENTY);
    let error = vm.apply(&message("1:{2:1}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the program aborted at instruction 1.1.0: there is no register 99; the last one is 31"
    );
}

#[test]
fn a_clone_has_the_state_and_takes_no_packets() {
    let mut vm = Vm::new(program("merge"), PLENTY);
    vm.apply(&message("1:1")).unwrap();
    let mut clone = vm.clone_read_only();
    vm.apply(&message("1:2")).unwrap();
    assert_eq!(clone.apply(&message("1:3")), Err(ApplyError::ReadOnly));
    assert_eq!(state(&clone), message("1:1"));
    assert_eq!(state(&clone.clone_read_only()), message("1:1"));
    assert_eq!(clone.program().as_bytes(), vm.program().as_bytes());
    assert_eq!(clone.memory_usage_bytes(), vm.program().memory_bytes() + 2);
    assert!(Arc::ptr_eq(clone.program(), vm.program()));
}

#[test]
fn lengths_from_128_bytes_take_four() {
    let long = "x".repeat(126);
    let text = "
src 1
  dst+ 1
    set
dst 1 2";
    let mut vm = Vm::new(program(text), PLENTY);
    vm.apply(&message(&format!("1:{{2:\"{long}\"}}"))).unwrap();
    // As protozero writes them: the length of a message is reserved before it is known.
    let state = state(&vm);
    assert_eq!(state[..7], [0x0a, 0x80, 0x81, 0x80, 0x00, 0x12, 126]);
}

#[test]
fn a_field_is_found_wherever_and_however_its_tag_is_written() {
    for field in [1u32, 15, 16, 17, 127, 128, 900, 2047, 2048, 123_456, (1 << 24) - 1] {
        let vm = Vm::new(program(&format!("src {field}\n  set")), PLENTY);
        for before in [0, 1, 15, 16, 23, 24, 25, 254, 255, 256, 257, 700] {
            // Fields with number 1000 first: no tag of the others is in them.
            let mut packet = [0xc0, 0x3e, 0x01].repeat(before / 3);
            packet.extend([0xc0, 0x3e, 0xb1, 0x00].iter().take(if before % 3 == 0 { 0 } else { 4 }));
            assert!(
                !vm.concerns(&packet, &mut 0) && (field < 16 || !vm.may_concern(&packet)),
                "{field} after {before}"
            );
            for padding in 0..3 {
                let mut with = packet.clone();
                let mut tag = Vec::new();
                prost::encoding::encode_varint(u64::from(field) << 3, &mut tag);
                // The same number in more bytes than it takes.
                for _ in 0..padding {
                    *tag.last_mut().unwrap() |= 0x80;
                    tag.push(0);
                }
                with.extend(tag);
                with.push(7);
                assert!(
                    vm.concerns(&with, &mut 0) && vm.may_concern(&with),
                    "{field} after {before} with {padding}"
                );
            }
        }
    }
}

#[test]
fn a_packet_without_what_the_program_looks_for_first_does_not_concern_it() {
    let cases = [
        ("src 1 2\n  set", "1:{3:4}", true),
        ("src 1 2\n  set", "2:1", false),
        ("src 1 2\n  set", "", false),
        ("src 1\n  set\nsrc 2\n  set", "2:1", true),
        ("src 1\n  set\nsrc 2\n  set", "3:1", false),
        ("src 1 | skip\n  set\nsrc 2\n  set", "3:1", false),
        // These do not fail, or do something, or abort.
        ("src 1 | skip\n  set", "2:1", true),
        ("src 1[*]\n  set", "2:1", true),
        ("dst+ 1\n  set", "2:1", true),
        ("src 1\n  set\ndst\n  del", "2:1", true),
        ("merge", "2:1", true),
        ("src 1 | abort\n  set", "2:1", true),
        ("src\n  merge", "2:1", true),
        ("none", "2:1", true),
    ];
    for (text, packet, expected) in cases {
        let vm = Vm::new(program(text), PLENTY);
        assert_eq!(vm.concerns(&message(packet), &mut 0), expected, "{text} with {packet}");
    }
}
