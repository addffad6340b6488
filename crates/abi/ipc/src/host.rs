//! The service's end of one connection, without I/O.
//!
//! For each receive a driver calls, in this order: [`HostConnection::handle_fd`] if a descriptor came, [`HostConnection::handle_bytes`],
//! then [`HostConnection::poll_request`] until it gives `None` (with [`HostConnection::take_fd`] for a method that takes a descriptor,
//! and [`HostConnection::reply`] now or later), then it sends what [`HostConnection::poll_transmit`] gives, telling
//! [`HostConnection::transmitted`] how much the socket took. Binds and wrong requests are answered here.
//!
//! Upstream: `host_impl.cc`.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ferretto_protos::ipc_frame::{
    BindServiceReply, InvokeMethodReply, Msg, RequestError, SetPeerIdentity, bind_service_reply,
};
use ferretto_protos::{IpcFrame, ipc_frame};
use prost::Message;

use crate::frame::{Decoder, FrameError};
use crate::methods::ServiceDef;
use crate::outgoing::{Outgoing, QueueError, Transmit};
use crate::wire::EncodedFrame;

/// Names a request in its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId {
    wire: u64,
    drop_reply: bool,
}

impl RequestId {
    /// The number that the client chose; it may choose the same twice.
    pub fn wire(self) -> u64 {
        self.wire
    }
}

/// A call of a method that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// For [`HostConnection::reply`].
    pub id: RequestId,
    /// Index in the services given to [`HostConnection::new`].
    pub service: usize,
    /// Index in the service's `methods`.
    pub method: usize,
    /// The serialised request message, as it came.
    pub args: Bytes,
    /// The client wants no answer: replies to this request are dropped.
    pub drop_reply: bool,
    name: &'static str,
}

impl Request {
    /// The method's name in its [`ServiceDef`].
    pub fn method_name(&self) -> &'static str {
        self.name
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.args.len()
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A serialised response message.
    Body(Bytes),
    /// The call failed: the client sees no response.
    Rejected,
}

impl Reply {
    /// An answer with this message.
    pub fn message(message: &impl Message) -> Self {
        Self::Body(message.encode_to_vec().into())
    }
}

/// The connection cannot go on; drop it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionError {
    /// What was received is no frame.
    Frame(FrameError),
    /// What was received needed answers, and the peer does not read them.
    Queue(QueueError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Queue(error) => error.fmt(f),
        }
    }
}

