//! A thread that wants what is not its daemon's business, inside: each of its attempts succeeds outside and fails inside.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use ferretto_sandbox::{Capability, Connection, Rights, ShutIn, User, become_user, shut_in};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, ipproto, sendto};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;

/// MSG_FASTOPEN of linux/socket.h: a connection begins with these bytes.
const FAST_OPEN: u32 = 0x2000_0000;

/// Something to try, and what it is called.
type Attempt<'a> = (&'static str, Box<dyn Fn() -> io::Result<()> + Send + Sync + 'a>);

/// A folder with what daemons have and what they have not.
struct Place {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    unix: UnixListener,
    abstract_name: SocketAddr,
    _abstract: UnixListener,
    _datagrams: UnixDatagram,
    terminal: OwnedFd,
    victim: std::process::Child,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["read", "write", "remove", "other"] {
            fs::create_dir(folder.path().join(dir)).unwrap();
            fs::write(folder.path().join(dir).join("file"), "text").unwrap();
        }
        let name = format!("ferretto-sandbox-{name}-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(name).unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(folder.path().join("socket")).unwrap(),
            _abstract: UnixListener::bind_addr(&abstract_name).unwrap(),
            abstract_name,
            _datagrams: UnixDatagram::bind(folder.path().join("datagrams")).unwrap(),
            terminal: rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap(),
            victim: Command::new("sleep").arg("1000").spawn().unwrap(),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn rights(&self) -> Rights {
        Rights {
            reads: vec![self.path("read")],
            writes: vec![self.path("write")],
            removes: vec![self.path("remove")],
            capabilities: vec![Capability::SysNice],
            ..Rights::default()
        }
    }

    /// What files are not to be had; each can be tried again and again.
    fn attempts_at_files(&self) -> Vec<Attempt<'_>> {
        let at = |name: &str| self.path(name);
        vec![
            ("read another file", Box::new(move || read(&at("other/file")))),
            ("list a folder", Box::new(|| fs::read_dir("/").map(drop))),
            ("write another file", Box::new(move || write(&at("other/file")))),
            ("write what it may read", Box::new(move || write(&at("read/file")))),
            ("make a file elsewhere", Box::new(move || make(&at("other/new")))),
            ("make a file where it reads", Box::new(move || make(&at("read/new")))),
            ("make a folder where it writes", Box::new(move || make_folder(&at("write/new")))),
            ("rename what it writes", Box::new(move || rename(&at("write/file"), &at("write/other")))),
            ("point elsewhere", Box::new(move || point(&at("write/link")))),
            ("change a mode", Box::new(move || change_mode(&at("write/file")))),
        ]
    }

