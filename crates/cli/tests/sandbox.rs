//! The daemons are shut in, do their work so, and can be left alone (`--no-sandbox`) or become somebody else (`--user`).
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::pty::OpenptFlags;

use common::{Daemon, Place, assert_status, stderr, wait_until};

const SHUT_IN: &str = "shut in by no new privileges, capabilities, Landlock, seccomp";
/// A user that no machine has, so that nothing is its by chance.
const SOMEBODY: u32 = 4711;

/// A daemon that writes its log into a file of its name.
fn start(place: &Place, args: &[&str], address: Option<&str>) -> Daemon {
    let log = fs::File::create(place.path(&format!("{}.log", args[0]))).unwrap();
    let mut command = place.ferretto(args);
    command.envs(address.map(|address| ("PERFETTO_RELAY_SOCK_NAME", address)));
    Daemon(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

/// A daemon that a shell has become, after it has done this; from when it is shut in.
fn start_by_shell(place: &Place, name: &str, before: &str) -> Daemon {
    let daemon = place.ferretto(&[name]);
    let log = fs::File::create(place.path(&format!("{name}.log"))).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{before} && exec \"$0\" \"$@\"")]);
    shell.arg(daemon.get_program()).args(daemon.get_args());
    shell.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let started = Daemon(shell.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    wait_until("it is shut in", || self::log(place, name).contains("shut in"));
    started
}

fn log(place: &Place, daemon: &str) -> String {
    fs::read_to_string(place.path(&format!("{daemon}.log"))).unwrap()
}

/// A line of what the kernel says of a process.
fn status(daemon: &Daemon, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_ascii_whitespace().next().unwrap().to_owned()
}

/// Whoever reads them holds a lock of the daemon's memory.
fn has_no_arguments_to_read(place: &Place, daemon: &Daemon, name: &str) {
    if log(place, name).contains("read this daemon's arguments") {
        return println!("skipped: {}", log(place, name));
    }
    let process = format!("/proc/{}", daemon.0.id());
    assert_eq!(fs::read(format!("{process}/cmdline")).unwrap(), b"", "{name}");
    let command = fs::read_to_string(format!("{process}/comm")).unwrap();
    assert_eq!(command.trim_end(), "ferretto", "by which it is still found");
}

/// All of it, or the test says what the machine has not.
fn is_shut_in(place: &Place, daemon: &Daemon, name: &str) -> bool {
    wait_until("it says that it is shut in", || log(place, name).contains("shut in"));
    has_no_arguments_to_read(place, daemon, name);
    let log = log(place, name);
    if !log.contains(SHUT_IN) {
        println!("skipped: {log}");
        return false;
    }
    assert_eq!(
        (status(daemon, "NoNewPrivs:"), status(daemon, "Seccomp:")),
        ("1".into(), "2".into()),
        "{name}"
    );
    true
}

fn traced(place: &Place, args: &[&str]) -> Daemon {
    let daemon = start(place, &[&["traced"], args].concat(), None);
    wait_until("the service is ready", || log(place, "traced").contains("is ready"));
    daemon
}

/// Records a moment into the file that the config names.
fn record_into(place: &Place, path: &Path) -> Output {
    let config = format!(
        "buffers {{ size_kb: 64 }} data_sources {{ config {{ name: 'linux.system_info' }} }} duration_ms: 100
         write_into_file: true output_path: '{}'",
        path.display()
    );
    let config = place.write("config", config);
    place.applet("perfetto", &["--txt", "-c"]).arg(config).output().unwrap()
}

