//! Daemons on sockets of their own.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_ipc::address::{Address, CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV};
use ferretto_protos::{DataSourceDescriptor, TracingServiceState};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Maker, Peers, Program};

/// Starting takes milliseconds; a loaded machine may take its time.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// A daemon that does not stop in this time hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines of a log that are shown when something goes wrong.
const SHOWN_LINES: usize = 100;
/// Between looks at something that will be so soon.
const PAUSE: Duration = Duration::from_millis(10);

/// A folder with two sockets and the programs that use them.
#[derive(Debug)]
pub struct World {
    dir: tempfile::TempDir,
    daemons: RefCell<Vec<Daemon>>,
}

/// A running program; killed and reaped when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

/// A program that ended.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty world.
    ///
    /// # Panics
    ///
    /// If there is no room for temporary files.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder"), daemons: RefCell::default() }
    }

    /// A world with a service that is ready.
    pub fn with_traced(peers: &Peers, maker: Maker) -> Self {
        let mut world = Self::new();
        world.start(peers.command(maker, Program::Traced), "traced");
        world.wait_for_sockets();
        world
    }

    /// A file in the world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Copies a program into it, to be run as this. Another process does it: what somebody starts meanwhile would have the copy open for writing until it
    /// runs, and what is open so cannot be run (ETXTBSY).
    pub fn copy_program(&self, from: impl AsRef<OsStr>, name: &str) -> PathBuf {
        let path = self.path(name);
        let copied = Command::new("cp").arg(from.as_ref()).arg(&path).status().expect("cp");
        assert!(copied.success(), "cannot copy a program to {}", path.display());
        path
    }

    /// Where the service listens for producers.
    pub fn producer_socket(&self) -> PathBuf {
        self.path("producer")
    }

    /// Where the service listens for consumers.
    pub fn consumer_socket(&self) -> PathBuf {
        self.path("consumer")
    }

    /// Starts a program that lives as long as the world. Its output goes into the file `NAME.log`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&mut self, command: Command, name: &str) {
        let daemon = self.spawn(command, name);
        self.daemons.get_mut().push(daemon);
    }

    /// Starts the Linux data sources and waits until the service knows one of them.
    pub fn start_probes(&mut self, peers: &Peers, maker: Maker) {
        self.start(peers.command(maker, Program::Probes), "probes");
        self.wait_for_data_source("linux.process_stats");
    }

    /// Starts a program and hands it out. Its output goes into the file `NAME.log`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn spawn(&self, mut command: Command, name: &str) -> Daemon {
        let log = self.path(&format!("{name}.log"));
        let file = File::create(&log).expect("a log file");
        let errors = file.try_clone().expect("a log file");
        let child = self.in_world(&mut command).stdout(file).stderr(errors).spawn();
        Daemon { child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")), log }
    }

    /// Runs a program to its end.
    ///
    /// # Panics
    ///
    /// If it takes longer than the time-out.
    pub fn run(&self, mut command: Command, timeout: Duration) -> Finished {
        let (out, err) = (self.path("stdout"), self.path("stderr"));
        let stdout = File::create(&out).expect("a file for output");
        let stderr = File::create(&err).expect("a file for output");
        let child = self.in_world(&mut command).stdout(stdout).stderr(stderr).spawn();
        let mut daemon =
            Daemon { child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")), log: err.clone() };
        let status = daemon.wait(timeout).unwrap_or_else(|| panic!("{command:?} hangs:\n{}", daemon.log()));
        Finished { status, stdout: read(&out), stderr: read(&err) }
    }

    /// A connection to the service.
    ///
    /// # Panics
    ///
    /// If the service does not answer.
    pub fn consumer(&self) -> Consumer {
        Consumer::connect(&Address::Path(self.consumer_socket())).expect("the service answers")
    }

    /// Waits until somebody answers on both sockets.
    ///
    /// # Panics
    ///
    /// If nobody does.
    pub fn wait_for_sockets(&self) {
        for socket in [self.producer_socket(), self.consumer_socket()] {
            self.wait_until(&format!("{}", socket.display()), || UnixStream::connect(&socket).is_ok());
        }
    }

    /// Waits until a producer has registered a data source.
    ///
    /// # Panics
    ///
    /// If none does.
    pub fn wait_for_data_source(&self, name: &str) {
        self.wait_until_offered(name, true);
    }

    /// Waits until nobody offers a data source of that name any more: the service has seen its producers go.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait_for_no_data_source(&self, name: &str) {
        self.wait_until_offered(name, false);
    }

    fn wait_until_offered(&self, name: &str, is_offered: bool) {
        let mut consumer = self.consumer();
        self.wait_until(name, || {
            let state = consumer.query_service_state(false).expect("the service tells its state");
            data_sources(&state).iter().any(|source| source == name) == is_offered
        });
    }

    /// Waits until something is so, showing the logs if it never is or a daemon ends.
    ///
    /// # Panics
    ///
    /// Then.
    pub fn wait_until(&self, what: &str, so: impl FnMut() -> bool) {
        self.wait_within(START_TIMEOUT, what, so);
    }

    /// The same, for what takes longer.
    ///
    /// # Panics
    ///
    /// As [`World::wait_until`].
    pub fn wait_within(&self, timeout: Duration, what: &str, mut so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !so() {
            assert!(start.elapsed() < timeout, "waited in vain for {what}\n{}", self.logs());
            let dead = self.daemons.borrow_mut().iter_mut().find_map(|daemon| daemon.wait(Duration::ZERO));
            assert!(dead.is_none(), "waited for {what} when a daemon ended: {dead:?}\n{}", self.logs());
            std::thread::sleep(PAUSE);
        }
    }

    /// What the daemons have printed last.
    pub fn logs(&self) -> String {
        let daemons = self.daemons.borrow();
        daemons.iter().map(|daemon| format!("{}:\n{}\n", daemon.log.display(), daemon.end_of_log())).collect()
    }

    /// The daemons, in the order in which they were started.
    pub fn daemons(&mut self) -> &mut [Daemon] {
        self.daemons.get_mut()
    }

    /// Kills the daemon that was started first, as `kill -9` does, and waits until it is gone.
    pub fn kill_service(&mut self) {
        let mut service = self.daemons.get_mut().remove(0);
        service.signal(Signal::KILL);
        service.wait(STOP_TIMEOUT);
    }

    fn in_world<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env(PRODUCER_SOCKET_ENV, self.producer_socket())
            .env(CONSUMER_SOCKET_ENV, self.consumer_socket())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // Clients before their service, so that they do not complain.
        while let Some(daemon) = self.daemons.get_mut().pop() {
            drop(daemon);
        }
    }
}

impl Daemon {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the process lives");
    }

    /// Waits for its end; `None` if it goes on.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            if start.elapsed() > timeout {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.wait(Duration::ZERO).is_none()
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// The end of that.
    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let skipped = lines.len().saturating_sub(SHOWN_LINES);
        lines.get(skipped..).unwrap_or_default().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        self.signal(Signal::TERM);
        if self.wait(STOP_TIMEOUT).is_none() {
            eprintln!("{} does not stop when asked to:\n{}", self.log.display(), self.end_of_log());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The names of the data sources in a service's state.
pub(crate) fn data_sources(state: &TracingServiceState) -> Vec<String> {
    let descriptors = state.data_sources.iter().filter_map(|source| source.ds_descriptor.as_ref());
    descriptors
        .filter_map(|bytes| DataSourceDescriptor::decode(bytes.clone()).ok())
        .filter_map(|descriptor| descriptor.name)
        .collect()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
