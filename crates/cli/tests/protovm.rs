//! `ferretto protovm compile`: from a description to a program that runs.

mod common;

use common::{Place, assert_status, stderr};
use ferretto_protos::{CompileConfig, VmProgram, text};
use ferretto_protovm::{Program, Vm};
use prost::Message;

const DESCRIPTION: &str = r#"
root_message: "perfetto.protos.TracePacket"
commands {
  enter_scope {
    src: "for_testing" src: "protovm_patch"
    dst: "for_testing" dst: "protovm_incremental_state"
    commands { merge { src: "messages" dst: "messages" key_field: "id" } }
  }
}
"#;

const PACKET: &str = "perfetto.protos.TracePacket";

#[test]
fn a_program_folds_packets_into_a_state() {
    let place = Place::new();
    place.write("description", DESCRIPTION);
    let output = place.ferretto(&["protovm", "compile", "description", "-o", "program"]).output().unwrap();
    assert_status(&output, 0);
    assert_eq!(place.files(), ["description", "program"]);

    let program = std::fs::read(place.path("program")).unwrap();
    let mut vm = Vm::new(Program::parse(&program).unwrap(), 1 << 20);
    for messages in [
        "messages { id: 1 submessage { single_int: 10 } } messages { id: 2 }",
        "messages { id: 1 submessage { single_int: 11 } }",
    ] {
        let packet = format!("for_testing {{ protovm_patch {{ {messages} }} }}");
        vm.apply(&text::parse(PACKET, &packet).unwrap()).unwrap();
    }
    let mut state = Vec::new();
    vm.serialize_state(&mut state);
    let expected = "for_testing { protovm_incremental_state {
        messages { id: 1 submessage { single_int: 11 } } messages { id: 2 } } }";
    assert_eq!(state, text::parse(PACKET, expected).unwrap());
}

#[test]
fn a_description_is_text_or_binary_and_so_is_a_program() {
    let place = Place::new();
    let compile = |args: &[&str]| {
        let output = place.ferretto(&[&["protovm", "compile"], args].concat()).output().unwrap();
        assert_status(&output, 0);
        output.stdout
    };
    let description = text::parse("perfetto.protos.CompileConfig", DESCRIPTION).unwrap();
    CompileConfig::decode(description.as_slice()).unwrap();
    place.write("text", DESCRIPTION);
    place.write("binary", description);
    let program = compile(&["text"]);
    assert_eq!(compile(&["binary"]), program);
    assert!(compile(&["text", "-o", "program"]).is_empty());
    assert_eq!(std::fs::read(place.path("program")).unwrap(), program);

    let readable = String::from_utf8(compile(&["text", "--txt"])).unwrap();
    let parsed = text::parse("perfetto.protos.VmProgram", &readable).unwrap();
    assert_eq!(VmProgram::decode(&parsed[..]), VmProgram::decode(&program[..]));
}

#[test]
fn descriptors_of_ones_own_are_used() {
    let place = Place::new();
    place.write("mine.proto", "syntax = 'proto2'; message Mine { optional string name = 77; }");
    let files = protox::compile([place.path("mine.proto")], [place.folder.path()]).unwrap();
    place.write("mine.bin", files.encode_to_vec());
    place.write("description", "root_message: 'Mine' commands { set { src: 'name' dst: 'name' } }");
    let args = ["protovm", "compile", "description", "--txt", "-d", "mine.bin"];
    let output = place.ferretto(&args).output().unwrap();
    assert_status(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("field_id: 77"));
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let place = Place::new();
    place.write("name", DESCRIPTION.replace("\"for_testing\" src", "\"for_tasting\" src"));
    place.write("field", DESCRIPTION.replace("key_field", "key_feld"));
    place.write("binary", [0xff; 10]);
    place.write("text", DESCRIPTION);
    place.write("keep", "what was there");
    let cases: [(&[&str], &[&str]); 7] = [
        (
            &["name"],
            &[
                "error: name:5:10:",
                "no field \"for_tasting\"; did you mean \"for_testing\"?",
                "--descriptor-set",
            ],
        ),
        (&["field"], &["error: field:7:", "unknown field `key_feld`", "`key_field`"]),
        (&["binary"], &["binary is no CompileConfig"]),
        (&["missing"], &["cannot read the config missing: no such file"]),
        (&["text", "-d", "binary"], &["binary is no complete FileDescriptorSet", "--include_imports"]),
        (&["text", "-d", "missing"], &["cannot read the descriptors missing: no such file"]),
        (&["text", "-o", "no/such"], &["cannot write no/such"]),
    ];
    for (args, expected) in cases {
        let output = if args.contains(&"-o") { &[][..] } else { &["-o", "keep"] };
        let all = [&["protovm", "compile"], output, args].concat();
        let output = place.ferretto(&all).output().unwrap();
        assert_status(&output, 1);
        for part in expected {
            assert!(stderr(&output).contains(part), "{all:?}: {}", stderr(&output));
        }
    }
    assert_eq!(std::fs::read(place.path("keep")).unwrap(), b"what was there");
    assert_eq!(place.files(), ["binary", "field", "keep", "name", "text"]);
}
