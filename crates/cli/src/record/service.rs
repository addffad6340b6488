//! The service that records: our own in this process, or the one of the system.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ferretto_consumer::Consumer;
use ferretto_ipc::address::{Address, PRODUCER_SOCKET_ENV, default_producer, where_programs_look};
use ferretto_ipc::socket::{Permissions, Stream};
use ferretto_printable::printable;
use ferretto_probes::ProbesOptions;
use ferretto_producer::Connector;
use ferretto_traced::in_process::{Host, HostOptions};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::{PipeFlags, pipe_with};

use super::sampling::Sampling;
use super::sources;
use super::summary::LeftOut;
use crate::losses;
use crate::private::unguessable;
use crate::user;

/// What the data sources of the machine are called as a producer.
const PROBES_NAME: &str = "perfetto.traced_probes";
/// A data source that all of them offer: where it is, the others are.
const PROBES_SIGN: &str = "linux.process_stats";
/// How long our probes may take to register: they only look around. Afterwards the recording starts without them.
const PROBES_TIMEOUT: Duration = Duration::from_secs(5);
/// How long they may take to end: restoring tracefs takes a second or two where it has many events.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Ahead of ordinary programs: on a machine whose CPUs are all busy the kernel's buffers would overflow otherwise.
/// The work itself is small. Only root may ask for it; for others nothing changes.
const NICENESS: i32 = -10;

/// Of the mode of root's producer socket: programs of all users may connect, as they may to a file that all may write.
const MODE_FOR_ALL: u32 = 0o666;

/// Which service records.
pub(crate) enum Choice {
    /// The one that runs already. Without probes of its own, ours join it.
    System { consumer: Box<Consumer>, other: Option<Other>, has_probes: bool },
    /// One that this recorder starts, beside the other one that runs already, if one does.
    Own { other: Option<Other> },
}

/// A service that is not ours, at the address where programs look for one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Other {
    address: Address,
    /// Its process, if the kernel says that.
    process: Option<String>,
    /// Programs that are connected to it, if it lets this user record.
    programs: Option<Vec<String>>,
}

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
    producers: Vec<Producer>,
    /// Dropped last: they hand over their last data to it. None beside the system's service.
    host: Option<Host>,
}

/// A producer on a thread of this process.
struct Producer {
    /// What its data sources are, in words.
    what: &'static str,
    thread: JoinHandle<()>,
    /// Ends with the thread.
    ended: Receiver<()>,
    /// Closing it ends the thread.
    stop: OwnedFd,
}

/// Where a producer runs: what it connects to, what ends it, and whom it tells that its data sources are registered.
pub(crate) struct Place {
    pub(crate) connector: Connector,
    pub(crate) stopped: OwnedFd,
    pub(crate) notify: OwnedFd,
}

impl Choice {
    /// What `--system` and `--own` say; without them the service that runs already, if it lets this user record: that is where programs are.
    pub(crate) fn make(system: bool, own: bool) -> Result<Self> {
        if system {
            return Self::system(Consumer::connect_default()?, None);
        }
        let Some(mut other) = look_around()? else { return Ok(Self::Own { other: None }) };
        match Consumer::connect_default() {
            Ok(consumer) if !own => Self::system(consumer, Some(other)),
            Ok(mut consumer) => {
                let state = consumer.query_service_state(false).unwrap_or_default();
                let names = state.producers.iter().filter(|producer| producer.name() != PROBES_NAME);
                other.programs = Some(names.map(|producer| producer.name().to_owned()).collect());
                Ok(Self::Own { other: Some(other) })
            }
            Err(_) => Ok(Self::Own { other: Some(other) }),
        }
    }

    fn system(mut consumer: Consumer, other: Option<Other>) -> Result<Self> {
        let mut state = consumer.query_service_state(false)?;
        sources::leave_out_strangers(&mut state, consumer.service_uid());
        let has_probes = sources::offered(&state).contains(PROBES_SIGN);
        Ok(Self::System { consumer: Box::new(consumer), other, has_probes })
    }