impl Error for ConnectionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Frame(error) => error.source(),
            Self::Queue(error) => error.source(),
        }
    }
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<QueueError> for ConnectionError {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

/// Room for so many requests stays where more have been.
const KEPT_REQUESTS: usize = 16;

/// The service's end of one connection. See the [module](self) for the order of calls.
#[derive(Debug)]
pub struct HostConnection {
    services: &'static [ServiceDef],
    decoder: Decoder,
    requests: VecDeque<Request>,
    /// The arguments of those.
    request_bytes: usize,
    /// They lie in the memory of all that was received with them.
    shares_memory: bool,
    received_fd: Option<OwnedFd>,
    outgoing: Outgoing,
    peer_identity: Option<SetPeerIdentity>,
}

impl HostConnection {
    /// A new connection that exposes these services, with ids from 1 in this order.
    pub fn new(services: &'static [ServiceDef]) -> Self {
        Self {
            services,
            decoder: Decoder::new(),
            requests: VecDeque::new(),
            request_bytes: 0,
            shares_memory: false,
            received_fd: None,
            outgoing: Outgoing::default(),
            peer_identity: None,
        }
    }

    /// The same for a peer whose answers that say that more will follow are messages of their own, as commands to a producer are: no room is
    /// kept between them.
    #[must_use]
    pub fn without_streams(mut self) -> Self {
        self.outgoing.never_streams = true;
        self
    }

    /// Takes a received descriptor, and gives back one that was not taken before, to be closed: the newest counts (upstream:
    /// `TakeReceivedFD`).
    pub fn handle_fd(&mut self, fd: OwnedFd) -> Option<OwnedFd> {
        self.received_fd.replace(fd)
    }

    /// Takes received bytes. After an error the connection is to be dropped; requests already decoded may still be polled.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next()? {
            self.handle_frame(frame)?;
        }
        Ok(())
    }

    /// The next call to serve.
    pub fn poll_request(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.request_bytes = self.request_bytes.saturating_sub(request.held_bytes());
        // Thousands of requests come at once, and the room for them would stay for as long as the connection.
        let (waiting, room) = (self.requests.len(), self.requests.capacity());
        if room > KEPT_REQUESTS && room / 4 > waiting {
            self.requests.shrink_to((2 * waiting).max(KEPT_REQUESTS));
        }
        Some(request)
    }

    /// Says that requests have to wait: what they keep of what was received with them is given back.
    pub fn keep_requests(&mut self) {
        if !std::mem::take(&mut self.shares_memory) {
            return;
        }
        let mut args = BytesMut::with_capacity(self.requests.iter().map(|request| request.args.len()).sum());
        self.requests.iter().for_each(|request| args.extend_from_slice(&request.args));
        let mut args = args.freeze();
        for request in &mut self.requests {
            request.args = args.split_to(request.args.len());
        }
    }

    /// Whether [`poll_request`](Self::poll_request) has one.
    pub fn has_request(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The descriptor received last, if no method took it yet.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.received_fd.take()
    }

    /// Answers a request; `has_more` says that further answers to it will follow. A request whose client wants no answer gets none.
    ///
    /// An answer that is larger than a frame is an error and nothing is queued; so is one for a peer that does not read, which is
    /// to be dropped then.
    pub fn reply(
        &mut self,
        request: RequestId,
        reply: Reply,
        has_more: bool,
        fd: Option<Arc<OwnedFd>>,
    ) -> Result<(), QueueError> {
        if request.drop_reply {
            return Ok(());
        }
        let (success, reply_proto) = match reply {
            Reply::Body(body) => (true, Some(body)),
            Reply::Rejected => (false, None),
        };
        let reply = InvokeMethodReply { success: Some(success), has_more: Some(has_more), reply_proto };
        self.send(request.wire, Msg::MsgInvokeMethodReply(reply), fd)
    }

    /// What to send next; call [`transmitted`](Self::transmitted) with what the socket took of it.
    pub fn poll_transmit(&self) -> Option<Transmit<'_>> {
        self.outgoing.poll_transmit()
    }

    /// Says that the first `len` bytes of the last [`Transmit`] (and its descriptor, if `len` > 0) were sent.
    pub fn transmitted(&mut self, len: usize) {
        self.outgoing.transmitted(len);
    }

    /// Bytes waiting to be sent. At most [`MAX_QUEUED_BYTES`](crate::MAX_QUEUED_BYTES); a driver that streams waits for it to fall.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Bytes that it takes in memory, about: what came and is not served, and what waits to be sent.
    pub fn held_bytes(&self) -> usize {
        let room = self.requests.capacity() - self.requests.len();
        let room_bytes = if room > 2 * KEPT_REQUESTS { room * size_of::<Request>() } else { 0 };
        self.decoder.buffered_bytes() + self.request_bytes + room_bytes + self.outgoing.held_bytes()
    }

    /// What the peer says it is, for transports that do not say it themselves: the first such frame counts. Not to be trusted, and to
    /// be ignored on Unix sockets (upstream: `host_impl.cc`).
    pub fn peer_identity(&self) -> Option<&SetPeerIdentity> {
        self.peer_identity.as_ref()
    }

    /// How many received frames were skipped because they could not be decoded.
    pub fn undecodable_frames(&self) -> u64 {
        self.decoder.undecodable_frames()
    }

    fn handle_frame(&mut self, frame: IpcFrame) -> Result<(), QueueError> {
        let wire = frame.request_id();
        match frame.msg {
            Some(Msg::MsgBindService(bind)) => self.handle_bind(wire, bind.service_name()),
            Some(Msg::MsgInvokeMethod(invoke)) => self.handle_invoke(wire, invoke),
            Some(Msg::SetPeerIdentity(identity)) => {
                self.peer_identity.get_or_insert(identity);
                Ok(())
            }
            _ => {
                let error = RequestError { error: Some("unknown request".to_owned()) };
                self.send(wire, Msg::MsgRequestError(error), None)
            }
        }
    }

    fn handle_bind(&mut self, wire: u64, name: &str) -> Result<(), QueueError> {
        let found = (1u32..).zip(self.services).find(|(_, service)| service.name == name);
        let reply = match found {
            Some((id, service)) => BindServiceReply {
                success: Some(true),
                service_id: Some(id),
                methods: (1u32..)
                    .zip(service.methods)
                    .map(|(id, name)| bind_service_reply::MethodInfo {
                        id: Some(id),
                        name: Some((*name).to_owned()),
                    })
                    .collect(),
            },
            None => BindServiceReply::default(),
        };
        self.send(wire, Msg::MsgBindServiceReply(reply), None)
    }

    fn handle_invoke(&mut self, wire: u64, invoke: ipc_frame::InvokeMethod) -> Result<(), QueueError> {
        let id = RequestId { wire, drop_reply: invoke.drop_reply() };
        let Some((service, method, name)) = self.find(invoke.service_id(), invoke.method_id()) else {
            return self.reply(id, Reply::Rejected, false, None);
        };
        let args = invoke.args_proto.unwrap_or_default();
        let request = Request { id, service, method, args, drop_reply: id.drop_reply, name };
        self.request_bytes = self.request_bytes.saturating_add(request.held_bytes());
        self.shares_memory = true;
        self.requests.push_back(request);
        Ok(())
    }

    fn find(&self, service_id: u32, method_id: u32) -> Option<(usize, usize, &'static str)> {
        let service = usize::try_from(service_id).ok()?.checked_sub(1)?;
        let method = usize::try_from(method_id).ok()?.checked_sub(1)?;
        Some((service, method, self.services.get(service)?.methods.get(method)?))
    }

    fn send(&mut self, wire: u64, msg: Msg, fd: Option<Arc<OwnedFd>>) -> Result<(), QueueError> {
        let has_more = matches!(&msg, Msg::MsgInvokeMethodReply(reply) if reply.has_more());
        let frame = IpcFrame { request_id: Some(wire), msg: Some(msg), ..Default::default() };
        self.outgoing.push(&EncodedFrame::new(&frame)?, has_more, fd)
    }
}