#[test]
fn all_of_them_are_shut_in_and_do_their_work() {
    let place = Place::new();
    let traced = traced(&place, &[]);
    let probes = start(&place, &["probes"], None);
    is_shut_in(&place, &traced, "traced");
    is_shut_in(&place, &probes, "probes");
    let trace = place.path("out.pftrace");
    wait_until("the probes are there", || {
        let output = place.applet("perfetto", &["--query"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("linux.system_info")
    });
    assert_status(&record_into(&place, &trace), 0);
    assert!(fs::metadata(&trace).unwrap().len() > 100);
    assert_eq!(fs::metadata(&trace).unwrap().permissions().mode() & 0o777, 0o600);
    drop((probes, traced));
    assert!(!place.path("producer.sock").exists() && !place.path("consumer.sock").exists());

    let far = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = start(&place, &["relay"], Some(&far.local_addr().unwrap().to_string()));
    is_shut_in(&place, &relay, "relay");
    far.accept().unwrap();
    UnixStream::connect(place.path("producer.sock")).unwrap();
    drop(relay);
    assert!(!place.path("producer.sock").exists());

    let bridge = start(&place, &["bridge", "--port", "0"], None);
    is_shut_in(&place, &bridge, "bridge");
}

/// Users and programs to serve are many more than the 1,024 of a shell.
#[test]
fn each_has_as_many_descriptors_as_it_may() {
    let place = Place::new();
    for name in ["traced", "probes"] {
        let started = start_by_shell(&place, name, "ulimit -S -n 200; ulimit -H -n 400");
        let limits = fs::read_to_string(format!("/proc/{}/limits", started.0.id())).unwrap();
        let open_files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let found: Vec<_> = open_files.split_ascii_whitespace().take(2).collect();
        assert_eq!(found, ["400", "400"], "{name}");
    }
}

/// It may be a password.
#[test]
fn what_is_typed_where_a_daemon_was_started_is_not_its_to_read() {
    let place = Place::new();
    let log = fs::File::create(place.path("traced.log")).unwrap();
    let mut command = place.ferretto(&["traced"]);
    let traced = Daemon(command.stdin(Stdio::piped()).stderr(log).spawn().unwrap());
    wait_until("the service is ready", || self::log(&place, "traced").contains("is ready"));
    let stdin = fs::read_link(format!("/proc/{}/fd/0", traced.0.id())).unwrap();
    assert_eq!(stdin, Path::new("/dev/null"));
}

/// Whoever started it may have had a terminal open under any number.
#[test]
fn a_terminal_that_a_daemon_was_started_with_is_closed() {
    let place = Place::new();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).and_then(|()| rustix::pty::unlockpt(&master)).unwrap();
    let terminal = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    for name in ["traced", "probes"] {
        let started = start_by_shell(&place, name, &format!("exec 7<>'{terminal}' 8</dev/null"));
        let fd = |number: u32| fs::read_link(format!("/proc/{}/fd/{number}", started.0.id()));
        assert!(fd(8).is_ok(), "what is no terminal stays");
        assert_ne!(fd(7).unwrap_or_default(), Path::new(&terminal), "{name}");
    }
}

/// The right to remove its sockets there would be for everybody's files.
#[test]
fn sockets_in_a_common_folder_stay_and_are_in_nobodys_way() {
    let place = Place::new();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for _ in 0..2 {
        let daemon = traced(&place, &[]);
        let is_shut_in = is_shut_in(&place, &daemon, "traced");
        let output = place.applet("perfetto", &["--query"]).output().unwrap();
        assert_status(&output, 0);
        drop(daemon);
        assert_eq!(place.path("consumer.sock").exists(), is_shut_in);
    }
}

#[test]
fn files_are_made_where_they_may_be_only() {
    let place = Place::new();
    // Neither below /tmp nor below /var/tmp, but where these are all of the machine.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let elsewhere = elsewhere.path();
    if ["/tmp", "/var/tmp"].iter().any(|dir| elsewhere.starts_with(dir)) {
        return println!("skipped: the build folder is in /tmp");
    }
    let daemon = traced(&place, &[]);
    if is_shut_in(&place, &daemon, "traced") {
        let output = record_into(&place, &elsewhere.join("refused"));
        let said = stderr(&output);
        assert!(said.contains("--output-dir"), "{said}");
        assert!(!elsewhere.join("refused").exists());
    }
    drop(daemon);
    let daemon = traced(&place, &["--output-dir", elsewhere.to_str().unwrap()]);
    assert_status(&record_into(&place, &elsewhere.join("allowed")), 0);
    assert!(elsewhere.join("allowed").exists());
    drop(daemon);
    let daemon = traced(&place, &["--no-sandbox"]);
    assert_eq!((status(&daemon, "NoNewPrivs:"), status(&daemon, "Seccomp:")), ("0".into(), "0".into()));
    assert!(log(&place, "traced").contains("--no-sandbox"));
    assert_status(&record_into(&place, &elsewhere.join("free")), 0);
}

#[test]
fn root_serves_as_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may become another user");
    }
    let place = Place::new();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = traced(&place, &["--user", &SOMEBODY.to_string()]);
    assert_eq!(status(&daemon, "Uid:"), SOMEBODY.to_string());
    assert_eq!(status(&daemon, "Gid:"), SOMEBODY.to_string());
    let _probes = place.probes();
    let trace = place.path("trace");
    let config = place.write(
        "config",
        "buffers { size_kb: 64 } data_sources { config { name: 'linux.system_info' } } duration_ms: 100",
    );
    let mut command = place.applet("perfetto", &["--txt", "-o"]);
    assert_status(&command.arg(&trace).arg("-c").arg(config).output().unwrap(), 0);
    assert!(fs::metadata(&trace).unwrap().len() > 100);
    // Files are made with the rights of that user, whoever asks.
    let refused = record_into(&place, &place.path("by-path"));
    assert!(stderr(&refused).contains("Permission denied"), "{}", stderr(&refused));
    assert!(!place.path("by-path").exists());

    let unknown = place.ferretto(&["traced", "--user", "no-such-user"]).output().unwrap();
    assert!(!unknown.status.success() && stderr(&unknown).contains("no-such-user"), "{}", stderr(&unknown));
}

/// Whoever is not root cannot.
#[test]
fn nobody_else_becomes_another() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto"));
    let place = Place::new();
    let args = ["traced", "--user", "0"];
    if rustix::process::geteuid().is_root() {
        return println!("skipped: root may");
    }
    command.args(args).env("PERFETTO_PRODUCER_SOCK_NAME", place.path("producer.sock"));
    let output = command.env("PERFETTO_CONSUMER_SOCK_NAME", place.path("consumer.sock")).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("only root may"), "{}", stderr(&output));
}
