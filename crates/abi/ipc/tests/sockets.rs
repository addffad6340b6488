//! Promises of the sockets.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use ferretto_ipc::address::Address;
use ferretto_ipc::remote::{Connected, Connecting};
use ferretto_ipc::socket::{Listener, Permissions, Stream};
use rustix::event::{PollFd, PollFlags};
use rustix::io::{FdFlags, fcntl_getfd};

fn path_address(path: &Path) -> Address {
    Address::Path(path.to_owned())
}

fn wait_for(fd: impl AsFd) {
    let timeout = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap();
}

fn wait_until_writable(fd: impl AsFd) {
    let timeout = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&timeout)).unwrap();
}

fn accept(listener: &Listener) -> Stream {
    wait_for(listener);
    listener.accept().unwrap()
}

fn check_roundtrip(client: &Stream, server: &Stream) {
    let mut buffer = [0; 16];
    assert_eq!(server.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(client.send(b"ping", None).unwrap(), 4);
    wait_for(server);
    let received = server.recv(&mut buffer).unwrap();
    assert_eq!((&buffer[..received.len], received.fd.is_none()), (&b"ping"[..], true));
}

#[test]
fn unix_sockets_connect_by_path_and_abstract_name() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("ferretto-test-{}", std::process::id());
    for address in [path_address(&dir.path().join("s")), Address::Abstract(name.into_bytes())] {
        let listener = Listener::bind(&address).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = Stream::connect(&address).unwrap();
        let server = accept(&listener);
        check_roundtrip(&client, &server);
        let peer = server.peer_credentials().unwrap().unwrap();
        assert_eq!(peer.pid, i32::try_from(std::process::id()).unwrap());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    }
}

fn check_without_descriptors(client: &Stream, server: &Stream) {
    check_roundtrip(client, server);
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    assert_eq!(client.send(b"x", Some(file.as_fd())).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(server.peer_credentials().unwrap(), None);
}

#[test]
fn tcp_sockets_connect_and_pass_no_descriptors() {
    for (listen, host) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")] {
        let listener = match Listener::bind(&listen.parse().unwrap()) {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("skipped: {listen}: {error}");
                continue;
            }
        };
        let client = Stream::connect(&listener.local_address()).unwrap();
        let server = accept(&listener);
        check_without_descriptors(&client, &server);
        assert_eq!(server.peer_host().as_deref(), Some(host));
    }
}

#[test]
fn vsock_sockets_connect_where_the_kernel_has_a_loopback() {
    // VMADDR_CID_ANY, VMADDR_PORT_ANY; 1 is this machine.
    let listener = match Listener::bind(&Address::Vsock { cid: u32::MAX, port: u32::MAX }) {
        Ok(listener) => listener,
        Err(error) => return eprintln!("skipped: no vsock: {error}"),
    };
    let Address::Vsock { port, .. } = listener.local_address() else {
        panic!("{:?}", listener.local_address())
    };
    assert_ne!(port, u32::MAX, "the system has chosen a port");
    if !Path::new("/sys/module/vsock_loopback").exists() {
        return eprintln!("skipped: the kernel has no vsock_loopback");
    }
    let client = Stream::connect(&Address::Vsock { cid: 1, port }).unwrap();
    let server = accept(&listener);
    check_without_descriptors(&client, &server);
    assert!(server.peer_host().unwrap().starts_with("vsock://"));
}

#[test]
fn a_connection_is_made_without_waiting() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address();
    let mut connecting = Connecting::start(&address).unwrap();
    let client = loop {
        wait_until_writable(&connecting);
        match connecting.finish().unwrap() {
            Connected::Yes(stream) => break stream,
            Connected::NotYet(rest) => connecting = rest,
        }
    };
    check_roundtrip(&client, &accept(&listener));

    drop(listener);
    let refused = Connecting::start(&address).and_then(|connecting| {
        wait_until_writable(&connecting);
        connecting.finish()
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_descriptor_arrives_with_its_bytes_and_is_not_inherited() {
    let (left, right) = Stream::pair().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"contents").unwrap();
    left.send(b"plain", None).unwrap();
    left.send(b"with", Some(file.as_fd())).unwrap();
    left.send(b"after", None).unwrap();

    let (mut bytes, mut fds) = (Vec::new(), Vec::new());
    let mut buffer = [0; 64];
    while bytes.len() < 14 {
        let received = right.recv(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..received.len]);
        fds.extend(received.fd);
    }
    assert_eq!(bytes, b"plainwithafter");
    let [fd] = <[OwnedFd; 1]>::try_from(fds).unwrap();
    assert!(fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC));
    let mut received = File::from(fd);
    received.rewind().unwrap();
    let mut text = String::new();
    received.read_to_string(&mut text).unwrap();
    assert_eq!(text, "contents");
}

