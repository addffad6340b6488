//! `ferretto-query query` on many traces, as users run it.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Traces in folders of fifty: the one of this number has so many events modulo seven.
const TRACES: u64 = 200;
/// The place of a file that is no trace.
const BROKEN: &str = "traces/1/broken.pftrace";

fn place() -> TempDir {
    let dir = TempDir::new().unwrap();
    for n in 0..TRACES {
        let folder = dir.path().join("traces").join((n / 50).to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("t{n:03}.pftrace")), common::trace(n % 7)).unwrap();
    }
    fs::write(dir.path().join(BROKEN), [common::trace(3), b"\x0a\xff\xff\xff\xff\xff".to_vec()].concat())
        .unwrap();
    fs::write(dir.path().join("traces/notes.txt"), "these are traces\n").unwrap();
    dir
}

fn query(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
    command.arg("query").args(args).current_dir(dir).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn two_hundred_traces_give_the_rows_that_each_gives_one_behind_the_other() {
    let dir = place();
    let sql = "select _trace, id, ts, name, track_id from slice where ts % 2 = 0";
    let mut expected = String::new();
    let mut of_first = HashMap::new();
    for n in 0..TRACES {
        let path = format!("traces/{}/t{n:03}.pftrace", n / 50);
        if n == 50 {
            expected.push_str(&rows_of(dir.path(), BROKEN, sql));
        }
        // The first seven by runs of their own; the others are the same but for their path.
        let like = format!("traces/0/t{:03}.pftrace", n % 7);
        let rows = of_first.entry(n % 7).or_insert_with(|| rows_of(dir.path(), &like, sql));
        expected.push_str(&rows.replace(&like, &path));
    }
    for threads in ["1", "3"] {
        let output = query(dir.path(), &["traces", sql, "--threads", threads]);
        assert_eq!(stdout(&output), format!("_trace,id,ts,name,track_id\n{expected}"));
    }
}

fn rows_of(dir: &Path, path: &str, sql: &str) -> String {
    let rows = stdout(&query(dir, &[path, sql]));
    rows.split_once('\n').map(|(_, rows)| rows.to_owned()).unwrap()
}

#[test]
fn traces_are_files_folders_and_patterns() {
    let dir = place();
    let count = "select count(distinct _trace) n, count(*) c from (select _trace from slice)";
    for (traces, expected) in [
        (&["traces/0"][..], "n,c\n42,147\n"),
        (&["traces/0/*.pftrace"], "n,c\n42,147\n"),
        (&["traces/**/t00[0-3].pftrace"], "n,c\n3,6\n"),
        (&["traces/0/t001.pftrace", "traces/0/t002.pftrace", "traces/0/t001.pftrace"], "n,c\n2,3\n"),
    ] {
        assert_eq!(stdout(&query(dir.path(), &[traces, &[count]].concat())), expected, "{traces:?}");
    }
    fs::write(dir.path().join("q.sql"), count).unwrap();
    assert_eq!(
        stdout(&query(dir.path(), &["traces/0", "traces/1/t050.pftrace", "-f", "q.sql"])),
        "n,c\n43,148\n"
    );
    for (args, said) in [
        (&["traces/0"][..], "error: the statements are missing"),
        (&["traces/0/t001.pftrace", "traces/0/t002.pftrace"], "error: the statements are missing"),
        (&["nothing*", "select 1"], "error: no trace matches nothing*"),
        (&["s3://bucket/", "select 1"], "error: s3://bucket/ is not on this machine"),
        (&["-", "traces", "select 1"], "error: stdin cannot be one of several traces"),
    ] {
        let output = query(dir.path(), args);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(said), "{output:?}");
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_told_of_and_costs_no_other() {
    let dir = place();
    fs::write(dir.path().join("text"), "it is no trace").unwrap();
    let some = ["traces/0/t001.pftrace", "text", "gone", "traces/0/t002.pftrace"];
    let output = query(dir.path(), &[&some[..], &["select count(*) n from slice"]].concat());
    assert_eq!(stdout(&output), "n\n3\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.starts_with("note: text was left out: it is no trace")
            && said.contains("\nnote: gone was left out: "),
        "{said}"
    );
    let output = query(dir.path(), &[&some[..], &["select path from trace_errors order by 1"]].concat());
    assert_eq!(stdout(&output), "path\ngone\ntext\n");
    let output = query(dir.path(), &["text", "gone", "select count(*) n from slice"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("error: none of 2 traces can be read"),
        "{output:?}"
    );
    // A file whose end is missing is read as far as it goes.
    let output =
        query(dir.path(), &["traces/1", "select count(*) n from slice where _trace like '%broken%'"]);
    assert_eq!(stdout(&output), "n\n3\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("broken.pftrace is not whole"), "{output:?}");
}

#[test]
fn each_of_many_traces_has_its_kept_tables_and_they_are_no_traces() {
    let dir = place();
    let sql = "select _trace, count(*) from slice group by 1 order by 1";
    let expected = stdout(&query(dir.path(), &["traces", sql]));
    for _ in 0..2 {
        assert_eq!(stdout(&query(dir.path(), &["traces", sql, "--cache"])), expected);
        assert!(dir.path().join("traces/0/t001.pftrace.tables").is_file());
    }
}
