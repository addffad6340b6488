//! `ferretto-query query` as users run it.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::place;

fn query(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
    command.args(["query", "t.pftrace"]).args(args).current_dir(dir).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn rows_are_shown_in_each_format() {
    let dir = place(3);
    let sql = "select id, ts / 10.0 as Tenths, name, parent_id from slice where id < 2";
    for (format, expected) in [
        ("csv", "id,Tenths,name,parent_id\n0,100.0,name,\n1,100.1,name,\n"),
        (
            "jsonl",
            "{\"id\":0,\"Tenths\":100.0,\"name\":\"name\",\"parent_id\":null}\n{\"id\":1,\"Tenths\":100.1,\"name\":\"name\",\"parent_id\":null}\n",
        ),
        (
            "markdown",
            "| id | Tenths | name | parent_id |\n|---:|---:|---|---:|\n| 0 | 100.0 | name |  |\n| 1 | 100.1 | name |  |\n",
        ),
        (
            "table",
            "id │ Tenths │ name │ parent_id\n───┼────────┼──────┼──────────\n 0 │  100.0 │ name │\n 1 │  100.1 │ name │\n(2 rows)\n",
        ),
    ] {
        assert_eq!(stdout(&query(dir.path(), &[sql, "--format", format])), expected);
    }
    for (format, magic) in [("parquet", &b"PAR1"[..]), ("arrow", &[0xff; 4])] {
        stdout(&query(dir.path(), &[sql, "--format", format, "-o", "out"]));
        assert!(fs::read(dir.path().join("out")).unwrap().starts_with(magic), "{format}");
    }
}

#[test]
fn of_several_statements_the_last_ones_rows_are_shown_and_those_before_it_are_run() {
    let dir = place(3);
    fs::write(
        dir.path().join("q.sql"),
        "create perfetto table t as select ts from slice; -- made\nselect 1; select count(*) from t;\n",
    )
    .unwrap();
    assert_eq!(stdout(&query(dir.path(), &["-f", "q.sql"])), "count(*)\n3\n");
    assert_eq!(stdout(&query(dir.path(), &["select 1; create view v as select 2"])), "");
}

#[test]
fn what_is_wrong_has_a_place_and_a_nearest_name() {
    let dir = place(1);
    for (sql, said) in [
        (
            "select\n  nam from slice",
            "error: there is no column nam\n --> query:2:3\n  |\n2 |   nam from slice\n  |   ^\nhelp: did you mean name?\n",
        ),
        (
            "select 1 from slcie",
            "error: there is no table or view slcie\n --> query:1:15\n  |\n1 | select 1 from slcie\n  |               ^\nhelp: did you mean slice?\n",
        ),
        (
            "select 1 +",
            "error: expected an expression, found the end of the statement\n --> query:1:11\n  |\n1 | select 1 +\n  |           ^\n",
        ),
    ] {
        let output = query(dir.path(), &[sql]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr).replace("an expression:", "an expression"), said);
    }
}

