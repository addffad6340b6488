//! One client: its socket, its frames, its requests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use ferretto_ipc::host::{HostConnection, Reply as IpcReply, Request, RequestId};
use ferretto_ipc::identity::machine_id;
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, RELAY_PORT, ServiceDef};
use ferretto_ipc::socket::Stream;
use ferretto_protos::ipc_frame::SetPeerIdentity;
use ferretto_service::{Machine, Peer, Reply, Token};

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
}

impl Door {
    pub(crate) const PRODUCERS: Self = Self { side: Side::Producer, relays: false };
    pub(crate) const CONSUMERS: Self = Self { side: Side::Consumer, relays: false };
}

const PRODUCER_SERVICES: &[ServiceDef] = &[PRODUCER_PORT];
const PRODUCER_AND_RELAY_SERVICES: &[ServiceDef] = &[PRODUCER_PORT, RELAY_PORT];
/// The index of RelayPort there.
pub(crate) const RELAY_SERVICE: usize = 1;
const CONSUMER_SERVICES: &[ServiceDef] = &[CONSUMER_PORT];

/// A producer that leaves this many bytes unread has stopped reading: it loses its connection, as it would with upstream after 10 ms.
const MAX_PRODUCER_QUEUE_BYTES: usize = 1024 * 1024;

/// A consumer with more than this unread is given nothing more to read, and its next requests wait.
pub(crate) const CONSUMER_QUEUE_BYTES: usize = 256 * 1024;

/// Requests of one client that may wait for their last reply; beyond, it is not a client that follows the protocol.
const MAX_OPEN_REQUESTS: usize = 4096;

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
    /// What epoll was told to look for.
    pub(crate) interest: Interest,
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
    pub(crate) fn new(door: Door, stream: Stream) -> Self {
        let services = match door.side {
            Side::Producer if door.relays => PRODUCER_AND_RELAY_SERVICES,
            Side::Producer => PRODUCER_SERVICES,
            Side::Consumer => CONSUMER_SERVICES,
        };
        Self {
            side: door.side,
            relays: door.relays,
            stream,
            host: HostConnection::new(services),
            is_introduced: false,
            interest: Interest { read: true, write: false },
            open: VecDeque::new(),
            last_token: 0,
        }
    }

    /// Receives once, and says how much. What came is decoded even if the connection ends with it.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Ended> {
        let received = match self.stream.recv(buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if let Some(fd) = received.fd {
            self.host.handle_fd(fd);
        }
        match received.len {
            0 => Err(Ended::HungUp),
            len => {
                self.host.handle_bytes(buffer.get(..len).unwrap_or_default())?;
                Ok(len)
            }
        }
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
        while let Some(transmit) = self.host.poll_transmit() {
            match self.stream.send(transmit.bytes, transmit.fd) {
                Ok(len) => self.host.transmitted(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let waiting = self.host.queued_bytes();
        if self.side == Side::Producer && waiting > MAX_PRODUCER_QUEUE_BYTES {
            return Err(Ended::DoesNotRead(waiting));
        }
        if self.open.len() > MAX_OPEN_REQUESTS {
            return Err(Ended::TooManyRequests(self.open.len()));
        }
        Ok(())
    }

    /// A consumer that does not read is not read from either, so that its queue ends somewhere.
    pub(crate) fn wanted_interest(&self) -> Interest {
        let waiting = self.host.queued_bytes();
        Interest { read: self.side == Side::Producer || waiting <= CONSUMER_QUEUE_BYTES, write: waiting > 0 }
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
