//! The service that records: our own in this process, or the one of the system.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ferretto_consumer::Consumer;
use ferretto_ipc::address::{Address, PRODUCER_SOCKET_ENV, default_producer};
use ferretto_ipc::socket::Stream;
use ferretto_probes::ProbesOptions;
use ferretto_producer::Connector;
use ferretto_traced::in_process::{Host, HostOptions};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::{PipeFlags, pipe_with};

/// How long our probes may take to register: they only look around. Afterwards the recording starts without them.
const PROBES_TIMEOUT: Duration = Duration::from_secs(5);
/// Ahead of ordinary programs: on a machine whose CPUs are all busy the kernel's buffers would overflow otherwise.
/// The work itself is small. Only root may ask for it; for others nothing changes.
const NICENESS: i32 = -10;

/// A connection to a service that records.
pub(crate) struct Service {
    pub(crate) consumer: Consumer,
    /// The environment that lets a program find this service.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Ended after the consumer, in this order.
    _local: Option<Local>,
}

/// What `record` starts itself.
struct Local {
    probes: Option<Probes>,
    /// Dropped last: the probes hand over their last data to it.
    host: Host,
}

struct Probes {
    thread: JoinHandle<()>,
    /// Closing it ends the thread.
    stop: OwnedFd,
}

impl Service {
    /// The service on the system's sockets.
    pub(crate) fn of_system() -> Result<Self> {
        let consumer = Consumer::connect_default()?;
        Ok(Self { consumer, env: Vec::new(), _local: None })
    }

    /// A service and the Linux probes on threads of this process. At `consumers` others may ask for snapshots.
    pub(crate) fn start(consumers: Option<PathBuf>) -> Result<Self> {
        // Abstract, so that nothing is left in the file system however this process ends.
        let private = format!("@ferretto-record-{}", std::process::id());
        let address = private.parse()?;
        let local = with_priority(|| {
            let host = start_host(address, consumers.map(Address::Path))?;
            Ok::<_, anyhow::Error>(Local { probes: Some(start_probes(&host)?), host })
        })?;
        let consumer = Consumer::over(local.host.connect_consumer()?)?;
        Ok(Self { consumer, env: vec![(PRODUCER_SOCKET_ENV, private)], _local: Some(local) })
    }
}

/// Runs `start` so that the threads it starts have priority: they inherit it from the thread that starts them.
fn with_priority<T: Send>(start: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            // Without the permission they run as they are.
            let _ = rustix::process::nice(NICENESS);
            start()
        });
        starter.join().map_err(|_| anyhow::anyhow!("the tracing service failed to start"))?
    })
}

/// Listens for instrumented programs on an address of its own and, if it is free, on the system's.
fn start_host(private: Address, consumers: Option<Address>) -> Result<Host> {
    let free = default_producer()?.into_iter().filter(|address| Stream::connect(address).is_err());
    let mut addresses: Vec<Address> = free.collect();
    addresses.insert(0, private.clone());
    let options = HostOptions { consumer_address: consumers, ..HostOptions::default() };
    let with_system = HostOptions { producer_addresses: addresses, ..options.clone() };
    let error = match Host::spawn(with_system) {
        Ok(host) => return Ok(host),
        Err(error) => error,
    };
    let host = Host::spawn(HostOptions { producer_addresses: vec![private], ..options });
    if host.is_ok() {
        eprintln!("note: programs that run already will not appear: {error}");
    }
    host.context("cannot start the tracing service")
}

fn start_probes(host: &Host) -> Result<Probes> {
    let connector = Connector::Stream(host.connect_producer()?);
    let (ready, notify) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let options =
        ProbesOptions { connector, stop: Some(stopped), notify: Some(notify), ..ProbesOptions::default() };
    let thread = std::thread::Builder::new().name("probes".to_owned()).spawn(move || {
        if let Err(error) = ferretto_probes::run(options) {
            eprintln!("note: the Linux data sources ended: {error}");
        }
    });
    let thread = thread.context("cannot start the probes' thread")?;
    let timeout = Timespec::try_from(PROBES_TIMEOUT).ok();
    // A probe that fails to start has said why.
    let _ = rustix::event::poll(&mut [PollFd::new(&ready, PollFlags::IN)], timeout.as_ref());
    Ok(Probes { thread, stop })
}

impl Drop for Local {
    fn drop(&mut self) {
        let Some(Probes { thread, stop }) = self.probes.take() else { return };
        drop(stop);
        if thread.join().is_err() {
            let _ = writeln!(std::io::stderr(), "note: the Linux data sources failed");
        }
    }
}
