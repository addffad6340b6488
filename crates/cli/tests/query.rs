//! `ferretto convert` runs `ferretto-query`, which is built apart. Here a script stands in for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// Says what it is, and what it was given.
fn script(version: &str) -> String {
    format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo ferretto-query {version}; exit; fi\nprintf '%s;' \"$@\"; exit 7\n"
    )
}

fn put(folder: &Path, script: &str) {
    let path = folder.join("ferretto-query");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The command in a folder of its own, and two folders for its PATH.
fn convert(prepare: impl FnOnce(&Path, &Path)) -> Output {
    // A program that another test starts meanwhile would have the copy open for writing until it runs, and what is open so cannot be run.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (own, path) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let program = own.path().join("ferretto");
    fs::copy(env!("CARGO_BIN_EXE_ferretto"), &program).unwrap();
    prepare(own.path(), path.path());
    let args = ["convert", "--to", "csv", "a trace", "-o", "-", "--help"];
    Command::new(program).args(args).env("PATH", path.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_program_beside_runs_with_the_same_arguments_and_its_status_comes_back() {
    for is_beside in [true, false] {
        let output =
            convert(|own, path| put(if is_beside { own } else { path }, &script(env!("CARGO_PKG_VERSION"))));
        assert_eq!(text(&output.stdout), "convert;--to;csv;a trace;-o;-;--help;", "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn without_it_the_error_says_how_to_build_it() {
    let output = convert(|_, _| {});
    let error = text(&output.stderr);
    assert!(error.contains("cargo build --release -p ferretto-query"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn one_of_another_version_does_not_run() {
    let output = convert(|own, _| put(own, &script("0.0.1")));
    let error = text(&output.stderr);
    assert!(error.contains("is of version 0.0.1") && error.contains("cargo build"), "{error}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}