    fn attempts_at_others(&self) -> Vec<Attempt<'_>> {
        let (tcp, unix) = (self.tcp.local_addr().unwrap(), self.path("socket"));
        vec![
            ("start a program", Box::new(|| Command::new("true").status().map(drop))),
            ("connect by TCP", Box::new(move || TcpStream::connect(tcp).map(drop))),
            ("listen on TCP", Box::new(|| TcpListener::bind("127.0.0.1:0").map(drop))),
            ("connect to a socket", Box::new(move || UnixStream::connect(&unix).map(drop))),
            (
                "connect to an abstract name",
                Box::new(|| UnixStream::connect_addr(&self.abstract_name).map(drop)),
            ),
            ("signal another process", Box::new(|| self.signal())),
            ("hold up another process", Box::new(|| self.hold_up())),
            ("change a terminal", Box::new(|| self.change_terminal())),
            ("ask the kernel for routes", Box::new(netlink)),
        ]
    }

    /// What nobody needs who connects by sockets of this machine and TCP, and those who do not even less.
    fn attempts_by_sockets(&self) -> Vec<Attempt<'_>> {
        let tcp = self.tcp.local_addr().unwrap();
        let datagrams = self.path("datagrams");
        let to = datagrams.clone();
        vec![
            ("listen without an address", Box::new(listen_anywhere)),
            (
                "connect by sending",
                Box::new(move || send(SocketType::STREAM, SendFlags::from_bits_retain(FAST_OPEN), tcp)),
            ),
            ("connect by MPTCP", Box::new(move || connect_by_mptcp(tcp))),
            ("send by UDP", Box::new(move || send(SocketType::DGRAM, SendFlags::empty(), tcp))),
            (
                "send to a socket",
                Box::new(move || UnixDatagram::unbound()?.send_to(b"x", &datagrams).map(drop)),
            ),
            (
                "send to a socket by one of a pair",
                Box::new(move || UnixDatagram::pair()?.0.send_to(b"x", &to).map(drop)),
            ),
            ("listen on an abstract name", Box::new(listen_on_name)),
        ]
    }

    fn victim(&self) -> Pid {
        Pid::from_child(&self.victim)
    }

    fn signal(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.victim(), Signal::CONT)?)
    }

    fn hold_up(&self) -> io::Result<()> {
        Ok(rustix::process::setpriority_process(Some(self.victim()), 19)?)
    }

    fn change_terminal(&self) -> io::Result<()> {
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        let attributes = tcgetattr(&self.terminal)?;
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &attributes)?)
    }

    /// What it does every day.
    fn work(&self) -> io::Result<()> {
        read(&self.path("read/file"))?;
        let path = self.path("write/made");
        let mut made = File::options().read(true).write(true).create_new(true).open(&path)?;
        made.write_all(b"trace")?;
        made.set_len(2)?;
        write(&self.path("write/file"))?;
        fs::remove_file(self.path("remove/file"))?;
        thread::spawn(UnixStream::pair).join().unwrap()?;
        rustix::fs::memfd_create(c"memory", rustix::fs::MemfdFlags::CLOEXEC)?;
        let priority = rustix::process::getpriority_process(None)?;
        rustix::process::setpriority_process(None, priority)?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn read(path: &Path) -> io::Result<()> {
    File::open(path)?.read_to_end(&mut Vec::new()).map(drop)
}

fn write(path: &Path) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(b"x")
}

fn make(path: &Path) -> io::Result<()> {
    File::create(path)?;
    fs::remove_file(path)
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::remove_dir(path)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    fs::rename(to, from)
}

fn point(path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink("/etc/passwd", path)?;
    fs::remove_file(path)
}

fn change_mode(path: &Path) -> io::Result<()> {
    let permissions = fs::metadata(path)?.permissions();
    fs::set_permissions(path, permissions)
}

fn netlink() -> io::Result<()> {
    socket(AddressFamily::NETLINK, SocketType::RAW, None).map(drop)
}

fn socket(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket(family, kind, protocol)?)
}

/// The kernel chooses a port, of all addresses.
fn listen_anywhere() -> io::Result<()> {
    Ok(rustix::net::listen(socket(AddressFamily::INET, SocketType::STREAM, None)?, 1)?)
}

fn listen_on_name() -> io::Result<()> {
    let name = format!("ferretto-sandbox-taken-{}", std::process::id());
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
}

fn send(kind: SocketType, flags: SendFlags, to: std::net::SocketAddr) -> io::Result<()> {
    sendto(socket(AddressFamily::INET, kind, None)?, b"x", flags, &to)?;
    Ok(())
}

fn connect_by_mptcp(to: std::net::SocketAddr) -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::MPTCP))?;
    Ok(rustix::net::connect(socket, &to)?)
}

/// Shuts a thread in, and tries.
fn inside<T: Send>(rights: &Rights, run: impl FnOnce(ShutIn) -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(|| run(shut_in(rights))).join().unwrap())
}

/// What the kernel of this machine has, else the test says that it is skipped.
fn holds(shut_in: &ShutIn, what: &[&str]) -> bool {
    let has_all = what.iter().all(|what| shut_in.holds.contains(what)) && shut_in.missing.is_empty();
    if !has_all {
        println!("skipped: {shut_in}");
    }
    has_all
}

/// Outside; or the kernel has nothing of the kind.
fn succeeds((name, attempt): &Attempt<'_>) -> bool {
    match attempt() {
        Ok(()) => true,
        Err(error) => {
            let errno = Errno::from_io_error(&error);
            let is_unknown = matches!(errno, Some(Errno::OPNOTSUPP | Errno::PROTONOSUPPORT));
            assert!(is_unknown, "{name}: {error}");
            println!("skipped: {name}: {error}");
            false
        }
    }
}

