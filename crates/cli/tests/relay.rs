//! `ferretto relay`: its flags and its end. What it carries is tested in its crate.

mod common;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use common::{Place, stderr, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A service's address where somebody listens, so that nothing is refused.
fn service() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn mistakes_are_named() {
    let place = Place::new();
    let cases = [
        (vec!["relay"], None, "PERFETTO_RELAY_SOCK_NAME is not set"),
        (vec!["relay"], Some("/tmp/service"), "is a Unix socket"),
        (vec!["relay"], Some("vsock://x"), "expected vsock://CID:PORT"),
        (vec!["relay", "--set-socket-permissions", "0:9"], Some("127.0.0.1:1"), "expected GROUP:MODE"),
        (vec!["traced", "--enable-relay-endpoint-on", "[::1]:5"], None, "it is none of the producer sockets"),
    ];
    for (args, address, message) in cases {
        let mut command = place.ferretto(&args);
        command.env_remove("PERFETTO_RELAY_SOCK_NAME");
        command.envs(address.map(|address| ("PERFETTO_RELAY_SOCK_NAME", address)));
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(message), "{args:?}: {said}");
    }
    let output = place.applet("traced_relay", &["--version"]).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn it_goes_to_the_background_gives_its_socket_away_and_cleans_up() {
    let place = Place::new();
    let (_listener, address) = service();
    let group = rustix::process::getegid().as_raw();
    let mut command =
        place.applet("traced_relay", &["--background", "--set-socket-permissions", &format!("{group}:0620")]);
    command.env("PERFETTO_RELAY_SOCK_NAME", address);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let pid: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let socket = place.path("producer.sock");
    // Whoever waited for the first process finds the socket there.
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o620);
    UnixStream::connect(&socket).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    wait_until("the socket is gone", || !socket.exists());
}

#[test]
fn it_says_when_producers_can_connect() {
    let place = Place::new();
    let (_listener, address) = service();
    let mut command = place.ferretto(&["relay"]);
    command.env("PERFETTO_RELAY_SOCK_NAME", address).env("TRACED_RELAY_NOTIFY_FD", "1");
    let mut relay = common::Daemon(command.stdout(std::process::Stdio::piped()).spawn().unwrap());
    let mut byte = [0];
    std::io::Read::read_exact(relay.0.stdout.as_mut().unwrap(), &mut byte).unwrap();
    assert_eq!(byte, *b"1");
    UnixStream::connect(place.path("producer.sock")).unwrap();
}