    pub(crate) fn is_system(&self) -> bool {
        matches!(self, Self::System { .. })
    }

    /// Whether kernel and machine are recorded by this process, with the rights of its user.
    pub(crate) fn uses_own_probes(&self) -> bool {
        matches!(self, Self::Own { .. } | Self::System { has_probes: false, .. })
    }

    /// What to say before the start.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Self::System { other: Some(other), .. } => {
                Some(format!("Through the tracing service that runs already, {other}; --own starts another."))
            }
            Self::Own { other: Some(other) } => {
                Some(format!("note: programs that connect by themselves find {other} and will not appear"))
            }
            _ => None,
        }
    }

    /// What the recording will lack beside that other service.
    pub(crate) fn left_out(&self) -> Option<LeftOut> {
        let Self::Own { other: Some(other) } = self else { return None };
        let what = match other.programs.as_deref() {
            None | Some([]) => "programs that connect by themselves".to_owned(),
            Some(names) => format!("programs that run already ({})", losses::listed(names)),
        };
        let grant = match other.programs {
            Some(_) => "ferretto record --system",
            None => "stop that service, or record with its rights",
        };
        Some(LeftOut { what, why: format!("they connect to {other}"), grant: Some(grant.to_owned()) })
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.as_deref().unwrap_or("another user's");
        write!(f, "{process} at {}", self.address)
    }
}

/// Who answers where programs look for a service.
pub(crate) fn look_around() -> Result<Option<Other>> {
    for address in default_producer()? {
        match Stream::connect(&address) {
            Ok(stream) => {
                let process = stream.peer_credentials().ok().flatten().map(|peer| named_process(peer.pid));
                return Ok(Some(Other { address, process, programs: None }));
            }
            // Not for us, or too busy.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::WouldBlock) => {
                return Ok(Some(Other { address, process: None, programs: None }));
            }
            Err(_) => {}
        }
    }
    Ok(None)
}

fn named_process(pid: i32) -> String {
    if pid == 0 {
        return "a process of another name space (a container)".to_owned();
    }
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", printable(name.trim_end())),
        Err(_) => format!("process {pid}"),
    }
}

impl Service {
    /// Starts what is missing. At `consumers` others may ask for snapshots of a service of our own.
    pub(crate) fn start(
        choice: Choice,
        consumers: Option<PathBuf>,
        sampling: Option<&Sampling>,
    ) -> Result<Self> {
        match choice {
            Choice::System { consumer, has_probes, .. } => {
                let probes = (!has_probes).then(|| with_priority(|| start_probes(Connector::Default)));
                let sampler = sampling.map(|sampling| start_sampler(sampling, Connector::Default));
                let producers = probes.into_iter().chain(sampler).collect::<Result<_>>()?;
                let local = Local { producers, host: None };
                Ok(Self { consumer: *consumer, env: Vec::new(), _local: Some(local) })
            }
            Choice::Own { .. } => Self::start_own(consumers, sampling),
        }
    }

