//! Other users of the machine: what they say, and what they have put in the way.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::Place;

const USER: u32 = 1001;
const NEIGHBOUR: u32 = 1002;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can be other users");
    }
    is_root
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The words of whoever starts a program that has more rights than they are not that program's.
#[test]
fn a_set_user_id_program_does_not_heed_the_environment() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    set_mode(place.folder.path(), 0o755);
    let program = place.path("ferretto");
    fs::copy(env!("CARGO_BIN_EXE_ferretto"), &program).unwrap();
    let named = place.path("of-the-environment");
    let query = || {
        let mut command = Command::new(&program);
        command.args(["perfetto", "--query"]).uid(USER).env("PERFETTO_CONSUMER_SOCK_NAME", &named);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    set_mode(&program, 0o755);
    assert!(query().contains("of-the-environment"), "{}", query());
    set_mode(&program, 0o4755);
    assert!(!query().contains("of-the-environment"), "{}", query());
}

/// Where a recorder without a folder of the session listens, a neighbour may have been first.
#[test]
fn a_snapshot_under_sudo_is_of_the_user_before_it_only() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    // Users who are not there: nobody else has such a folder.
    let (user, neighbour) = (4_000_000 + std::process::id(), NEIGHBOUR);
    let folder = std::path::PathBuf::from(format!("/tmp/ferretto-{user}"));
    fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o700);
    chown(&folder, Some(neighbour), None).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.join("flight.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut snapshot = place.ferretto(&["snapshot", "-o", "t.pftrace"]);
    let output = snapshot.env("SUDO_UID", user.to_string()).output().unwrap();
    let asked = listener.accept().is_ok();
    fs::remove_dir_all(&folder).unwrap();
    assert!(!output.status.success());
    assert!(!asked, "a neighbour's recorder was asked");
    assert!(!place.path("t.pftrace").exists());
}
