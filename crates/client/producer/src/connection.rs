//! One connection to the service, from its socket to its end.
//!
//! Bind, InitializeConnection, GetAsyncCommand (a stream of commands), data sources; then whatever the service commands.
//! Upstream: `producer_ipc_client_impl.cc`.

use std::error::Error;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use ferretto_ipc::client::{Event, RequestId};
use ferretto_ipc::identity::peer_identity;
use ferretto_ipc::link::{ClientLink, LinkError};
use ferretto_ipc::socket::Stream;
use ferretto_protos::fields::{commit_data_request, initialize_connection_request as initialize};
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protozero::control::{ControlError, Writer};
use ferretto_shm::{PageSize, Seals, SharedMemory};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::arbiter::{Arbiter, ArbiterOptions, Attachment};
use crate::event::ProducerEvent;
use crate::instances::Instances;
use crate::link::SharedLink;
use crate::options::{ProducerOptions, SharedMemorySource};
use crate::wake::Waker;
use crate::wire::{Command, Initialized};

/// The service's own defaults, for memory that this process allocates without a wish (upstream: tracing_service.h).
const DEFAULT_SHM_SIZE: u32 = 256 * 1024;
/// As above.
const DEFAULT_PAGE_SIZE: u32 = 4096;
/// The private memory of a producer that cannot share it (upstream: `kShmemEmulationSize`).
const EMULATION_SHM_SIZE: usize = 1024 * 1024;
/// Receives in one turn, so that a talkative service does not keep the caller from its own work.
const MAX_RECEIVES_PER_TURN: usize = 16;
/// Events that wait to be taken; while there are more nothing is received, which makes the service wait.
const MAX_QUEUED_EVENTS: usize = 4096;

/// Why a connection cannot go on.
#[derive(Debug)]
pub(crate) enum ConnectionLost {
    Link(LinkError),
    Refused,
    Decode(ControlError),
    SharedMemory(ferretto_shm::MemoryError),
    PageSize { kib: u32, source: ferretto_shm::PageSizeError },
    View(ferretto_shm::ViewError),
    Overrun,
    NoSharedMemory,
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::Refused => f.write_str("the service has no producer port, or refused this producer"),
            Self::Decode(error) => write!(f, "the service sent a message that cannot be decoded: {error}"),
            Self::SharedMemory(error) => write!(f, "the shared memory cannot be used: {error}"),
            Self::PageSize { kib, source } => {
                write!(f, "the service's page size of {kib} KiB does not fit the shared memory: {source}")
            }
            Self::View(error) => write!(f, "the shared memory cannot be used: {error}"),
            Self::Overrun => f.write_str("the service does not read what this producer sends"),
            Self::NoSharedMemory => f.write_str("the service set tracing up without shared memory"),
        }
    }
}

