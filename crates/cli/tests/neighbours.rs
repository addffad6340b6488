//! Other users of the machine: what they say, and what they have put in the way.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Place, copy_program};

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
    copy_program(env!("CARGO_BIN_EXE_ferretto"), &program);
    let named = place.path("of-the-environment");
    let says = |args: &[&str], variable: &str| {
        let mut command = Command::new(&program);
        command.args(args).uid(USER).env(variable, &named).current_dir("/");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let cases: [(&[&str], _); 3] = [
        (&["perfetto", "--query"], "PERFETTO_CONSUMER_SOCK_NAME"),
        (&["relay"], "PERFETTO_RELAY_SOCK_NAME"),
        // What it names is opened anew with the program's rights, and written to.
        (&["relay"], "TRACED_RELAY_NOTIFY_FD"),
    ];
    for (is_heeded, mode) in [(true, 0o755), (false, 0o4755)] {
        set_mode(&program, mode);
        for (args, variable) in cases {
            let said = says(args, variable);
            assert_eq!(said.contains("of-the-environment"), is_heeded, "{said}");
        }
    }
}

/// Such as one in a container, to whom the kernel gives no rights over others.
#[test]
fn a_root_of_a_user_name_space_records_its_own_programs_only() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    chown(place.folder.path(), Some(USER), None).unwrap();
    place.write("config", "buffers { size_kb: 64 } data_sources { config { name: 'linux.system_info' } }");
    let record = |command: &mut Command| {
        let socket = place.path("p");
        command.args(["record", "--own", "-q", "-c", "config", "-o", "t", "--", "stat", "-c", "%a", "p"]);
        command.env("PERFETTO_PRODUCER_SOCK_NAME", &socket).current_dir(place.folder.path());
        command.env("PERFETTO_CONSUMER_SOCK_NAME", place.path("c"));
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (of_root, _) = record(&mut Command::new(env!("CARGO_BIN_EXE_ferretto")));
    assert_eq!(of_root, "666\n");
    let _ = fs::remove_file(place.path("t"));
    let program = place.path("ferretto");
    copy_program(env!("CARGO_BIN_EXE_ferretto"), &program);
    let (mode, words) = record(Command::new("unshare").arg("-Ur").arg(program).uid(USER).gid(USER));
    if words.contains("unshare:") {
        return println!("skipped: {words}");
    }
    assert!(!mode.is_empty() && !mode.ends_with("6\n"), "{mode}{words}");
}

/// In there a neighbour has the same number as root.
#[test]
fn a_user_name_space_does_not_make_a_neighbours_folder_ones_own() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    set_mode(place.folder.path(), 0o755);
    for (folder, user) in [("own", USER), ("theirs", NEIGHBOUR)] {
        fs::create_dir(place.path(folder)).unwrap();
        chown(place.path(folder), Some(user), Some(user)).unwrap();
    }
    let (file, link) = (place.write("own/file", "precious"), place.path("theirs/link"));
    chown(&file, Some(USER), Some(USER)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let pipe = place.path("theirs/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
    set_mode(&pipe, 0o666);
    for theirs in [&link, &pipe] {
        std::os::unix::fs::lchown(theirs, Some(NEIGHBOUR), Some(NEIGHBOUR)).unwrap();
    }
    place.write(
        "config",
        "buffers { size_kb: 64 } data_sources { config { name: 'linux.system_info' } } duration_ms: 10",
    );
    let program = place.path("ferretto");
    copy_program(env!("CARGO_BIN_EXE_ferretto"), &program);
    let record = |output: &str| {
        // By a pipe of the user's own.
        let words = "unshare -Ur ./ferretto record --own -q -c config -o \"$0\" | cat";
        let mut command =
            place.command(std::path::Path::new("bash"), &["-o", "pipefail", "-c", words, output]);
        command.uid(USER).gid(USER).output().unwrap()
    };
    let stdout = record("/dev/stdout");
    let words = common::stderr(&stdout);
    if words.contains("unshare:") {
        return println!("skipped: {words}");
    }
    assert!(stdout.status.success() && !stdout.stdout.is_empty(), "{words}");
    for (output, may) in
        [("theirs/link", false), ("theirs/pipe", false), ("/dev/null", true), ("own/file", true)]
    {
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        let recorded = record(output);
        assert_eq!(recorded.status.success(), may, "{output}: {}", common::stderr(&recorded));
    }
}

/// Root sees everybody's sessions, and a recorder's name is not hard to guess.
#[test]
fn a_snapshot_of_the_systems_service_is_of_the_user_before_sudo_only() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    set_mode(place.folder.path(), 0o777);
    let _traced = place.traced();
    for socket in ["producer.sock", "consumer.sock"] {
        set_mode(&place.path(socket), 0o666);
    }
    place.write("config", "buffers { size_kb: 64 name: '\\033[31m' } data_sources { config { name: 'x' } }");
    let program = place.path("ferretto");
    copy_program(env!("CARGO_BIN_EXE_ferretto"), &program);
    let log = place.path("log");
    let mut recorder =
        place.command(&program, &["record", "--system", "--flight", "--any-source", "-c", "config"]);
    recorder.uid(NEIGHBOUR).gid(NEIGHBOUR).stderr(fs::File::create(&log).unwrap());
    let _recorder = common::Daemon(recorder.spawn().unwrap());
    common::wait_until("it records", || fs::read_to_string(&log).unwrap().contains("ferretto snapshot"));
    for (user, is_given) in [(USER, false), (NEIGHBOUR, true)] {
        let mut snapshot = place.ferretto(&["snapshot", "-o", "t.pftrace"]);
        let output = snapshot.env("SUDO_UID", user.to_string()).output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), is_given, "{user}: {words}");
        assert_eq!(place.path("t.pftrace").exists(), is_given);
        assert!(!words.contains('\u{1b}'), "{words}");
    }
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