    /// A service, the Linux probes and the sampler on threads of this process.
    fn start_own(consumers: Option<PathBuf>, sampling: Option<&Sampling>) -> Result<Self> {
        // Abstract, so that nothing is left in the file system however this process ends; nobody can have taken the name before.
        let private = format!("@ferretto-record-{}-{:016x}", std::process::id(), unguessable());
        let address = private.parse()?;
        let local = with_priority(|| {
            let host = start_host(address, consumers.map(Address::Path))?;
            let connector = Connector::Stream(host.connect_producer()?);
            Ok::<_, anyhow::Error>((start_probes(connector)?, host))
        })?;
        let (probes, host) = local;
        let consumer = Consumer::over(host.connect_consumer()?)?;
        let mut local = Local { producers: vec![probes], host: None };
        if let Some(sampling) = sampling {
            let connector = Connector::Stream(host.connect_producer()?);
            local.producers.push(start_sampler(sampling, connector)?);
        }
        local.host = Some(host);
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
    let free = where_programs_look()?.into_iter().filter(|address| Stream::connect(address).is_err());
    let mut addresses: Vec<Address> = free.collect();
    addresses.insert(0, private.clone());
    // Root records the programs of all users.
    let own_user_only = !user::is_root();
    let options = HostOptions { consumer_address: consumers, own_user_only, ..HostOptions::default() };
    let with_system = HostOptions { producer_addresses: addresses, ..options.clone() };
    let error = match Host::spawn(with_system) {
        Ok(host) => {
            open_for_all(host.producer_addresses());
            return Ok(host);
        }
        Err(error) => error,
    };
    let host = Host::spawn(HostOptions { producer_addresses: vec![private], ..options });
    if host.is_ok() {
        eprintln!("note: programs that run already will not appear: {error}");
    }
    host.context("cannot start the tracing service")
}

/// Root records the programs of all users.
fn open_for_all(addresses: &[Address]) {
    if !user::is_root() {
        return;
    }
    let for_all = Permissions { group: None, mode: MODE_FOR_ALL };
    for path in addresses.iter().filter_map(Address::path) {
        if let Err(error) = for_all.apply(path) {
            eprintln!(
                "note: programs of other users will not appear: cannot open {} to them: {error}",
                path.display()
            );
        }
    }
}

fn start_probes(connector: Connector) -> Result<Producer> {
    Producer::start("the Linux data sources", connector, |Place { connector, stopped, notify }| {
        let (stop, notify) = (Some(stopped), Some(notify));
        let options = ProbesOptions { connector, stop, notify, ..ProbesOptions::default() };
        move || ferretto_probes::run(options).map_err(|error| error.to_string())
    })
}

/// On the thread that starts the command.
fn start_sampler(sampling: &Sampling, connector: Connector) -> Result<Producer> {
    Producer::start("the profiler", connector, |place| {
        let run = sampling.producer(place);
        move || {
            // As above, without which it runs as it is.
            let _ = rustix::process::nice(NICENESS);
            run()
        }
    })
}

impl Producer {
    /// Starts a thread, and waits until its data sources are registered.
    fn start<F: FnOnce() -> Result<(), String> + Send + 'static>(
        what: &'static str,
        connector: Connector,
        make: impl FnOnce(Place) -> F,
    ) -> Result<Self> {
        let (ready, notify) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
        let run = make(Place { connector, stopped, notify });
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("producer".to_owned()).spawn(move || {
            let _end: Sender<()> = end;
            if let Err(error) = run() {
                eprintln!("note: {what} ended: {error}");
            }
        });
        let thread = thread.with_context(|| format!("cannot start a thread for {what}"))?;
        let timeout = Timespec::try_from(PROBES_TIMEOUT).ok();
        // One that fails to start has said why.
        let _ = rustix::event::poll(&mut [PollFd::new(&ready, PollFlags::IN)], timeout.as_ref());
        Ok(Self { what, thread, ended, stop })
    }

    /// Has them leave tracefs as it was. They may hang in something that somebody else controls; the process ends without them then.
    fn end(self, timeout: Duration) {
        let Self { what, thread, ended, stop } = self;
        drop(stop);
        let note = match ended.recv_timeout(timeout) {
            Err(RecvTimeoutError::Timeout) => "do not end, and are left behind",
            _ if thread.join().is_err() => "failed",
            _ => return,
        };
        let _ = writeln!(std::io::stderr(), "note: {what}: they {note}");
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.producers.drain(..).for_each(|producer| producer.end(END_TIMEOUT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_hang_do_not_keep_the_recorder() {
        let (let_go, hang) = channel::<()>();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let _end: Sender<()> = end;
            let _ = hang.recv();
        });
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        Producer { what: "a test", thread, ended, stop }.end(Duration::from_millis(10));
        let timeout = Timespec::try_from(Duration::from_secs(20)).unwrap();
        let mut told = [PollFd::new(&stopped, PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut told, Some(&timeout)), Ok(1));
        drop(let_go);
    }
}
