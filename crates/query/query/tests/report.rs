//! `ferretto-query report` as users run it.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::place;

fn report(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
    command.arg("report").args(args).current_dir(dir).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_trace_is_reported_on_in_each_form() {
    let dir = place(3);
    let text = stdout(&report(dir.path(), &["t.pftrace"]));
    assert!(text.starts_with("t.pftrace\nRecorded ") && text.contains("- no scheduling: record"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let json = stdout(&report(dir.path(), &["t.pftrace", "--json"]));
    assert!(json.starts_with("{\"trace\":\"t.pftrace\",") && json.ends_with("}\n"), "{json}");
    assert_eq!(stdout(&report(dir.path(), &["t.pftrace", "--html", "-o", "r.html"])), "");
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    let rows = stdout(&report(dir.path(), &["t.pftrace", "-n", "1"]));
    assert!(rows.lines().count() <= text.lines().count());
}

#[test]
fn two_traces_are_compared_and_only_two() {
    let dir = place(3);
    let text = stdout(&report(dir.path(), &["--compare", "t.pftrace", "t.pftrace"]));
    assert!(text.starts_with("t.pftrace → t.pftrace\n"), "{text}");
    for (args, said) in [
        (&["--compare", "t.pftrace"][..], "--compare wants two traces"),
        (&["t.pftrace", "t.pftrace"], "a report is on one trace"),
        (&["t.pftrace", "--html", "--json"], "cannot be used with"),
        (&["nothing.pftrace"], "cannot read nothing.pftrace"),
    ] {
        let output = report(dir.path(), args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{args:?}: {error}");
    }
}
