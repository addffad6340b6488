//! A producer's or consumer's end of one connection, without I/O.
//!
//! The bind is queued at once; [`Event::Bound`] says that calls can be made. For each receive a driver calls
//! [`ClientConnection::handle_fd`] if a descriptor came, [`ClientConnection::handle_bytes`], then [`ClientConnection::poll_event`]
//! until it gives `None` (with [`ClientConnection::take_fd`] for a reply that carries a descriptor), then sends what
//! [`ClientConnection::poll_transmit`] gives.
//!
//! Upstream: `client_impl.cc`.

use std::error::Error;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::fields::ipc_frame::{
    MSG_BIND_SERVICE, MSG_BIND_SERVICE_REPLY, MSG_INVOKE_METHOD, MSG_INVOKE_METHOD_REPLY, MSG_REQUEST_ERROR,
    SET_PEER_IDENTITY, bind_service, invoke_method,
};
use ferretto_protos::ipc_frame;
use ferretto_protozero::control::Writer;
use prost::Message;

use crate::frame::{Decoder, FrameError};
use crate::log;
use crate::outgoing::{Outgoing, QueueError, Transmit};
use crate::wire::{Answer, EncodedFrame, decode_answer, put_identity};

/// Names a call in its replies: from 1, never used twice on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A call that could not be made. The connection is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvokeError {
    /// No [`Event::Bound`] yet, or the bind failed.
    NotBound {
        /// The method's name.
        method: String,
    },
    /// The service is of an older version.
    UnknownMethod {
        /// The method's name.
        method: String,
    },
    /// The call does not fit into a frame, or the service does not read.
    Queue {
        /// The method's name.
        method: String,
        /// Why.
        source: QueueError,
    },
}

impl fmt::Display for InvokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBound { method } => {
                write!(f, "cannot call {method}: the service has not accepted the connection yet")
            }
            Self::UnknownMethod { method } => write!(
                f,
                "the service at the other end does not know the method {method}: it is older than this feature"
            ),
            Self::Queue { method, source } => write!(f, "cannot call {method}: {source}"),
        }
    }
}

impl Error for InvokeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Queue { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What the other end said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Calls can be made now.
    Bound,
    /// The host does not have the service. Nothing else will come.
    BindFailed,
    /// An answer to a call.
    Reply {
        /// The call.
        request: RequestId,
        /// More answers to the same call will come.
        has_more: bool,
        /// The serialised response; `None` if the call was rejected.
        body: Option<Bytes>,
    },
}

#[derive(Debug)]
enum State {
    Binding { request: u64 },
    Bound { service_id: u32, methods: Vec<(String, u32)> },
    Failed,
}

/// A client's end of one connection. See the [module](self) for the order of calls.
#[derive(Debug)]
pub struct ClientConnection {
    state: State,
    next_request: u64,
    /// Calls that may still get answers, in the order in which they were made; as many as the user made.
    pending: Vec<u64>,
    decoder: Decoder,
    /// Those that were polled are `None`.
    events: Vec<Option<Event>>,
    polled: usize,
    received_fd: Option<OwnedFd>,
    outgoing: Outgoing,
}

impl ClientConnection {
    /// A connection that binds this service.
    pub fn new(service: &str) -> Self {
        let mut connection = Self {
            state: State::Failed,
            next_request: 1,
            pending: Vec::new(),
            decoder: Decoder::new(),
            events: Vec::new(),
            polled: 0,
            received_fd: None,
            outgoing: Outgoing::default(),
        };
        let mut bind = Writer::new();
        bind.text(bind_service::SERVICE_NAME, service);
        let request = connection.next_request_id();
        match connection.send(request, MSG_BIND_SERVICE, &bind, &[], None) {
            Ok(()) => connection.state = State::Binding { request },
            // Only a name longer than a frame.
            Err(_) => connection.events.push(Some(Event::BindFailed)),
        }
        connection
    }

    /// Takes a received descriptor. One that was not taken before is closed: the newest counts.
    pub fn handle_fd(&mut self, fd: OwnedFd) {
        self.received_fd = Some(fd);
    }

