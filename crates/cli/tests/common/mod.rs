//! Runs the real binary with sockets and files of its own.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod heap;
pub(crate) mod stacks;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prost::Message;
use tempfile::TempDir;

/// Copies a program that is run afterwards. Another process does it: what a test of another thread starts meanwhile would have the copy open for
/// writing until it runs, and what is open so cannot be run (ETXTBSY).
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status().unwrap();
    assert!(copied.success(), "{}", to.as_ref().display());
}

/// How long anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder, and the sockets of a service in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary, to be run here.
    pub(crate) fn ferretto(&self, args: &[&str]) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_ferretto")), args)
    }

    /// The binary under another name.
    pub(crate) fn applet(&self, name: &str, args: &[&str]) -> Command {
        let link = self.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferretto"), &link).unwrap();
        }
        self.command(&link, args)
    }

    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("PERFETTO_PRODUCER_SOCK_NAME", self.path("producer.sock"));
        command.env("PERFETTO_CONSUMER_SOCK_NAME", self.path("consumer.sock"));
        command
    }

    /// The names of the files here that are no sockets.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A service, ready to serve.
    pub(crate) fn traced(&self) -> Daemon {
        let daemon = Daemon(self.ferretto(&["traced"]).stderr(Stdio::null()).spawn().unwrap());
        let socket = self.path("consumer.sock");
        wait_until("the service listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        daemon
    }

    /// The probes, registered with it.
    pub(crate) fn probes(&self) -> Daemon {
        let mut command = self.ferretto(&["probes"]);
        command.env("TRACED_PROBES_NOTIFY_FD", "1").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut daemon = Daemon(command.spawn().unwrap());
        let mut byte = [0];
        std::io::Read::read_exact(daemon.0.stdout.as_mut().unwrap(), &mut byte).unwrap();
        assert_eq!(byte, *b"1");
        daemon
    }
}

/// A process that ends with the test.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.0, signal);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.signal("-TERM");
        let _ = self.0.wait();
    }
}

pub(crate) fn send_signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
    assert!(status.is_ok());
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts the exit status, showing what was said.
#[track_caller]
pub(crate) fn assert_status(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(output));
}

/// The packets of a trace file.
#[track_caller]
pub(crate) fn packets(path: &Path) -> Vec<ferretto_protos::TracePacket> {
    let bytes = std::fs::read(path).unwrap();
    ferretto_protos::Trace::decode(bytes.as_slice()).unwrap().packet
}
