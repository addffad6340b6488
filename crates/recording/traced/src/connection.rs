//! One client: its socket, its frames, its requests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::host::{HostConnection, Reply as IpcReply, Request, RequestId};
use ferretto_ipc::identity::machine_id;
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, RELAY_PORT, ServiceDef};
use ferretto_ipc::socket::Stream;
use ferretto_peers::{Elsewhere, Holder, MAX_WAITING, TooMuch, close_stream};
use ferretto_protos::ipc_frame::SetPeerIdentity;
use ferretto_service::{Machine, Peer, Reply, Token};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::users;

/// Who connects at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Producer,
    Consumer,
}

/// What is offered at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) side: Side,
    /// Relays of other machines may come too.
    pub(crate) relays: bool,
    /// Root and the service's own user may come, others not.
    pub(crate) own_user_only: bool,
}

impl Door {
    pub(crate) const PRODUCERS: Self = Self { side: Side::Producer, relays: false, own_user_only: false };
    pub(crate) const CONSUMERS: Self = Self { side: Side::Consumer, ..Self::PRODUCERS };

    /// Whether a user may come in.
    pub(crate) fn lets_in(self, uid: u32) -> bool {
        let own = users::known(geteuid().as_raw());
        !self.own_user_only || uid == 0 || users::known(uid) == own && own != Peer::UNKNOWN_UID
    }
}

const PRODUCER_SERVICES: &[ServiceDef] = &[PRODUCER_PORT];
const PRODUCER_AND_RELAY_SERVICES: &[ServiceDef] = &[PRODUCER_PORT, RELAY_PORT];
/// The index of RelayPort there.
pub(crate) const RELAY_SERVICE: usize = 1;
const CONSUMER_SERVICES: &[ServiceDef] = &[CONSUMER_PORT];

/// A producer that leaves this many bytes unread and reads nothing has stopped reading: it loses its connection, as it would with upstream
/// after 10 ms.
const MAX_PRODUCER_QUEUE_BYTES: usize = 1024 * 1024;
/// For so long: a session says some 300 KiB of a data source, several may do so at one time, and on a busy machine a producer may not run for
/// a while. More than [`ferretto_ipc::MAX_QUEUED_BYTES`] never wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// A producer with more than this unread is told nothing more.
pub(crate) const PRODUCER_QUEUE_BYTES: usize = 64 * 1024;

/// A consumer with more than this unread is given nothing more to read, and its next requests wait.
const CONSUMER_QUEUE_BYTES: usize = 256 * 1024;

/// Requests of one client that may wait for their last reply; beyond, it is not a client that follows the protocol.
const MAX_OPEN_REQUESTS: usize = 4096;

/// In whose books a peer of another machine is until a relay has said whom it stands for.
const UNKNOWN_HOLDER: Holder = Holder::Remote { machine: 0, user: Peer::UNKNOWN_UID };

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("it hung up")]
    HungUp,
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ferretto_ipc::host::ConnectionError),
    #[error("{0}")]
    Queue(#[from] ferretto_ipc::QueueError),
    #[error("it does not read: {0} bytes wait for it")]
    DoesNotRead(usize),
    #[error("it leaves {0} requests open")]
    TooManyRequests(usize),
    #[error("it passes descriptors that nobody asked for, and {0} of its user's wait to be closed")]
    TooManyFds(usize),
    #[error("it passed more descriptors than this process can have")]
    NoRoomForFds,
    #[error("{0}")]
    TooMuch(#[from] TooMuch),
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) side: Side,
    /// It may be a relay, whose word is taken for the identity of another machine's programs.
    relays: bool,
    pub(crate) stream: Stream,
    pub(crate) host: HostConnection,
    /// The service knows it: it has made a call.
    pub(crate) is_introduced: bool,
    /// Who waits for what it passes to be closed. Those of other machines are one user, whatever their relays say.
    pub(crate) user: u32,
    elsewhere: Elsewhere,
    /// What it holds, as the books have it, and in whose; the same has its turns.
    pub(crate) held_bytes: usize,
    pub(crate) holder: Holder,
    /// What epoll was told to look for.
    pub(crate) interest: Interest,
    /// What epoll said that it is ready for, and nobody has looked at yet.
    pub(crate) is_ready_for: EventFlags,
    /// A descriptor that it is to be sent has to wait: the kernel lets no more be on their way (`ETOOMANYREFS`).
    pub(crate) waits_for_kernel: bool,
    /// Since when it leaves too much unread.
    unread_since: Option<Instant>,
    /// Why it ends, as soon as the requests before that are served.
    last_words: Option<Ended>,
    open: VecDeque<(Token, RequestId)>,
    last_token: u64,
}