fn assert_refused(attempts: &[Attempt<'_>]) {
    for (name, attempt) in attempts {
        let error = attempt().expect_err(name);
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
    }
}

#[test]
fn a_hostile_thread_gets_nothing_and_an_honest_one_what_it_needs() {
    let place = Place::new("all");
    let mut attempts = place.attempts_at_files();
    attempts.extend(place.attempts_at_others());
    attempts.extend(place.attempts_by_sockets());
    attempts.retain(succeeds);
    inside(&place.rights(), |shut_in| {
        if !holds(&shut_in, &["no new privileges", "capabilities", "Landlock", "seccomp"]) {
            return;
        }
        assert_refused(&attempts);
        // And the threads that it starts.
        thread::scope(|scope| scope.spawn(|| assert_refused(&attempts)).join().unwrap());
        place.work().unwrap();
        let status = fs::read_to_string("/proc/thread-self/status");
        assert_eq!(status.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    });
    // Nobody else has lost anything.
    assert!(attempts.iter().all(succeeds));
}

#[test]
fn who_connects_does_so_where_it_may_only() {
    let place = Place::new("connects");
    let port = place.tcp.local_addr().unwrap().port();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let connects = vec![Connection::Unix, Connection::Tcp];
    let rights = Rights { connects, connects_to_ports: vec![port], ..Rights::default() };
    let mut attempts = place.attempts_by_sockets();
    attempts.retain(succeeds);
    inside(&rights, |shut_in| {
        if !holds(&shut_in, &["Landlock", "seccomp"]) {
            return;
        }
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        UnixStream::connect(place.unix.local_addr().unwrap().as_pathname().unwrap()).unwrap();
        TcpStream::connect(other.local_addr().unwrap()).unwrap_err();
        UnixStream::connect_addr(&place.abstract_name).unwrap_err();
        assert_refused(&attempts);
    });
    let rights = Rights { connects_to_abstract_names: true, ..rights };
    inside(&rights, |_| UnixStream::connect_addr(&place.abstract_name).map(drop)).unwrap();
}

#[test]
fn folders_are_made_in_the_kernels_file_systems_only() {
    let place = Place::new("controls");
    let rights = Rights { controls: vec![place.path("write")], ..Rights::default() };
    inside(&rights, |shut_in| {
        if !holds(&shut_in, &["Landlock", "seccomp"]) {
            return;
        }
        make_folder(&place.path("write/instance")).unwrap();
        write(&place.path("write/file")).unwrap();
        make_folder(&place.path("other/instance")).unwrap_err();
        make(&place.path("write/new")).unwrap_err();
    });
}

/// The rights that this thread has, and could have.
fn capabilities() -> [u64; 3] {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    ["CapEff:", "CapPrm:", "CapInh:"].map(|name| u64::from_str_radix(&line(name), 16).unwrap())
}

#[test]
fn of_roots_rights_those_stay_that_are_named() {
    /// CAP_SYS_NICE of linux/capability.h.
    const SYS_NICE: u64 = 1 << 23;
    let before = capabilities();
    let named = vec![Capability::SysNice];
    let rights = Rights { capabilities: named, reads: vec!["/proc".into()], ..Rights::default() };
    let left = before[1] & SYS_NICE;
    assert_eq!(inside(&rights, |_| capabilities()), [left, left, 0]);
    assert_eq!(capabilities(), before);
}

#[test]
fn root_becomes_somebody_else_for_good() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may become another user");
    }
    thread::spawn(|| {
        let [somebody, root] = ["4711", "0"].map(|user| user.parse::<User>().unwrap());
        become_user(&somebody, &[Capability::SysNice]).unwrap();
        let secret = File::open("/etc/shadow").unwrap_err();
        assert_eq!(secret.kind(), io::ErrorKind::PermissionDenied);
        assert!(become_user(&root, &[]).is_err());
        let left = rustix::thread::capabilities(None).unwrap();
        assert_eq!(left.effective, rustix::thread::CapabilitySet::SYS_NICE);
    })
    .join()
    .unwrap();
    let error = "no-such-user".parse::<User>().unwrap_err();
    assert!(error.to_string().contains("no-such-user"));
}
