//! What descriptions become. Upstream's compiler makes the same programs (compiler_unittest.cc).

mod notation;

use std::fmt::Write as _;

use ferretto_protos::{CompileConfig, VmProgram, text};
use ferretto_protovm::compile::{CompileError, compile};
use ferretto_protovm::{Program, Vm};
use notation::program_bytes;
use prost::Message as _;
use prost_reflect::DescriptorPool;

/// A schema with what `TracePacket` lacks, or has too much of.
const SCHEMA: &str = r#"
syntax = "proto2";
package test;
message Root {
  optional Node node = 1;
  optional Node old = 2 [deprecated = true];
  repeated Node nodes = 3;
  optional Leaf leaf = 4;
  optional uint32 number = 5;
  extensions 100 to 200;
}
message Node { optional Leaf leaf = 1; optional Node child = 2; optional uint32 id = 3; }
message Leaf { optional string name = 1; }
extend Root { optional Leaf extra = 100; }
"#;

fn schema() -> DescriptorPool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.proto");
    std::fs::write(&path, SCHEMA).unwrap();
    let files = protox::compile([&path], [folder.path()]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

fn config(commands: &str) -> CompileConfig {
    let bytes = text::parse("perfetto.protos.CompileConfig", commands).unwrap();
    CompileConfig::decode(&bytes[..]).unwrap()
}

fn compiled(commands: &str) -> Result<VmProgram, CompileError> {
    let commands = format!("root_message: \"perfetto.protos.TracePacket\" {commands}");
    compile(&config(&commands), text::descriptor_pool())
}

fn compiled_for_schema(commands: &str) -> Result<VmProgram, CompileError> {
    compile(&config(&format!("root_message: \".test.Root\" {commands}")), &schema())
}

/// `a/b` as the paths of a command: `src: "a" src: "b"`.
fn paths(src: &str, dst: &str) -> String {
    let mut out = String::new();
    for (side, path) in [("src", src), ("dst", dst)] {
        for name in path.split('/').filter(|name| !name.is_empty()) {
            write!(out, "{side}: {name:?} ").unwrap();
        }
    }
    out
}

fn check(commands: &str, expected: &str) {
    assert_same(compiled(commands), expected, commands);
}

fn check_with_schema(commands: &str, expected: &str) {
    assert_same(compiled_for_schema(commands), expected, commands);
}

fn assert_same(compiled: Result<VmProgram, CompileError>, expected: &str, commands: &str) {
    let expected = VmProgram::decode(&program_bytes(expected)[..]).unwrap();
    assert_eq!(compiled, Ok(expected), "{commands}");
}

const PATCH: &str = "for_testing/protovm_patch";
const STATE: &str = "for_testing/protovm_incremental_state";

fn in_patch(field: &str) -> String {
    format!("{PATCH}/{field}")
}

fn in_state(field: &str) -> String {
    format!("{STATE}/{field}")
}

#[test]
fn set_becomes_two_selects_and_a_set() {
    let paths = paths(&in_patch("string_to_merge"), &in_state("string_merged"));
    check(
        &format!("commands {{ set {{ {paths} }} abort_level: ABORT }}"),
        "
src 900 6 1 | abort
  dst+ 900 7 1
    set",
    );
}

#[test]
fn empty_paths_need_no_select() {
    check(
        r#"commands { set {} } commands { set { src: "for_testing" } } commands { set { dst: "for_testing" } }"#,
        "
set
src 900
  set
dst+ 900
  set",
    );
}

#[test]
fn del_deletes_what_the_packet_has_or_what_it_has_the_key_of() {
    let if_present = paths(&in_patch("single_message"), &in_state("single_message"));
    let by_key = paths(&in_patch("delete_message_ids"), &in_state("messages"));
    check(
        &format!(
            "commands {{ del {{ {if_present} if_src_present: true }} abort_level: SKIP_CURRENT_COMMAND }}
             commands {{ del {{ {by_key} dst_key_field: \"id\" }} }}"
        ),
        "
src 900 6 3 | skip
  dst 900 7 3
    del
src 900 6 5[*]
  load 0
  dst 900 7 4[1=r0]
    del",
    );
}

#[test]
fn merge_deletes_what_is_empty_in_the_packet() {
    let paths = paths(&in_patch("single_message"), &in_state("single_message"));
    check(
        &format!("commands {{ merge {{ {paths} }} }}"),
        "
src 900 6 3
  dst+ 900 7 3
    merge del",
    );
}

#[test]
fn a_recursive_merge_goes_through_the_messages_within() {
    let paths = paths(&in_patch("single_message"), &in_state("single_message"));
    check(
        &format!("commands {{ merge {{ {paths} recursive: true }} }}"),
        "
src 900 6 3
  dst+ 900 7 3
    src 2 | skip
      dst+ 2
        merge skip del
    merge skip del",
    );
}

#[test]
fn a_merge_by_key_loads_the_key_of_each_element() {
    let paths = paths(&in_patch("messages"), &in_state("messages"));
    check(
        &format!("commands {{ merge {{ {paths} key_field: \"id\" recursive: true }} abort_level: ABORT }}"),
        "
src 900 6 4[*] | abort
  src 1 | abort
    load 0
  dst+ 900 7 4[1=r0]
    src 2 | skip
      dst+ 2
        merge skip del
    merge skip del",
    );
}

#[test]
fn commands_in_a_scope_begin_at_its_paths() {
    let (outer, inner) = (paths(PATCH, STATE), paths("int_to_merge", "int_merged"));
    check(
        &format!(
            "commands {{ enter_scope {{ {outer} commands {{ set {{ {inner} }} }} commands {{ set {{}} }} }} }}"
        ),
        "
src 900 6
  dst+ 900 7
    src 2
      dst+ 2
        set
    set",
    );
}

#[test]
fn abort_levels_are_those_of_the_outer_select() {
    let cases = [
        ("", ""),
        ("SKIP_CURRENT_COMMAND", "| skip"),
        ("SKIP_CURRENT_COMMAND_AND_BREAK_OUTER", ""),
        ("ABORT", "| abort"),
    ];
    for (level, expected) in cases {
        let level = if level.is_empty() { String::new() } else { format!("abort_level: {level}") };
        let paths = paths("for_testing", "for_testing");
        check(
            &format!("commands {{ set {{ {paths} }} {level} }}"),
            &format!("src 900 {expected}\n  dst+ 900\n    set"),
        );
    }
}

#[test]
fn a_recursive_merge_leaves_out_what_is_repeated_deprecated_or_endless() {
    check_with_schema(
        "commands { merge { recursive: true } }",
        "
src 1 | skip
  dst+ 1
    src 1 | skip
      dst+ 1
        merge skip del
    merge skip del
src 4 | skip
  dst+ 4
    merge skip del
src 100 | skip
  dst+ 100
    merge skip del
merge skip del",
    );
}

#[test]
fn extensions_are_found_by_the_last_part_of_their_names() {
    check_with_schema("commands { set { src: \"extra\" src: \"name\" } }", "src 100 1\n  set");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let deep = format!("set {{ src: \"node\" {} }}", "src: \"child\" ".repeat(300));
    let unknown_field = |message: &str, field: &str| CompileError::UnknownField {
        message: message.to_owned(),
        field: field.to_owned(),
        near: Vec::new(),
    };
    let cases = [
        ("", CompileError::UnknownCommand),
        ("set { src: \"nothing\" }", unknown_field("test.Root", "nothing")),
        ("set { dst: \"node\" dst: \"nothing\" }", unknown_field("test.Node", "nothing")),
        ("merge { src: \"nodes\" dst: \"nodes\" key_field: \"key\" }", unknown_field("test.Node", "key")),
        ("del { src: \"node\" dst: \"node\" }", CompileError::AmbiguousDel),
        ("del { if_src_present: true dst_key_field: \"id\" }", CompileError::AmbiguousDel),
        ("del { src: \"number\" dst_key_field: \"number\" }", CompileError::EmptyKeyedPath),
        (
            "merge { src: \"node\" dst: \"leaf\" recursive: true }",
            CompileError::DifferentMessages { src: "test.Node".into(), dst: "test.Leaf".into() },
        ),
        (
            "set { src: \"number\" src: \"x\" }",
            CompileError::NotAMessage { field: "x".into(), kind: "field of type uint32".into() },
        ),
        (&deep, CompileError::TooLarge),
    ];
    for (command, expected) in cases {
        assert_eq!(compiled_for_schema(&format!("commands {{ {command} }}")), Err(expected), "{command}");
    }
    let no_root = compile(&config("commands { set {} }"), &schema());
    assert_eq!(no_root, Err(CompileError::NoRootMessage));
}

#[test]
fn misspelt_names_are_told_with_the_nearest() {
    let said = |description: &str| compile(&config(description), &schema()).unwrap_err().to_string();
    assert_eq!(
        said("root_message: \"test.Rot\""),
        "the root_message \"test.Rot\" is not in the descriptors; did you mean \"test.Root\"?"
    );
    let set =
        |name: &str| said(&format!("root_message: \"test.Root\" commands {{ set {{ src: \"{name}\" }} }}"));
    assert_eq!(set("nodee"), "test.Root has no field \"nodee\"; did you mean \"node\" or \"nodes\"?");
    assert_eq!(set("exstra"), "test.Root has no field \"exstra\"; did you mean \"extra\"?");
    assert_eq!(set("other"), "test.Root has no field \"other\"");
}

#[test]
fn a_compiled_program_keeps_the_state_of_patches() {
    let scope = paths(PATCH, STATE);
    let program = compiled(&format!(
        "commands {{ enter_scope {{ {scope}
           commands {{ set {{ src: \"string_to_merge\" dst: \"string_merged\" }} abort_level: SKIP_CURRENT_COMMAND }}
           commands {{
             merge {{ src: \"messages\" dst: \"messages\" key_field: \"id\" recursive: true }}
             abort_level: SKIP_CURRENT_COMMAND
           }}
           commands {{ del {{ src: \"delete_message_ids\" dst: \"messages\" dst_key_field: \"id\" }} }}
         }} }}"
    ))
    .unwrap();
    let mut vm = Vm::new(Program::parse(&program.encode_to_vec()).unwrap(), 1 << 20);
    let patches = [
        "string_to_merge: \"a\" messages { id: 2 submessage { single_int: 1 } } messages { id: 1 }",
        "string_to_merge: \"b\" messages { id: 1 submessage { single_int: 5 } } delete_message_ids: 2",
        "messages { id: 3 }",
    ];
    for patch in patches {
        let packet = format!("for_testing {{ protovm_patch {{ {patch} }} }}");
        // Fails, for want of ids to delete, and that is all right.
        let _outcome = vm.apply(&text::parse("perfetto.protos.TracePacket", &packet).unwrap());
    }
    let mut state = Vec::new();
    vm.serialize_state(&mut state);
    let expected = "for_testing { protovm_incremental_state {
        string_merged: \"b\" messages { id: 1 submessage { single_int: 5 } } messages { id: 3 } } }";
    assert_eq!(state, text::parse("perfetto.protos.TracePacket", expected).unwrap());
}
