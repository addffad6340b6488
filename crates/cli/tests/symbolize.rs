//! `ferretto symbolize` on traces of a small program.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Place, assert_status, packets, stderr};
use ferretto_protos::trace_packet::{Data, OptionalTrustedPacketSequenceId};
use ferretto_protos::{
    Callstack, Frame, InternedData, InternedString, Mapping, ModuleSymbols, Trace, TracePacket,
};
use ferretto_symbols::Elf;
use prost::Message as _;

/// What is in the stacks: its lines are looked for.
const PROGRAM: &str = "\
#[inline(never)]
fn meant(n: u64) -> u64 {
    let mut sum = n;
    for it in 0..400_000_000 {
        sum = std::hint::black_box(sum.wrapping_mul(31) + it);
    }
    sum
}
fn main() {
    std::hint::black_box(meant(7));
}
";

/// Builds it there, or says that there is nothing to build it with.
fn program(place: &Place) -> Option<PathBuf> {
    place.write("program.rs", PROGRAM);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut build = std::process::Command::new(rustc);
    build.args(["-O", "-Cdebuginfo=1", "-Cstrip=none", "-o", "program", "program.rs"]);
    let built = build.current_dir(place.folder.path()).output();
    if !built.as_ref().is_ok_and(|built| built.status.success()) {
        eprintln!("skipped: no program can be built: {built:?}");
        return None;
    }
    Some(place.folder.path().canonicalize().unwrap().join("program"))
}

/// The first address of the function, as the program is linked, and its name there.
fn meant(elf: &Elf) -> (u64, &str) {
    let is_it = |name: &&str| ferretto_symbols::demangle(name).ends_with("::meant");
    let mut text = elf.text.clone().unwrap();
    text.find_map(|address| Some((address, elf.name_of(address).filter(is_it)?)))
        .expect("the function is there")
}

/// A trace with a stack of the program and one of the kernel, as profilers write them.
fn trace(program: &Path) -> Vec<u8> {
    let text = |iid: u64, text: &[u8]| InternedString { iid: Some(iid), str: Some(text.to_vec().into()) };
    let elf = Elf::read(fs::read(program).unwrap().as_slice()).unwrap();
    let (address, name) = meant(&elf);
    let parts: Vec<&str> = program.to_str().unwrap().split('/').skip(1).collect();
    let mut paths: Vec<_> = (1..).zip(&parts).map(|(iid, part)| text(iid, part.as_bytes())).collect();
    paths.push(text(1000, b"kernel"));
    let frame = |iid, mapping, name, address| Frame {
        iid: Some(iid),
        mapping_id: Some(mapping),
        function_name_id: Some(name),
        rel_pc: Some(address),
        ..Frame::default()
    };
    let mapping = |iid, build_id, parts| Mapping {
        iid: Some(iid),
        build_id: Some(build_id),
        path_string_ids: parts,
        ..Mapping::default()
    };
    let data = InternedData {
        build_ids: vec![text(1, elf.build_id().unwrap_or_default())],
        mapping_paths: paths,
        function_names: vec![text(1, name.as_bytes()), text(2, b"do_syscall_64")],
        mappings: vec![mapping(1, 1, (1..=parts.len() as u64).collect()), mapping(2, 0, vec![1000])],
        frames: vec![frame(1, 1, 1, address), frame(2, 2, 2, 0)],
        callstacks: vec![Callstack { iid: Some(1), frame_ids: vec![1, 2] }],
        ..InternedData::default()
    };
    let packet = TracePacket {
        sequence_flags: Some(1),
        interned_data: Some(data),
        optional_trusted_packet_sequence_id: Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
            1,
        )),
        ..TracePacket::default()
    };
    let last = TracePacket { timestamp: Some(5), ..TracePacket::default() };
    Trace { packet: vec![packet, last] }.encode_to_vec()
}

fn symbols(path: &Path) -> Vec<ModuleSymbols> {
    let symbols = packets(path).into_iter().filter_map(|packet| match packet.data {
        Some(Data::ModuleSymbols(symbols)) => Some(symbols),
        _ => None,
    });
    symbols.collect()
}