    /// Takes received bytes. After an error the connection is to be dropped; events already decoded may still be polled.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.decoder.push(bytes);
        while let Some(answer) = self.decoder.next_decoded(decode_answer)? {
            self.handle_answer(answer);
        }
        Ok(())
    }

    /// Rejects all calls that still wait: the connection ended.
    pub fn handle_disconnect(&mut self) {
        if matches!(self.state, State::Binding { .. }) {
            self.events.push(Some(Event::BindFailed));
        }
        self.state = State::Failed;
        for request in std::mem::take(&mut self.pending) {
            self.events.push(Some(Event::Reply { request: RequestId(request), has_more: false, body: None }));
        }
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.get_mut(self.polled)?.take();
        self.polled += 1;
        if self.polled == self.events.len() {
            self.events.clear();
            self.polled = 0;
        }
        event
    }

    /// The descriptor received last, if it was not taken yet. Take it when handling a reply that carries one.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.received_fd.take()
    }

    /// Whether the bind has succeeded.
    pub fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound { .. })
    }

    /// Whether the service has this method. `false` before [`Event::Bound`].
    pub fn has_method(&self, method: &str) -> bool {
        matches!(&self.state, State::Bound { methods, .. } if id_of(methods, method).is_some())
    }

    /// Calls a method. Without `want_reply` no [`Event::Reply`] will come for it (the wire's `drop_reply`).
    pub fn invoke(
        &mut self,
        method: &str,
        args: &impl Message,
        fd: Option<Arc<OwnedFd>>,
        want_reply: bool,
    ) -> Result<RequestId, InvokeError> {
        self.invoke_encoded(method, args.encode_to_vec().into(), fd, want_reply)
    }

    /// As [`invoke`](Self::invoke), with arguments that are serialised already.
    pub fn invoke_encoded(
        &mut self,
        method: &str,
        args: Bytes,
        fd: Option<Arc<OwnedFd>>,
        want_reply: bool,
    ) -> Result<RequestId, InvokeError> {
        let State::Bound { service_id, methods } = &self.state else {
            return Err(InvokeError::NotBound { method: method.to_owned() });
        };
        let Some(method_id) = id_of(methods, method) else {
            return Err(InvokeError::UnknownMethod { method: method.to_owned() });
        };
        let mut invoke = Writer::new();
        invoke
            .integer(invoke_method::SERVICE_ID, (*service_id).into())
            .integer(invoke_method::METHOD_ID, method_id.into())
            .truth(invoke_method::DROP_REPLY, !want_reply)
            .prefix(invoke_method::ARGS_PROTO, args.len());
        let request = self.next_request_id();
        self.send(request, MSG_INVOKE_METHOD, &invoke, &args, fd)
            .map_err(|source| InvokeError::Queue { method: method.to_owned(), source })?;
        if want_reply {
            self.pending.push(request);
        }
        Ok(RequestId(request))
    }

    /// Tells a host that cannot ask the kernel (TCP, vsock) who this is. Hosts on Unix sockets ignore it.
    pub fn set_peer_identity(&mut self, identity: ipc_frame::SetPeerIdentity) -> Result<(), QueueError> {
        let request = self.next_request_id();
        let mut message = Writer::new();
        put_identity(&mut message, &identity);
        self.send(request, SET_PEER_IDENTITY, &message, &[], None)
    }

    /// What to send next; call [`transmitted`](Self::transmitted) with what the socket took of it.
    pub fn poll_transmit(&self) -> Option<Transmit<'_>> {
        self.outgoing.poll_transmit()
    }

    /// Says that the first `len` bytes of the last [`Transmit`] (and its descriptor, if `len` > 0) were sent.
    pub fn transmitted(&mut self, len: usize) {
        self.outgoing.transmitted(len);
    }

    /// Bytes waiting to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// How many received frames were skipped because they could not be decoded.
    pub fn undecodable_frames(&self) -> u64 {
        self.decoder.undecodable_frames()
    }

    fn handle_answer(&mut self, answer: Answer) {
        match answer.number {
            MSG_BIND_SERVICE_REPLY => self.handle_bind_reply(answer),
            MSG_INVOKE_METHOD_REPLY => self.handle_invoke_reply(answer),
            MSG_REQUEST_ERROR => {
                log::debug(format_args!("the service did not understand a request: {}", answer.error));
                // Without success.
                self.handle_invoke_reply(answer);
            }
            _ => log::debug(format_args!("ignored an IPC frame that is not for a client")),
        }
    }

    fn handle_bind_reply(&mut self, answer: Answer) {
        if !matches!(self.state, State::Binding { request } if request == answer.request) {
            return;
        }
        if !answer.is_success {
            self.state = State::Failed;
            self.events.push(Some(Event::BindFailed));
            return;
        }
        self.state = State::Bound { service_id: answer.service_id, methods: answer.methods };
        self.events.push(Some(Event::Bound));
    }

    fn handle_invoke_reply(&mut self, answer: Answer) {
        let Ok(place) = self.pending.binary_search(&answer.request) else {
            return;
        };
        // A rejected call has no later answers, whatever the flag says.
        let has_more = answer.has_more && answer.is_success;
        if !has_more {
            self.pending.remove(place);
        }
        let body = answer.is_success.then_some(answer.body);
        self.events.push(Some(Event::Reply { request: RequestId(answer.request), has_more, body }));
    }

    fn next_request_id(&mut self) -> u64 {
        let request = self.next_request;
        self.next_request = request.wrapping_add(1);
        request
    }

    /// Queues a frame with this field, of which `body` are the last bytes.
    #[inline(never)]
    fn send(
        &mut self,
        request: u64,
        field: u32,
        message: &Writer,
        body: &[u8],
        fd: Option<Arc<OwnedFd>>,
    ) -> Result<(), QueueError> {
        self.outgoing.push(&EncodedFrame::of_request(request, field, message, body)?, false, fd)
    }
}

fn id_of(methods: &[(String, u32)], name: &str) -> Option<u32> {
    methods.iter().find(|(known, _)| known == name).map(|(_, id)| *id)
}