#[test]
fn extra_descriptors_are_given_too() {
    for count in [1, 5, 253] {
        let (left, right) = Stream::pair().unwrap();
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let fds = vec![file.as_fd(); count];
        let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
        let bytes = [std::io::IoSlice::new(b"x")];
        rustix::net::sendmsg(&left, &bytes, &mut control, rustix::net::SendFlags::empty()).unwrap();
        let received = right.recv(&mut [0; 4]).unwrap();
        assert!(received.fd.is_some() && !received.is_truncated);
        assert_eq!(received.others.len(), count - 1);
    }
}

#[test]
fn a_full_socket_takes_a_part_and_then_would_block() {
    let (left, right) = Stream::pair().unwrap();
    let bytes = vec![7; 64 << 20];
    let sent = left.send(&bytes, None).unwrap();
    assert!(sent < bytes.len());
    let error = std::iter::repeat_with(|| left.send(&bytes, None)).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(right);
    assert_eq!(left.send(&bytes, None).unwrap_err().kind(), ErrorKind::BrokenPipe, "and no signal");
}

#[test]
fn a_dead_services_socket_is_replaced_and_removed_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    // The standard library leaves its file behind, as a killed service does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&path_address(&path)).unwrap();
    Stream::connect(&path_address(&path)).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_living_services_socket_and_other_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let living = Listener::bind(&path_address(&path)).unwrap();
    assert_eq!(Listener::bind(&path_address(&path)).unwrap_err().kind(), ErrorKind::AddrInUse);
    Stream::connect(&path_address(&path)).unwrap();
    drop(living);

    std::fs::write(&path, "precious").unwrap();
    assert_eq!(Listener::bind(&path_address(&path)).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

/// Whoever connects and hangs up is in the way until he is accepted, and needs no descriptor meanwhile.
fn crowded_listener(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = path_address(path);
    while Stream::connect(&address).is_ok() {}
    listener
}

#[test]
fn where_too_many_wait_one_waits_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let address = path_address(&dir.path().join("s"));
    let listener = crowded_listener(&dir.path().join("s"));
    assert_eq!(Stream::connect(&address).unwrap_err().kind(), ErrorKind::WouldBlock, "at once");
    let found = Stream::connect_within(&address, Duration::from_millis(20));
    assert_eq!(found.unwrap_err().kind(), ErrorKind::TimedOut);
    let newcomer = std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| Stream::connect_within(&address, Duration::from_secs(30)));
        while !newcomer.is_finished() {
            let _ = listener.accept();
            std::thread::sleep(Duration::from_millis(1));
        }
        newcomer.join().unwrap().unwrap()
    });
    assert_eq!(newcomer.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it does not block later");
}

#[test]
fn nobody_waits_at_a_neighbours_socket() {
    const NEIGHBOUR: u32 = 4242;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can make things that are another user's");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let _listener = crowded_listener(&path);
    std::os::unix::fs::chown(&path, Some(NEIGHBOUR), None).unwrap();
    let kind = || Stream::connect_within(&path_address(&path), Duration::from_millis(20)).unwrap_err().kind();
    assert_eq!(kind(), ErrorKind::TimedOut, "root has let him");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(kind(), ErrorKind::PermissionDenied);
}

#[test]
fn a_successors_socket_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let first = Listener::bind(&path_address(&path)).unwrap();
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    let second = Listener::bind(&path_address(&path)).unwrap();
    drop(first);
    Stream::connect(&path_address(&path)).unwrap();
    drop(second);
}

#[test]
fn permissions_are_set_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let permissions = Permissions { group: Some(rustix::process::getegid().as_raw()), mode: 0o620 };
    let _listener = Listener::bind_with(&path_address(&path), Some(permissions)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
}

#[test]
fn permissions_are_a_sockets_and_nothing_elses() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, path) = (dir.path().join("secret"), dir.path().join("s"));
    std::fs::write(&secret, "").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    let permissions = Permissions { group: None, mode: 0o666 };
    for planted in [&path, &secret] {
        assert!(permissions.apply(planted).is_err());
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn of_services_that_start_at_once_one_is_there_in_the_end() {
    const AT_ONCE: usize = 8;
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        let together = std::sync::Barrier::new(AT_ONCE);
        let listeners: Vec<Listener> = std::thread::scope(|scope| {
            let bind = || {
                together.wait();
                Listener::bind(&path_address(&path)).ok()
            };
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(bind)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(listeners.len(), 1);
        Stream::connect(&path_address(&path)).unwrap();
    }
}

#[test]
fn ones_own_service_is_trusted_where_anybody_may_make_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let path = dir.path().join("s");
    let _listener = Listener::bind(&path_address(&path)).unwrap();
    Stream::connect(&path_address(&path)).unwrap();
}