#[test]
fn hostile_statements_end_with_a_message() {
    let dir = place(1);
    let deep = format!("select {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    let chain = format!("select 1{}", " + 1".repeat(1400));
    let values = "create perfetto table t as with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) select x from c;";
    fs::write(dir.path().join("deep.sql"), deep).unwrap();
    let output = query(dir.path(), &["-f", "deep.sql"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("too deep"), "{output:?}");
    fs::write(dir.path().join("chain.sql"), chain).unwrap();
    assert!(stdout(&query(dir.path(), &["-f", "chain.sql", "--format", "csv"])).ends_with("\n1401\n"));
    // A cross join of everything, sorted, in little memory.
    let cross = format!("{values} create perfetto table u as select a.x, b.x y from t a, t b order by 2, 1");
    fs::write(dir.path().join("cross.sql"), cross).unwrap();
    let output = query(dir.path(), &["-f", "cross.sql", "--memory", "20M"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// What comes of statements on stdin.
fn piped(dir: &Path, args: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
    command.args(["query", "t.pftrace"]).args(args).current_dir(dir);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn statements_on_stdin_are_run_one_by_one_and_the_first_that_is_wrong_ends_them() {
    let dir = place(3);
    fs::write(dir.path().join("more.sql"), "create table t as select 7 as n;\nselect n from t").unwrap();
    let text = "select 1 as a; select\n  ';' as b;\n\\i more.sql\n\\d t\n\\timing\nselect 2 as c";
    let output = piped(dir.path(), &[], text);
    let said = stdout(&output);
    let (rows, time) = said.split_once("Time: ").unwrap();
    assert_eq!(rows, "a\n1\nb\n;\nn\n7\nn  LONG\nTiming is on.\nc\n2\n");
    assert!(time.ends_with(" ms\n"));
    let output = piped(dir.path(), &["-i"], "select 1;\nselect nam from slice;\nselect 2;");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"1\n1\n");
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .starts_with("error: there is no column nam\n --> stdin:1:8\n")
    );
    // A file that reads itself.
    fs::write(dir.path().join("more.sql"), "\\i more.sql\n").unwrap();
    let output = piped(dir.path(), &[], "\\i more.sql");
    assert!(String::from_utf8_lossy(&output.stderr).contains("more than 16 files"), "{output:?}");
}

#[test]
fn a_statement_has_its_time() {
    let dir = place(3);
    let endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c";
    let output = query(dir.path(), &[endless, "--timeout", "500ms"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("0.5 seconds") && said.contains("--timeout"), "{said}");
}

/// What tells whether a file was written anew.
fn written(path: &Path) -> (u64, i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.ino(), meta.ctime(), meta.ctime_nsec())
}

#[test]
fn kept_tables_are_asked_until_the_trace_changes() {
    let dir = place(40_000);
    let (trace, kept) = (dir.path().join("t.pftrace"), dir.path().join("t.pftrace.tables"));
    let sql = "select count(*), sum(ts), max(slice.name), min(track.name) from slice join track on track_id = track.id";
    let expected = stdout(&query(dir.path(), &[sql]));
    assert!(!kept.exists());
    assert_eq!(stdout(&query(dir.path(), &[sql, "--cache"])), expected);
    assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
    let first = written(&kept);
    // With little memory they stay in the file.
    for more in [&["--cache"][..], &["--cache", "--memory", "100k", "--threads", "1"]] {
        let output = query(dir.path(), &[&[sql], more].concat());
        assert!(output.status.success() || more.len() > 1, "{output:?}");
        assert!(!output.status.success() || stdout(&output) == expected);
        assert_eq!(written(&kept), first);
    }
    // A copy of both is as good: it is the hash that counts.
    fs::copy(&trace, dir.path().join("copy")).unwrap();
    fs::rename(dir.path().join("copy"), &trace).unwrap();
    assert_eq!(stdout(&query(dir.path(), &[sql, "--cache"])), expected);
    assert_eq!(written(&kept), first);
    fs::write(&trace, common::trace(7)).unwrap();
    assert!(stdout(&query(dir.path(), &[sql, "--cache"])).contains("7,7021,name,track"));
    assert_ne!(written(&kept), first);
    // Other rules make other tables.
    let seven = written(&kept);
    stdout(&query(dir.path(), &[sql, "--cache", "--crop-track-events"]));
    assert_ne!(written(&kept), seven);
}

#[test]
fn what_was_met_at_the_end_of_a_trace_is_said_of_its_kept_tables_too() {
    let dir = place(10);
    let trace = dir.path().join("t.pftrace");
    let bytes = fs::read(&trace).unwrap();
    fs::write(&trace, &bytes[..bytes.len() - 1]).unwrap();
    let said = [(); 2].map(|()| {
        let output = query(dir.path(), &["select count(*) from slice", "--cache"]);
        assert_eq!(stdout(&output), "count(*)\n9\n");
        String::from_utf8(output.stderr).unwrap()
    });
    assert!(said[0].contains("its last packet is not whole") && said[0] == said[1], "{said:?}");
}

#[test]
fn tables_are_believed_only_if_nobody_else_can_have_written_them_and_all_of_them_is_there() {
    let dir = place(40_000);
    let kept = dir.path().join("t.pftrace.tables");
    let ask = || query(dir.path(), &["select sum(ts) from slice", "--cache"]);
    let sum = stdout(&ask());
    let good = fs::read(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o620)).unwrap();
    let before = written(&kept);
    assert_eq!(stdout(&ask()), sum);
    assert_ne!(written(&kept), before, "others could write into it");
    fs::write(&kept, &good[..good.len() / 2]).unwrap();
    assert_eq!(stdout(&ask()), sum);
    assert!(fs::read(&kept).unwrap().len() > good.len() / 2 + 4096);
    // Blocks are looked at when they are needed.
    let mut bad = fs::read(&kept).unwrap();
    let middle = bad.len() / 2;
    bad[middle..middle + 4096].fill(0x55);
    fs::write(&kept, bad).unwrap();
    let output = ask();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("remove it"), "{output:?}");
    // One that cannot be written costs no answer.
    fs::remove_file(&kept).unwrap();
    fs::create_dir_all(kept.join("x")).unwrap();
    let output = ask();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("note: the tables are not kept: "),
        "{output:?}"
    );
    assert_eq!(stdout(&output), sum);
    let output = Command::new(env!("CARGO_BIN_EXE_ferretto-query"))
        .args(["query", "-", "select 1", "--cache"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("--cache keeps tables beside a file"),
        "{output:?}"
    );
}