#[test]
fn lines_are_added_to_a_trace_once() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let trace = trace(&program);
    let path = place.write("t", &trace);
    let output = place.ferretto(&["symbolize", "t"]).output().unwrap();
    assert_status(&output, 0);
    let said = stderr(&output);
    for part in ["Symbols: 1 address in 1 file; 1 with lines now", program.to_str().unwrap(), "t: ", " added"]
    {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let once = fs::read(&path).unwrap();
    assert!(once.starts_with(&trace) && once.len() > trace.len());
    let [symbols] = symbols(&path).try_into().unwrap();
    assert_eq!(symbols.path(), program.as_os_str().as_encoded_bytes());
    let [address] = symbols.address_symbols.as_slice() else { panic!("{symbols:?}") };
    let line = address.lines.last().unwrap();
    assert!(line.function_name().ends_with("::meant"), "{line:?}");
    assert!(line.source_file_name().ends_with("program.rs"), "{line:?}");
    assert!((2..9).contains(&line.line_number()), "{line:?}");
    let output = place.ferretto(&["symbolize", "t"]).output().unwrap();
    assert_status(&output, 0);
    let said = stderr(&output);
    assert!(said.contains("1 had them before") && said.contains("t: nothing to add"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), once);
    assert_eq!(place.files(), ["program", "program.rs", "t"]);
}

#[test]
fn a_trace_of_its_own_has_them_whatever_the_first_is_packed_into() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let trace = trace(&program);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace).unwrap();
    let gzip = gzip.finish().unwrap();
    for bytes in [&trace, &gzip] {
        let path = place.write("t", bytes);
        let output = place.ferretto(&["symbolize", "t", "-o", "out"]).output().unwrap();
        assert_status(&output, 0);
        assert_eq!(fs::read(path).unwrap(), *bytes, "it is as it was");
        assert!(fs::read(place.path("out")).unwrap().starts_with(&trace));
        let mut piped = place.ferretto(&["symbolize", "-q", "-", "-o", "-"]);
        let mut piped =
            piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        piped.stdin.take().unwrap().write_all(bytes).unwrap();
        let piped = piped.wait_with_output().unwrap();
        assert_status(&piped, 0);
        assert_eq!(stderr(&piped), "");
        assert_eq!(piped.stdout, fs::read(place.path("out")).unwrap());
        assert_eq!(symbols(&place.path("out")).len(), 1);
    }
    assert_eq!(place.files(), ["out", "program", "program.rs", "t"]);
}

#[test]
fn a_trace_that_is_cut_off_stays_as_it_is() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let trace = trace(&program);
    let cut = &trace[..trace.len() - 1];
    let path = place.write("t", cut);
    let output = place.ferretto(&["symbolize", "t"]).output().unwrap();
    assert_status(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("cut off") && said.contains("help: ") && said.contains("-o FILE"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), cut);
    let output = place.ferretto(&["symbolize", "t", "-o", "out"]).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("warning: the last packet of t, at offset"), "{}", stderr(&output));
    let left = packets(&place.path("out"));
    assert_eq!(left.len(), 2);
    assert_eq!(fs::read(&path).unwrap(), cut);
}

#[test]
fn what_cannot_be_symbolized_is_said_and_nothing_is_written() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let trace = trace(&program);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace).unwrap();
    place.write("packed", gzip.finish().unwrap());
    place.write("trace", &trace);
    place.write("empty", b"");
    place.write("script", b"#!/bin/sh\n");
    place.write("zip", b"PK\x03\x04");
    fs::create_dir(place.path("folder")).unwrap();
    let is_pipe =
        std::process::Command::new("mkfifo").arg(place.path("pipe")).status().is_ok_and(|it| it.success());
    let before = place.files();
    for (args, parts) in [
        (&["packed"][..], &["packed with gzip", "-o FILE"][..]),
        (&["no-such-trace"], &["cannot read no-such-trace"]),
        (&["no-such-trace", "-o", "out"], &["cannot read no-such-trace"]),
        (&["folder"], &["folder is a directory"]),
        (&["empty"], &["empty"]),
        (&["script"], &["script"]),
        (&["zip"], &["zip"]),
        (&["-"], &["nothing can be added to what comes from a pipe", "-o FILE"]),
        (
            &["pipe"],
            &[if is_pipe { "nothing can be added to pipe: it is no file" } else { "cannot read pipe" }],
        ),
        (&["--symbols", "no-such-folder", "trace"], &["no-such-folder"]),
        (&["trace", "-o", "no-such-folder/out"], &["no-such-folder"]),
    ] {
        let output = place.ferretto(&[&["symbolize"], args].concat()).output().unwrap();
        assert_status(&output, 1);
        let said = stderr(&output);
        assert!(
            said.starts_with("error: ") && parts.iter().all(|part| said.contains(part)),
            "{args:?}: {said}"
        );
    }
    assert_eq!(place.files(), before);
    assert_eq!(fs::read(place.path("trace")).unwrap(), trace);
}

#[test]
fn a_trace_without_stacks_is_none_to_symbolize() {
    let place = Place::new();
    let path = place.write(
        "t",
        Trace { packet: vec![TracePacket { timestamp: Some(5), ..Default::default() }] }.encode_to_vec(),
    );
    let before = fs::read(&path).unwrap();
    let output = place.ferretto(&["symbolize", "t"]).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("The stacks: none"), "{}", stderr(&output));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// As any user may. Where the kernel gives a user no perf events it is skipped.
