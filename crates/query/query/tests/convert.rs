//! `ferretto-query convert` as users run it.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{place, trace};
use rustix::process::{Pid, Signal, kill_process};

fn start(dir: &Path, words: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
    command.arg("convert").args(words.split(' ')).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn convert(dir: &Path, words: &str) -> Output {
    start(dir, words).wait_with_output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn formats_of_tables_become_a_folder_that_says_what_it_is() {
    let dir = place(100);
    for format in ["parquet", "arrow", "csv", "jsonl"] {
        let output = convert(dir.path(), &format!("--to {format} t.pftrace -o {format}"));
        assert!(output.status.success(), "{}", stderr(&output));
        let manifest = fs::read_to_string(dir.path().join(format).join("manifest.json")).unwrap();
        assert!(manifest.contains("\"packets\": 101"), "{manifest}");
        assert!(manifest.contains("{\"name\": \"slice\", \"file\": \"slice."), "{manifest}");
        assert!(names(&dir.path().join(format)).contains(&format!("thread_track.{format}")));
    }
    assert_eq!(names(dir.path()), ["arrow", "csv", "jsonl", "parquet", "t.pftrace"]);
}

#[test]
fn one_table_is_a_file_or_goes_to_stdout_and_the_trace_may_come_from_stdin() {
    let dir = place(3);
    let output = convert(dir.path(), "t.pftrace --table slice -o slice.csv");
    assert!(output.status.success(), "{}", stderr(&output));
    let file = fs::read_to_string(dir.path().join("slice.csv")).unwrap();
    assert_eq!(file.lines().count(), 4);
    let mut child = start(dir.path(), "--to csv --table slice - -o -");
    child.stdin.take().unwrap().write_all(&trace(3)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), file, "{}", stderr(&output));
}

#[test]
fn what_cannot_be_done_is_an_error_with_advice_and_leaves_nothing() {
    let dir = place(20_000);
    fs::write(dir.path().join("program"), b"\x7fELF\x02\x01").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::create_dir(dir.path().join("others")).unwrap();
    fs::write(dir.path().join("others/file"), "").unwrap();
    let before = names(dir.path());
    for (words, expected) in [
        ("--to csv program -o out", "seems to be a program or a library (ELF)"),
        ("--to csv empty -o out", "it is empty"),
        ("--to csv nothing -o out", "cannot read nothing"),
        ("--to csv others -o out", "others is a folder"),
        ("--to csv t.pftrace -o others", "a folder with other files"),
        ("--to csv t.pftrace -o -", "--table NAME"),
        ("--to csv t.pftrace --table nothing -o out", "there are slice, track"),
        ("--to csv t.pftrace -o no/such/out", "cannot write no/such/out"),
        ("--to csv t.pftrace --memory 1k -o out", "--memory allows more"),
    ] {
        let output = convert(dir.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(stderr(&output).contains(expected), "{words}: {}", stderr(&output));
        assert_eq!(names(dir.path()), before, "{words}");
    }
}

#[test]
fn a_folder_of_ours_is_replaced_if_that_is_said() {
    let dir = place(3);
    assert!(convert(dir.path(), "--to csv t.pftrace -o out").status.success());
    let output = convert(dir.path(), "--to jsonl t.pftrace -o out");
    assert!(stderr(&output).contains("--force replaces it"), "{}", stderr(&output));
    assert!(convert(dir.path(), "--to jsonl t.pftrace -o out --force").status.success());
    let files = names(&dir.path().join("out"));
    assert!(
        files.contains(&"slice.jsonl".to_owned()) && !files.contains(&"slice.csv".to_owned()),
        "{files:?}"
    );
    assert_eq!(names(dir.path()), ["out", "t.pftrace"]);
}

#[test]
fn a_torn_end_is_said_and_what_is_whole_is_written() {
    let dir = place(3);
    let bytes = trace(3);
    fs::write(dir.path().join("torn"), &bytes[..bytes.len() - 1]).unwrap();
    let output = convert(dir.path(), "torn --table slice -o slice.csv");
    assert!(
        output.status.success() && stderr(&output).contains("its last packet is not whole"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(dir.path().join("slice.csv")).unwrap().lines().count(), 3);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let dir = place(20_000);
    for to in [
        "--to csv t.pftrace -o out",
        "--to jsonl --table slice t.pftrace -o out",
        "--to txt t.pftrace -o out",
        "--to pftrace --compress t.pftrace -o out",
    ] {
        // As soon as something is there it ends, wherever it is then.
        let mut child = start(dir.path(), to);
        let deadline = Instant::now() + Duration::from_secs(30);
        while names(dir.path()).len() == 1 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let killed = kill_process(Pid::from_child(&child), Signal::INT);
        let status = child.wait().unwrap();
        // It may have been through before the signal came.
        if killed.is_ok() && !status.success() {
            assert_eq!(names(dir.path()), ["t.pftrace"], "{to}");
        } else {
            assert_eq!(names(dir.path()), ["out", "t.pftrace"], "{to}");
            let out = dir.path().join("out");
            let _ = fs::remove_dir_all(&out).or_else(|_| fs::remove_file(&out));
        }
    }
}

#[test]
fn packets_are_copied_without_those_that_say_nothing() {
    let dir = place(0);
    let mut with_empty = trace(100);
    with_empty.extend(b"\x0a\x00\x0a\x04\x18\x05\x50\x01");
    fs::write(dir.path().join("t.pftrace"), &with_empty).unwrap();
    for (words, file) in [("", "plain"), ("--compress ", "compressed")] {
        let output = convert(dir.path(), &format!("--to pftrace {words}t.pftrace -o {file}"));
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let read = |file| fs::read(dir.path().join(file)).unwrap();
    assert_eq!(read("plain"), trace(100));
    assert!(read("compressed").len() < read("plain").len() / 4);
    assert!(convert(dir.path(), "--to pftrace compressed -o again").status.success());
    assert_eq!(read("again"), read("plain"));
    let output = convert(dir.path(), "--to csv --compress t.pftrace -o out");
    assert!(stderr(&output).contains("--compress is for --to pftrace"), "{}", stderr(&output));
}

#[test]
fn packets_as_text_become_the_same_packets_and_any_other_format() {
    let dir = place(100);
    let read = |file| fs::read(dir.path().join(file)).unwrap();
    for words in [
        "--to txt t.pftrace -o t.pbtxt",
        "--to pftrace t.pbtxt -o back.pftrace",
        "--to csv --table slice t.pftrace -o a.csv",
        "--to csv --table slice t.pbtxt -o b.csv",
    ] {
        let output = convert(dir.path(), words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
    }
    let text = String::from_utf8(read("t.pbtxt")).unwrap();
    assert!(
        text.contains("\n  track_event {\n    type: TYPE_INSTANT\n    track_uuid: 7\n    name: \"name\"\n"),
        "{text}"
    );
    assert_eq!((read("back.pftrace"), read("b.csv")), (trace(100), read("a.csv")));
    let output = convert(dir.path(), "--to txt t.pftrace -o -");
    assert_eq!(output.stdout, text.as_bytes());
}

#[test]
fn a_trace_of_another_format_becomes_packets() {
    let dir = place(0);
    let json = r#"[{"ph":"X","pid":1,"tid":2,"ts":1,"dur":5,"name":"work"}]"#;
    fs::write(dir.path().join("t.json"), json).unwrap();
    for words in [
        "t.json -o j.pftrace",
        "--to csv --table slice t.json -o a.csv",
        "--to csv --table slice j.pftrace -o b.csv",
    ] {
        let output = convert(dir.path(), words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
    }
    let output = convert(dir.path(), "--to txt t.json -o -");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("type: TYPE_SLICE_BEGIN"),
        "{}",
        stderr(&output)
    );
    for file in ["a.csv", "b.csv"] {
        let slices = fs::read_to_string(dir.path().join(file)).unwrap();
        let [_, slice] = slices.lines().collect::<Vec<_>>()[..] else { panic!("{slices}") };
        assert!(slice.starts_with("0,0,1000,5000,") && slice.contains(",,work,0,"), "{slice}");
    }
}

#[test]
fn packets_that_cannot_be_read_or_written_to_their_end_leave_nothing() {
    let dir = place(20_000);
    fs::write(dir.path().join("bad.pbtxt"), "packet {\n  timestamp: 1\n}\npacket {\n  timestmp: 2\n}\n")
        .unwrap();
    fs::write(dir.path().join("t.zip"), "PK\x03\x04").unwrap();
    fs::write(dir.path().join("out"), "old").unwrap();
    let before = names(dir.path());
    for (words, expected) in [
        (
            "--to pftrace bad.pbtxt -o out",
            "bad.pbtxt: 5:3: unknown field `timestmp` in TracePacket; did you mean `timestamp`?",
        ),
        ("--to csv bad.pbtxt -o tables", "5:3: unknown field"),
        ("--to pftrace t.zip -o out", "is cut off before its first member ends"),
        ("--to txt t.pftrace -o no/such/out", "cannot write no/such/out"),
        ("--to txt t.pftrace -o /dev/full", "cannot write /dev/full"),
        ("--to pftrace --compress t.pftrace -o /dev/full", "cannot write /dev/full"),
    ] {
        let output = convert(dir.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(stderr(&output).contains(expected), "{words}: {}", stderr(&output));
        assert_eq!(names(dir.path()), before, "{words}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), "old");
}

#[test]
fn who_wants_no_more_is_no_error() {
    let dir = place(50_000);
    let mut child = start(dir.path(), "--to jsonl --table slice t.pftrace -o -");
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((&first[..7], stderr(&output).as_str()), (&b"{\"id\":0"[..], ""));
    assert!(output.status.success());
}
