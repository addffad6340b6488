//! Archives with a manifest, and the slices that come of them, out of `manifests/*.txt`.
//!
//! A file is sections that begin with `== `: the manifest, the archive's files, and the rows, `NAME | TIME | MACHINE` of each slice and
//! `NAME = VALUE` of each fact that a manifest may say; or an error's words. Files of packets are lines: `clocks ID=VALUE …` is a snapshot, `slice NAME
//! TIME` an instant, `sync THEIRS OURS` what two machines' boot clocks showed at once; `[7]` before it says of which machine it is.

use std::fs;
use std::path::Path;

use ferretto_import::{Options, import};
use ferretto_protozero::Message;
use ferretto_trace_tables::{Table, Tables, Value};

#[test]
fn archives_become_the_rows_that_stand_below_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut members = Vec::new();
        let mut expected = Vec::new();
        for section in text.split("== ").skip(1) {
            let (heading, body) = section.split_once('\n').unwrap();
            match heading.split_once(' ') {
                _ if heading == "manifest" => members.push(("manifest.json".to_owned(), body.into())),
                Some((_, name)) if name.ends_with(".pb") => members.push((name.to_owned(), packets(body))),
                Some((_, name)) => members.push((name.to_owned(), body.trim().into())),
                None => expected.push((heading, body.trim())),
            }
        }
        let found =
            match import(&tar(&members)[..], &Options { threads: 1, ..Options::default() }, &mut |_| true) {
                Ok((tables, _)) => rows(&tables),
                Err(error) => format!("error: {error}"),
            };
        for (heading, body) in expected {
            count += 1;
            let is_right = match heading {
                "error" => found.starts_with("error: ") && found.contains(body),
                _ => found == body,
            };
            if !is_right {
                wrong.push(format!("{}:\n--- expected\n{body}\n--- found\n{found}", path.display()));
            }
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

fn rows(tables: &Tables) -> String {
    let text = |value| match value {
        Value::Str(text) => tables.strings.get(text).to_owned(),
        Value::Int(number) => number.to_string(),
        _ => "-".to_owned(),
    };
    let index = |value| match value {
        Value::Int(number) => usize::try_from(number).unwrap(),
        other => panic!("{other:?}"),
    };
    let slice = |row| {
        let track = index(tables.slice.cell("track_id", row));
        let machine = index(tables.track.cell("machine_id", track));
        let cells = [
            tables.slice.cell("name", row),
            tables.slice.cell("ts", row),
            tables.machine.cell("name", machine),
        ];
        cells.map(text).join(" | ")
    };
    let mut lines: Vec<String> = (0..tables.slice.len()).map(slice).collect();
    lines.sort();
    for row in 0..tables.metadata.len() {
        let name = text(tables.metadata.cell("name", row));
        if name.starts_with("manifest_attribute.") || name == "trace_time_clock_id" {
            let values = ["int_value", "str_value"].map(|column| tables.metadata.cell(column, row));
            let value = values.into_iter().find(|value| *value != Value::Null).unwrap_or(Value::Null);
            lines.push(format!("{name} = {}", text(value)));
        }
    }
    lines.join("\n")
}

/// Field numbers of `TracePacket`, and of what is in it.
mod field {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const MACHINE: u32 = 98;
    pub(super) const REMOTE_CLOCK_SYNC: u32 = 107;
}

fn packets(lines: &str) -> Vec<u8> {
    let mut trace = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (machine, line) = match line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            Some((machine, line)) => (machine.parse().unwrap(), line),
            None => (0, line),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["clocks", ref clocks @ ..] => packet(&mut trace, machine, |packet| {
                let clocks = clocks.iter().map(|clock| clock.split_once('=').unwrap());
                snapshot(
                    packet,
                    field::CLOCK_SNAPSHOT,
                    clocks.map(|(id, value)| (number(id), number(value))),
                );
            }),
            ["slice", name, ts] => {
                packet(&mut trace, machine, |packet| {
                    packet.varint(field::SEQUENCE, 1 + machine);
                    packet.nested(field::TRACK_DESCRIPTOR).varint(1, 5 + machine);
                });
                packet(&mut trace, machine, |packet| {
                    packet.varint(field::SEQUENCE, 1 + machine);
                    packet.varint(field::TIMESTAMP, number(ts));
                    let mut event = packet.nested(field::TRACK_EVENT);
                    event.varint(9, 3);
                    event.varint(11, 5 + machine);
                    event.bytes(23, name.as_bytes());
                });
            }
            ["sync", theirs, ours] => packet(&mut trace, machine, |packet| {
                let mut sync = packet.nested(field::REMOTE_CLOCK_SYNC);
                for _ in 0..2 {
                    let mut clocks = sync.nested(1);
                    snapshot(&mut clocks, 2, [(6, number(theirs))].into_iter());
                    snapshot(&mut clocks, 3, [(6, number(ours))].into_iter());
                }
            }),
            _ => panic!("{line}"),
        }
    }
    trace
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn snapshot(message: &mut Message<'_, Vec<u8>>, at: u32, clocks: impl Iterator<Item = (u64, u64)>) {
    let mut snapshot = message.nested(at);
    for (id, value) in clocks {
        let mut clock = snapshot.nested(1);
        clock.varint(1, id);
        clock.varint(2, value);
    }
}

fn packet(trace: &mut Vec<u8>, machine: u64, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
    let mut trace = Message::new(trace);
    let mut packet = trace.nested(1);
    if machine != 0 {
        packet.varint(field::MACHINE, machine);
    }
    fill(&mut packet);
}

fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (name, bytes) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        file.extend(header);
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(512), 0);
    }
    file.resize(file.len() + 1024, 0);
    file
}