/// What to wait for at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Connection {
    pub(crate) fn new(door: Door, stream: Stream, elsewhere: Elsewhere) -> Self {
        let services = match door.side {
            Side::Producer if door.relays => PRODUCER_AND_RELAY_SERVICES,
            Side::Producer => PRODUCER_SERVICES,
            Side::Consumer => CONSUMER_SERVICES,
        };
        Self {
            side: door.side,
            relays: door.relays,
            user: user_of(&stream),
            holder: if stream.passes_fds() { Holder::Local(user_of(&stream)) } else { UNKNOWN_HOLDER },
            elsewhere,
            stream,
            host: match door.side {
                Side::Producer => HostConnection::new(services).without_streams(),
                Side::Consumer => HostConnection::new(services),
            },
            is_introduced: false,
            held_bytes: 0,
            interest: Interest { read: true, write: false },
            is_ready_for: EventFlags::empty(),
            waits_for_kernel: false,
            unread_since: None,
            last_words: None,
            open: VecDeque::new(),
            last_token: 0,
        }
    }

    /// Receives once, and says how much; nothing while requests wait that came before. What came is decoded even if the connection ends
    /// with it.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> usize {
        if self.has_something_to_serve() {
            return 0;
        }
        self.try_to_receive(buffer).unwrap_or_else(|error| {
            self.last_words = Some(error);
            0
        })
    }

    fn try_to_receive(&mut self, buffer: &mut [u8]) -> Result<usize, Ended> {
        let received = match self.stream.recv(buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let unwanted = received.fd.and_then(|fd| self.host.handle_fd(fd));
        let waiting = self.close_all(received.others.into_iter().chain(unwanted));
        if waiting > MAX_WAITING {
            return Err(Ended::TooManyFds(waiting));
        }
        if received.is_truncated {
            return Err(Ended::NoRoomForFds);
        }
        match received.len {
            0 => Err(Ended::HungUp),
            len => {
                self.host.handle_bytes(buffer.get(..len).unwrap_or_default())?;
                Ok(len)
            }
        }
    }

    /// Closes what the client has passed. Says how many of its user's wait for that.
    pub(crate) fn close_all(&self, fds: impl Iterator<Item = OwnedFd>) -> usize {
        self.elsewhere.close_passed(self.user, fds)
    }

    /// The descriptor that came last, if it is memory. Anything else is closed.
    pub(crate) fn take_memory(&mut self) -> Option<OwnedFd> {
        let fd = self.host.take_fd()?;
        // Only memory has seals, and nobody can make the closing of memory wait.
        if rustix::fs::fcntl_get_seals(&fd).is_ok() {
            return Some(fd);
        }
        tracing::warn!("what a producer brought is no memory that can be sealed: it is not used");
        self.close_all(std::iter::once(fd));
        None
    }

    /// Closes it; before that, what its socket still holds.
    pub(crate) fn close(self, buffer: &mut [u8]) {
        let (user, elsewhere) = (self.user, self.elsewhere.clone());
        close_stream(self.into_stream(), user, &elsewhere, buffer);
    }

    /// Drops all but its socket.
    pub(crate) fn into_stream(mut self) -> Stream {
        let rest = self.host.take_fd();
        self.close_all(rest.into_iter());
        self.stream
    }

    /// Requests wait, or its end.
    pub(crate) fn has_something_to_serve(&self) -> bool {
        self.host.has_request() || self.last_words.is_some()
    }

    /// Its end, if nothing is to be served before that.
    pub(crate) fn end(&mut self) -> Option<Ended> {
        if self.host.has_request() { None } else { self.last_words.take() }
    }

    /// Whether its peer reads what it is sent, so that there may be more.
    pub(crate) fn has_room(&self) -> bool {
        self.side == Side::Producer || self.host.queued_bytes() <= CONSUMER_QUEUE_BYTES
    }

    /// Whether it is a producer that has to read before it is told more.
    pub(crate) fn is_behind(&self) -> bool {
        self.side == Side::Producer && self.host.queued_bytes() > PRODUCER_QUEUE_BYTES
    }

    /// The next request, and the token by which the service will reply to it.
    pub(crate) fn next_request(&mut self) -> Option<(Token, Request)> {
        let request = self.host.poll_request()?;
        self.last_token += 1;
        let token = Token(self.last_token);
        self.open.push_back((token, request.id));
        Some((token, request))
    }

    /// Queues a reply of the service.
    pub(crate) fn reply(&mut self, reply: Reply) -> Result<(), Ended> {
        let Some(index) = self.open.iter().position(|(token, _)| *token == reply.token) else {
            return Ok(());
        };
        let Some((_, request)) = self.open.get(index).copied() else { return Ok(()) };
        if !reply.has_more {
            self.open.remove(index);
        }
        let body = reply.body.map_or(IpcReply::Rejected, IpcReply::Body);
        let fd = reply.memory.and_then(|memory| memory.as_fd().and_then(|fd| fd.try_clone_to_owned().ok()));
        match self.host.reply(request, body, reply.has_more, fd.map(Arc::new)) {
            Err(error @ ferretto_ipc::QueueError::Frame(_)) => {
                tracing::error!("a reply is too large, and what was asked for is refused: {error}");
                self.open.retain(|(token, _)| *token != reply.token);
                Ok(self.host.reply(request, IpcReply::Rejected, false, None)?)
            }
            result => Ok(result?),
        }
    }

    pub(crate) fn reject(&mut self, token: Token) -> Result<(), Ended> {
        self.reply(Reply { token, body: None, has_more: false, memory: None })
    }

    /// Sends what the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), Ended> {
        let waited = std::mem::take(&mut self.waits_for_kernel);
        while let Some(transmit) = self.host.poll_transmit() {
            match self.stream.send(transmit.bytes, transmit.fd) {
                Ok(len) => {
                    self.host.transmitted(len);
                    self.unread_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) => {
                    self.waits_for_kernel = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.waits_for_kernel && !waited {
            tracing::warn!(
                "a client waits for its shared memory: too many descriptors of this service's user are on their way, and nobody receives them"
            );
        }
        self.check_that_it_reads()?;
        if self.open.len() > MAX_OPEN_REQUESTS {
            return Err(Ended::TooManyRequests(self.open.len()));
        }
        Ok(())
    }

    fn check_that_it_reads(&mut self) -> Result<(), Ended> {
        let waiting = self.host.queued_bytes();
        if self.side == Side::Consumer || self.waits_for_kernel || waiting <= MAX_PRODUCER_QUEUE_BYTES {
            self.unread_since = None;
            return Ok(());
        }
        let since = self.unread_since.get_or_insert_with(Instant::now);
        match since.elapsed() > PATIENCE {
            true => Err(Ended::DoesNotRead(waiting)),
            false => Ok(()),
        }
    }

    /// A consumer that does not read is not read from either, so that its queue ends somewhere.
    pub(crate) fn wanted_interest(&self) -> Interest {
        let reads = self.has_room() && !self.has_something_to_serve();
        // There is room at the socket where the kernel wants no descriptors: it is ready all the time.
        Interest { read: reads, write: self.host.queued_bytes() > 0 && !self.waits_for_kernel }
    }

    /// Who it is: as the kernel says, which may be that its process is not to be seen from here; never as a peer on this machine says
    /// itself. Users whom the service's name space does not show are nobody. Of another machine the kernel says nothing: there a relay, where relays may come, says whom it stands for, and all others are
    /// nobody.
    pub(crate) fn peer(&self) -> Result<Peer, Ended> {
        if let Some(credentials) = self.stream.peer_credentials()? {
            return Ok(Peer { uid: users::known(credentials.uid), pid: credentials.pid, emulated: false });
        }
        let identity = self.relayed_identity();
        Ok(Peer {
            uid: identity.and_then(|identity| identity.uid).map_or(Peer::UNKNOWN_UID, |uid| uid as u32),
            pid: identity.map_or(0, |identity| identity.pid()),
            emulated: true,
        })
    }

    /// Where it is, if that is another machine and its relay says which.
    pub(crate) fn machine(&self) -> Option<Machine> {
        let identity = self.relayed_identity()?;
        let id = machine_id(identity.machine_id_hint(), &self.stream.peer_host().unwrap_or_default());
        Some(Machine { id, name: identity.machine_name().to_owned() })
    }

    /// In whose books it is from now on: a relay may just have said whom it stands for.
    pub(crate) fn current_holder(&self) -> Holder {
        if self.holder != UNKNOWN_HOLDER {
            return self.holder;
        }
        let Some(machine) = self.machine() else { return UNKNOWN_HOLDER };
        let uid = self.relayed_identity().and_then(|identity| identity.uid);
        Holder::Remote { machine: machine.id, user: uid.map_or(Peer::UNKNOWN_UID, i32::cast_unsigned) }
    }

    /// Whom a relay stands for.
    fn relayed_identity(&self) -> Option<&SetPeerIdentity> {
        self.host.peer_identity().filter(|_| self.relays && !self.stream.passes_fds())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whose a connection is, for the time and the memory that it takes.
pub(crate) fn user_of(stream: &Stream) -> u32 {
    match stream.peer_credentials() {
        Ok(Some(credentials)) => credentials.uid,
        Ok(None) | Err(_) => Peer::UNKNOWN_UID,
    }
}