#[test]
fn a_profile_has_lines_of_what_was_sampled() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let args = ["profile", "--own", "-o", "t", "--", program.to_str().unwrap()];
    let output = place.ferretto(&args).output().unwrap();
    if stderr(&output).contains("cannot profile: the kernel gives no samples") {
        return eprintln!("skipped: {}", stderr(&output));
    }
    assert_status(&output, 0);
    let output = place.ferretto(&["symbolize", "t"]).output().unwrap();
    assert_status(&output, 0);
    let lines =
        symbols(&place.path("t")).into_iter().flat_map(|it| it.address_symbols).flat_map(|it| it.lines);
    let is_it = |line: &ferretto_protos::Line| {
        line.function_name().ends_with("::meant") && line.source_file_name().ends_with("program.rs")
    };
    assert!(lines.into_iter().any(|line| is_it(&line) && line.line_number() > 0), "{}", stderr(&output));
}

/// The members of an archive.
fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let members = archive.entries().unwrap().map(|member| {
        let mut member = member.unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        (member.path().unwrap().to_str().unwrap().to_owned(), bytes)
    });
    members.collect()
}

#[test]
fn a_bundle_has_a_trace_and_its_symbols_and_leaves_it_as_it_was() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let trace = trace(&program);
    let path = place.write("t", &trace);
    let output = place.ferretto(&["bundle", "t", "-o", "t.tar"]).output().unwrap();
    assert_status(&output, 0);
    let said = stderr(&output);
    assert!(said.contains("1 with lines now") && said.contains("t.tar: the trace, "), "{said}");
    assert_eq!(fs::read(&path).unwrap(), trace);
    let bundled = members(&place.path("t.tar"));
    assert_status(&place.ferretto(&["symbolize", "-q", "t"]).output().unwrap(), 0);
    let symbolized = fs::read(&path).unwrap();
    let expected = [("trace.perfetto", &trace[..]), ("symbols.pb", &symbolized[trace.len()..])];
    assert_eq!(bundled, expected.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
    // What has its symbols needs no others.
    assert_status(&place.ferretto(&["bundle", "t", "-o", "t.tar"]).output().unwrap(), 0);
    assert_eq!(members(&place.path("t.tar")), [("trace.perfetto".to_owned(), symbolized)]);
}

#[test]
fn with_its_programs_a_bundle_can_be_symbolized_elsewhere() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace(&program)).unwrap();
    place.write("t.gz", gzip.finish().unwrap());
    assert_status(&place.ferretto(&["bundle", "--programs", "t.gz", "-o", "t.tar"]).output().unwrap(), 0);
    // Another machine: the program is not there.
    fs::rename(&program, place.path("moved")).unwrap();
    let elsewhere = place.path("elsewhere");
    tar::Archive::new(fs::File::open(place.path("t.tar")).unwrap()).unpack(&elsewhere).unwrap();
    let packed = elsewhere.join("files").join(program.strip_prefix("/").unwrap());
    assert_eq!(fs::read(packed).unwrap(), fs::read(place.path("moved")).unwrap());
    let args = ["symbolize", "--symbols", "elsewhere/files", "elsewhere/trace.perfetto"];
    let output = place.ferretto(&args).output().unwrap();
    assert_status(&output, 0);
    assert_eq!(symbols(&elsewhere.join("trace.perfetto")).len(), 1, "{}", stderr(&output));
}

#[test]
fn what_cannot_be_bundled_is_said_and_nothing_is_written() {
    let place = Place::new();
    place.write("script", b"#!/bin/sh\n");
    let plain =
        Trace { packet: vec![TracePacket { timestamp: Some(5), ..Default::default() }] }.encode_to_vec();
    place.write("plain", &plain);
    let before = place.files();
    for (args, part) in [
        (&["script", "-o", "t.tar"][..], "script"),
        (&["no-such-trace", "-o", "t.tar"], "cannot read no-such-trace"),
        (&["plain", "-o", "no-such-folder/t.tar"], "no-such-folder"),
        (&["--symbols", "no-such-folder", "plain", "-o", "t.tar"], "no-such-folder"),
    ] {
        let output = place.ferretto(&[&["bundle"], args].concat()).output().unwrap();
        assert_status(&output, 1);
        let said = stderr(&output);
        assert!(said.starts_with("error: ") && said.contains(part), "{args:?}: {said}");
    }
    assert_eq!(place.files(), before);
    let output = place.ferretto(&["bundle", "plain", "-o", "-"]).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("The stacks: none"), "{}", stderr(&output));
    assert!(output.stdout.starts_with(b"trace.perfetto\0"));
}