impl Error for ConnectionLost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Link(error) => error.source(),
            Self::Decode(error) => Some(error),
            Self::SharedMemory(error) => Some(error),
            Self::PageSize { source, .. } => Some(source),
            Self::View(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LinkError> for ConnectionLost {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<ControlError> for ConnectionLost {
    fn from(error: ControlError) -> Self {
        Self::Decode(error)
    }
}

impl From<ferretto_shm::MemoryError> for ConnectionLost {
    fn from(error: ferretto_shm::MemoryError) -> Self {
        Self::SharedMemory(error)
    }
}

impl From<ferretto_shm::ViewError> for ConnectionLost {
    fn from(error: ferretto_shm::ViewError) -> Self {
        Self::View(error)
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    link: Arc<SharedLink>,
    waker: Arc<Waker>,
    /// The link's socket again, to poll it without the lock.
    fd: OwnedFd,
    /// This process's memory, if it allocates: for startup tracing, or since it was asked to.
    own: Option<Arc<Arbiter>>,
    /// The service did not take it.
    is_own_refused: bool,
    direct_patching: bool,
    emulated: bool,
    initialize: Option<RequestId>,
    commands: Option<RequestId>,
    syncs: Vec<RequestId>,
    ready: bool,
    arbiter: Option<Arc<Arbiter>>,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        options: &ProducerOptions,
        startup: Option<Arc<Arbiter>>,
        waker: &Arc<Waker>,
    ) -> Result<Self, ConnectionLost> {
        let fd = stream.as_fd().try_clone_to_owned().map_err(LinkError::Io)?;
        let passes_fds = stream.passes_fds();
        let own = match startup {
            None if passes_fds && options.shared_memory == SharedMemorySource::Producer => {
                Some(own_arbiter(options, waker)?)
            }
            startup => startup,
        };
        let mut link = ClientLink::new(stream, "ProducerPort");
        if !passes_fds {
            // The service cannot ask the kernel who is at the other end. A full queue is impossible: it is empty.
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            let uid = rustix::process::getuid().as_raw();
            let _ = link.connection().set_peer_identity(peer_identity(pid, uid));
        }
        Ok(Self {
            link: Arc::new(SharedLink::new(link)),
            waker: Arc::clone(waker),
            fd,
            own,
            is_own_refused: false,
            direct_patching: false,
            emulated: !passes_fds,
            initialize: None,
            commands: None,
            syncs: Vec::new(),
            ready: false,
            arbiter: None,
        })
    }

    /// The service knows this producer.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(crate) fn link(&self) -> &SharedLink {
        &self.link
    }

    pub(crate) fn arbiter(&self) -> Option<&Arc<Arbiter>> {
        self.arbiter.as_ref()
    }

    /// The arbiter, or what will be it once the first session has come.
    pub(crate) fn arbiter_to_be(&self) -> Option<&Arc<Arbiter>> {
        self.arbiter.as_ref().or(self.own.as_ref())
    }

    /// Whether the service has refused the memory that it was offered; once.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.is_own_refused)
    }

    pub(crate) fn poll_fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = if self.link.lock().link().wants_write() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        (self.fd.as_fd(), flags)
    }

    pub(crate) fn open_fds(&self) -> [RawFd; 2] {
        [self.fd.as_raw_fd(), self.link.lock().link().fd().as_raw_fd()]
    }

    /// Receives and serves what has come. The arbiter's commits are not sent here.
    pub(crate) fn receive(
        &mut self,
        options: &ProducerOptions,
        instances: &mut Instances,
    ) -> Result<(), ConnectionLost> {
        for _ in 0..MAX_RECEIVES_PER_TURN {
            if instances.events.len() > MAX_QUEUED_EVENTS || !self.link.lock().link().receive()? {
                break;
            }
            loop {
                // Not in the loop's condition: the lock would be held while the event is served.
                let event = self.link.lock().link().connection().poll_event();
                let Some(event) = event else {
                    break;
                };
                self.handle_event(event, options, instances)?;
            }
        }
        Ok(())
    }

    /// Asks whether everything before has been served.
    pub(crate) fn sync(&mut self) -> bool {
        let request = self.link.lock().ask("Sync", Vec::new());
        self.syncs.extend(request);
        request.is_some()
    }

    /// See [`ProducerClient::hand_over`](crate::ProducerClient::hand_over).
    pub(crate) fn hand_over(&self, deadline: Instant) -> bool {
        loop {
            let is_done = self.arbiter.as_ref().is_none_or(|arbiter| arbiter.hand_over());
            let mut guard = self.link.lock();
            if guard.flush().is_err() || is_done && !guard.link().wants_write() {
                return is_done;
            }
            drop(guard);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
            // Whatever comes of it shows in the next round.
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    pub(crate) fn acknowledge_flush(&self, request_id: u64) {
        match &self.arbiter {
            Some(arbiter) => arbiter.acknowledge_flush(request_id),
            None => {
                let mut request = Writer::new();
                request.integer(commit_data_request::FLUSH_REQUEST_ID, request_id);
                self.link.lock().call("CommitData", request.into_bytes());
            }
        }
    }

    fn handle_event(
        &mut self,
        event: Event,
        options: &ProducerOptions,
        instances: &mut Instances,
    ) -> Result<(), ConnectionLost> {
        match event {
            Event::Bound => {
                self.introduce(options);
                Ok(())
            }
            Event::BindFailed => Err(ConnectionLost::Refused),
            Event::Reply { request, body, has_more } => {
                if self.initialize == Some(request) {
                    let body = body.ok_or(ConnectionLost::Refused)?;
                    self.handle_initialized(&Initialized::decode(&body)?, instances);
                } else if self.commands == Some(request) {
                    let body = body.ok_or(ConnectionLost::Refused)?;
                    self.handle_command(Command::decode(&body)?, options, instances)?;
                    if !has_more {
                        // Without commands a producer is of no use to anybody.
                        return Err(ConnectionLost::Refused);
                    }
                } else if self.syncs.first() == Some(&request) {
                    self.syncs.remove(0);
                    instances.events.push_back(ProducerEvent::Synced);
                }
                Ok(())
            }
        }
    }

    fn introduce(&mut self, options: &ProducerOptions) {
        let scraping = if options.scraping {
            ProducerSmbScrapingMode::SmbScrapingEnabled
        } else {
            ProducerSmbScrapingMode::SmbScrapingDisabled
        };
        // Where no descriptors pass, chunks are copied out of it.
        let offered = self.own.as_ref().filter(|_| !self.emulated);
        let (size, page_size) = match offered {
            // The service takes offered memory only if the wishes say the same.
            Some(own) => (own.memory().len() as u32, own.page_size().bytes() as u32),
            None => (options.shm_size_hint_bytes, options.page_size_hint_bytes),
        };
        let mut request = Writer::new();
        request
            .integer(initialize::SHARED_MEMORY_PAGE_SIZE_HINT_BYTES, page_size.into())
            .integer(initialize::SHARED_MEMORY_SIZE_HINT_BYTES, size.into())
            .text(initialize::PRODUCER_NAME, &options.name)
            .integer(initialize::SMB_SCRAPING_MODE, scraping as u64)
            .truth(initialize::PRODUCER_PROVIDED_SHMEM, offered.is_some())
            .text(initialize::SDK_VERSION, &options.sdk_version);
        let mut guard = self.link.lock();
        let fd = offered.and_then(|own| own.memory().as_fd()?.try_clone_to_owned().ok().map(Arc::new));
        self.initialize = guard.ask_with_fd("InitializeConnection", request.into_bytes(), fd);
        self.commands = guard.ask("GetAsyncCommand", Vec::new());
    }

    fn handle_initialized(&mut self, response: &Initialized, instances: &mut Instances) {
        self.direct_patching = response.supports_direct_patching;
        self.emulated |= response.wants_emulation;
        if !response.uses_offered_memory && !self.emulated {
            self.is_own_refused = self.own.take().is_some();
        }
        self.ready = true;
        let mut guard = self.link.lock();
        for source in instances.sources() {
            guard.call("RegisterDataSource", source.request());
        }
        drop(guard);
        instances.events.push_back(ProducerEvent::Connected);
    }

    fn handle_command(
        &mut self,
        command: Option<Command>,
        options: &ProducerOptions,
        instances: &mut Instances,
    ) -> Result<(), ConnectionLost> {
        match command {
            Some(Command::SetupTracing { page_size_kib }) => self.set_up_tracing(page_size_kib, options)?,
            Some(Command::SetupDataSource { instance, config }) => instances.setup(instance, config),
            Some(Command::StartDataSource { instance, config }) => instances.start(instance, config),
            Some(Command::StopDataSource { instance }) => instances.stop(instance),
            Some(Command::Flush { request_id, instances: wanted, flags }) => {
                let is_for_us = instances.flush(request_id, wanted, flags);
                if !is_for_us {
                    self.acknowledge_flush(request_id);
                }
            }
            Some(Command::ClearIncrementalState { instances: wanted }) => {
                instances.clear_incremental_state(wanted);
            }
            // A command of a newer service.
            None => {}
        }
        Ok(())
    }

    /// Makes the arbiter. The memory is the service's (it comes with a descriptor), the one that this process offered, or private if
    /// the transport cannot share any.
    fn set_up_tracing(
        &mut self,
        page_size_kib: u32,
        options: &ProducerOptions,
    ) -> Result<(), ConnectionLost> {
        let fd = self.link.lock().link().connection().take_fd();
        if self.arbiter.is_some() {
            return Ok(());
        }
        let arbiter = match self.own.take() {
            Some(own) => own,
            None => self.new_arbiter(page_size_kib, fd, options)?,
        };
        arbiter.attach(Attachment {
            link: Arc::clone(&self.link),
            emulated: self.emulated,
            direct_patching: self.direct_patching,
        });
        self.arbiter = Some(arbiter);
        Ok(())
    }

    fn new_arbiter(
        &self,
        page_size_kib: u32,
        fd: Option<OwnedFd>,
        options: &ProducerOptions,
    ) -> Result<Arc<Arbiter>, ConnectionLost> {
        let told = page_size_kib.saturating_mul(1024);
        let (memory, page_size) = if self.emulated {
            let hint = or_default(options.page_size_hint_bytes, DEFAULT_PAGE_SIZE);
            (SharedMemory::in_process(EMULATION_SHM_SIZE)?, or_default(told, hint))
        } else {
            let fd = fd.ok_or(ConnectionLost::NoSharedMemory)?;
            // The service trusts no producer, but a producer trusts its service: no seals wanted (upstream: posix_shared_memory.cc).
            (SharedMemory::from_fd(fd, Seals::NotRequired)?, told)
        };
        let page_size = PageSize::new(page_size.into())
            .map_err(|source| ConnectionLost::PageSize { kib: page_size / 1024, source })?;
        Ok(Arbiter::new(arbiter_options(memory, page_size, options, &self.waker))?)
    }
}

/// An arbiter of memory that this process allocates.
pub(crate) fn own_arbiter(
    options: &ProducerOptions,
    waker: &Arc<Waker>,
) -> Result<Arc<Arbiter>, ConnectionLost> {
    let size = or_default(options.shm_size_hint_bytes, DEFAULT_SHM_SIZE);
    let memory = SharedMemory::create(size as usize)?;
    let page_size = or_default(options.page_size_hint_bytes, DEFAULT_PAGE_SIZE);
    let page_size = PageSize::new(page_size.into())
        .map_err(|source| ConnectionLost::PageSize { kib: page_size / 1024, source })?;
    Ok(Arbiter::new(arbiter_options(memory, page_size, options, waker))?)
}

fn arbiter_options(
    memory: SharedMemory,
    page_size: PageSize,
    options: &ProducerOptions,
    waker: &Arc<Waker>,
) -> ArbiterOptions {
    ArbiterOptions {
        memory: Arc::new(memory),
        page_size,
        scraping: options.scraping,
        batch_duration: options.batch_commits_duration,
        waker: Arc::clone(waker),
    }
}

fn or_default(hint: u32, default: u32) -> u32 {
    if hint == 0 { default } else { hint }
}
