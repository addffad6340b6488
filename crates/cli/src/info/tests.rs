use std::io::{Cursor, Write as _};

use ferretto_protos::text::parse_trace_config;
use ferretto_protozero::Message as Writer;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::*;

type Body<'a> = &'a dyn Fn(&mut Writer<'_, Vec<u8>>);

/// A packet of a program's thread: sequence 7 of process 4000.
fn packet(trace: &mut Vec<u8>, write: Body<'_>) {
    let mut packet = Vec::new();
    let mut message = Writer::new(&mut packet);
    write(&mut message);
    message.varint(3, 1000);
    message.varint(10, 7);
    message.varint(79, 4000);
    drop(message);
    Writer::new(trace).bytes(1, &packet);
}

/// The service's beginning: clocks, the config, the machine.
fn service(trace: &mut Vec<u8>) {
    packet(trace, &|packet| {
        let mut snapshot = packet.nested(6);
        for (id, value) in [(6, 1_000_000_000), (1, 1_764_025_200_000_000_000)] {
            let mut clock = snapshot.nested(1);
            clock.varint(1, id);
            clock.varint(2, value);
        }
    });
    let config = "buffers { size_kb: 4096 name: \"main\" } buffers { size_kb: 64 fill_policy: DISCARD }
         data_sources { config { name: \"track_event\" } }
         data_sources { config { name: \"linux.ftrace\" target_buffer_name: \"main\" } } duration_ms: 5000";
    let config = parse_trace_config(config).unwrap();
    packet(trace, &|packet| packet.bytes(33, &config));
    packet(trace, &|packet| {
        let mut system = packet.nested(45);
        let mut names = system.nested(1);
        names.string(1, "Linux");
        names.string(3, "6.18.5");
        names.string(4, "x86_64");
        drop(names);
        system.string(4, "Ferretto v0.1.0");
        system.varint(8, 2);
        system.varint(16, 8_000_000_000);
    });
}

/// A thread with names, and two slices, one within the other.
fn program(trace: &mut Vec<u8>) {
    packet(trace, &|packet| {
        packet.varint(13, 1);
        packet.nested(59).nested(11).varint(11, 77);
        let mut interned = packet.nested(12);
        for (field, name) in [(1, "net"), (2, "serve\u{1b}[31m"), (2, "read")] {
            let mut entry = interned.nested(field);
            entry.varint(1, if name == "read" { 2 } else { 1 });
            entry.string(2, name);
        }
    });
    packet(trace, &|packet| {
        let mut track = packet.nested(60);
        track.varint(1, 77);
        let mut thread = track.nested(4);
        thread.varint(1, 4000);
        thread.varint(2, 4001);
        thread.string(5, "worker");
    });
    for (time, kind, name) in
        [(1_000_000_000, 1, 1), (1_001_000_000, 1, 2), (1_003_500_000, 2, 0), (1_010_000_000, 2, 0)]
    {
        packet(trace, &|packet| {
            packet.varint(8, time);
            packet.varint(13, 2);
            let mut event = packet.nested(11);
            event.varint(9, kind);
            if name > 0 {
                event.varint(3, 1);
                event.varint(10, name);
            }
        });
    }
}

/// CPU 0: thread 4001 runs for 3 ms, then nobody does.
fn kernel(trace: &mut Vec<u8>) {
    packet(trace, &|packet| {
        let mut tree = packet.nested(2);
        let mut process = tree.nested(1);
        process.varint(1, 4000);
        process.string(3, "/usr/bin/server");
        drop(process);
        let mut thread = tree.nested(2);
        thread.varint(1, 4001);
        thread.varint(3, 4000);
    });
    packet(trace, &|packet| {
        let mut bundle = packet.nested(1);
        for (time, prev, next) in [(1_002_000_000, 0, 4001), (1_005_000_000, 4001, 0)] {
            let mut event = bundle.nested(2);
            event.varint(1, time);
            event.varint(2, prev);
            let mut switch = event.nested(4);
            switch.varint(2, prev);
            switch.string(5, "worker");
            switch.varint(6, next);
        }
    });
}

fn whole() -> Vec<u8> {
    let mut trace = Vec::new();
    service(&mut trace);
    program(&mut trace);
    kernel(&mut trace);
    trace
}

fn told(bytes: &[u8]) -> Result<Told> {
    read("t.pftrace".to_owned(), Box::new(Cursor::new(bytes.to_vec())), Some(bytes.len() as u64))
}

fn shown(bytes: &[u8]) -> String {
    text::render(&told(bytes).unwrap(), ROWS)
}

#[track_caller]
fn refused(bytes: &[u8]) -> String {
    match told(bytes) {
        Ok(told) => panic!("{}", text::render(&told, ROWS)),
        Err(error) => report::render(&error),
    }
}

const LOST: &str =
    "Lost: nothing known; could not be asked: the kernel's counts at the end, the service's statistics.\n";

#[test]
fn a_whole_trace() {
    let expected = include_str!("tests/whole.txt");
    let shown = shown(&whole());
    if std::env::var_os("FERRETTO_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/info/tests/whole.txt"), &shown).unwrap();
        return;
    }
    assert_eq!(shown, expected);
    assert!(text::is_narrow(&shown));
}

#[test]
fn what_the_trace_does_not_say_is_left_out() {
    let mut trace = Vec::new();
    packet(&mut trace, &|packet| packet.bytes(89, b"uuid"));
    assert_eq!(
        shown(&trace),
        "t.pftrace: a trace, 18 bytes, 1 packet, 1 sequence
What fills it: packets                                     bytes    share          count
  trace_uuid                                            18 bytes    100 %              1
Lost: nothing known; could not be asked: the service's statistics.
"
    );
}

#[test]
fn packed_traces_say_the_same() {
    let trace = whole();
    let plain = shown(&trace);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&trace).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut batch = ZlibEncoder::new(Vec::new(), Compression::fast());
    batch.write_all(&trace).unwrap();
    let mut packet = Vec::new();
    Writer::new(&mut packet).bytes(50, &batch.finish().unwrap());
    let mut packed = Vec::new();
    Writer::new(&mut packed).bytes(1, &packet);
    let after_headline = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    for (bytes, what) in [(&gzip, " of gzip, "), (&packed, " unpacked, 11 packets")] {
        let shown = shown(bytes);
        assert!(shown.lines().next().unwrap().contains(what), "{shown}");
        assert_eq!(after_headline(&shown), after_headline(&plain));
    }
    let half = shown(&gzip[..gzip.len() / 2]);
    assert!(half.contains("Cut off   it cannot be unpacked beyond"), "{half}");
}

#[test]
fn torn_and_broken_ends_are_said_with_their_places() {
    let trace = whole();
    let torn = shown(&trace[..trace.len() - 1]);
    let at = told(&trace[..trace.len() - 1]).unwrap().report.end.torn_at.unwrap();
    assert!(torn.contains(&format!("the last packet is torn at offset {at}; ")), "{torn}");
    assert!(torn.contains("  - the file ends in the middle of a packet"), "{torn}");
    let broken = shown(&[&trace[..], b"garbage"].concat());
    assert!(broken.contains(&format!("what begins at offset {} is no trace", trace.len())), "{broken}");
}

#[test]
fn files_that_are_no_traces_are_called_what_they_seem_to_be() {
    for (bytes, what) in [
        (&b""[..], "t.pftrace is empty"),
        (b"buffers { size_kb: 4 }", "it seems to be a trace config"),
        (b"{\"traceEvents\": []}", "it seems to be a trace in Chrome's JSON format"),
        (b"PK\x03\x04zip", "it seems to be a zip archive"),
        (b"\x0a\x04\x08\x01\x10\x02\x12\x00", "a profile of pprof"),
        (b"\x01\x02\x03\x04", "nor anything else that is known here"),
        (b"\x1f\x8bgzip?", "packed by gzip, and damaged"),
    ] {
        let error = refused(bytes);
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_trace_that_is_cut_off_anywhere_is_told_or_refused() {
    let trace = whole();
    for len in 0..trace.len() {
        if let Ok(told) = told(&trace[..len]) {
            let shown = text::render(&told, ROWS);
            assert!(text::is_narrow(&shown), "{shown}");
            json::of(&told, None).to_string();
        }
    }
}

#[test]
fn a_trace_with_any_byte_changed_is_told_or_refused() {
    let trace = whole();
    for at in 0..trace.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = trace.clone();
            bytes[at] ^= change;
            if let Ok(told) = told(&bytes) {
                let shown = text::render(&told, ROWS);
                assert!(text::is_narrow(&shown), "{shown}");
                assert!(!shown.contains('\u{1b}'), "{shown}");
            }
        }
    }
}

#[test]
fn json_is_read_back() {
    let told = told(&whole()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json::of(&told, None).to_string()).unwrap();
    assert_eq!(json["packets"], 11);
    assert_eq!(json["machines"][0]["release"], "6.18.5");
    assert_eq!(json["config"]["data_sources"][0], "track_event");
    assert_eq!(json["longest_slices"][0]["name"], "serve\u{1b}[31m");
    assert_eq!(json["longest_slices"][0]["who"]["thread"], "worker");
    assert_eq!(json["busiest_threads"][0]["cpu_ns"], 3_000_000);
    assert_eq!(json["begin_unix_ns"], 1_764_025_200_000_000_000u64);
    assert!(json.get("torn_at").is_none() && json.get("broken_at").is_none());
    let one: serde_json::Value = serde_json::from_str(&json::of(&told, Some(1)).to_string()).unwrap();
    assert_eq!(one["track_events_by_name"].as_array().unwrap().len(), 2, "one, and the others");
}

#[test]
fn losses_are_said_in_the_words_of_the_one_table() {
    let shown = shown(&whole());
    assert!(shown.ends_with(LOST), "{shown}");
}
