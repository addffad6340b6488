//! One connection between a client and the service: two queues of bytes, delivered in pieces, late, or never.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_ipc::client::{ClientConnection, Event, RequestId as ClientRequest};
use ferretto_ipc::host::{HostConnection, Reply as HostReply, RequestId};
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_service::{Reply, Token};
use ferretto_shm::SharedMemory;
use prost::Message;

use crate::fate::Fate;

static PRODUCER_SERVICES: [ServiceDef; 1] = [PRODUCER_PORT];
static CONSUMER_SERVICES: [ServiceDef; 1] = [CONSUMER_PORT];

/// A call that arrived at the service.
pub(crate) struct Call {
    pub(crate) token: Token,
    /// As the client knows it.
    pub(crate) request: ClientRequest,
    pub(crate) method: &'static str,
    pub(crate) args: Bytes,
}

/// A request that the service has not answered to the end.
struct Open {
    id: RequestId,
    method: &'static str,
    wants_reply: bool,
}

/// Both ends of a connection and what is on its way.
pub(crate) struct Link {
    client: ClientConnection,
    host: HostConnection,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    open: BTreeMap<Token, Open>,
    last_token: u64,
    /// Memory that the service has sent along, in order. Descriptors are not simulated: the client takes it with the reply.
    memory: VecDeque<Arc<SharedMemory>>,
    /// Replies on their way, as they must arrive.
    replies: VecDeque<(u64, u64)>,
    /// The host has hung up: nothing is delivered any more.
    pub(crate) is_down: bool,
}

impl Link {
    pub(crate) fn producer() -> Self {
        Self::new(PRODUCER_SERVICES[0].name, &PRODUCER_SERVICES)
    }

    pub(crate) fn consumer() -> Self {
        Self::new(CONSUMER_SERVICES[0].name, &CONSUMER_SERVICES)
    }

    fn new(name: &str, services: &'static [ServiceDef]) -> Self {
        Self {
            client: ClientConnection::new(name),
            host: HostConnection::new(services),
            up: VecDeque::new(),
            down: VecDeque::new(),
            open: BTreeMap::new(),
            last_token: 0,
            memory: VecDeque::new(),
            replies: VecDeque::new(),
            is_down: false,
        }
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.client.is_bound()
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        args: &impl Message,
        want_reply: bool,
    ) -> Option<ClientRequest> {
        self.client.invoke(method, args, None, want_reply).ok()
    }

    /// Bytes that are no frame, from a client that is broken.
    pub(crate) fn send_garbage(&mut self, bytes: &[u8]) {
        self.pump();
        self.up.extend(bytes);
    }

    /// Moves what both ends want to send onto the wire.
    fn pump(&mut self) {
        while let Some(transmit) = self.client.poll_transmit() {
            let len = transmit.bytes.len();
            self.up.extend(transmit.bytes);
            self.client.transmitted(len);
        }
        while let Some(transmit) = self.host.poll_transmit() {
            let len = transmit.bytes.len();
            self.down.extend(transmit.bytes);
            self.host.transmitted(len);
        }
    }

    /// Delivers some bytes in both directions; the calls that they complete are the service's to serve.
    pub(crate) fn deliver(&mut self, fate: &mut Fate) -> Vec<Call> {
        self.pump();
        if self.is_down {
            return Vec::new();
        }
        let down = take(&mut self.down, fate);
        // A service that talks nonsense would be a bug: clients of ours must understand all of it.
        self.client.handle_bytes(&down).expect("the service sends frames");
        let up = take(&mut self.up, fate);
        self.is_down = self.host.handle_bytes(&up).is_err();
        let mut calls = Vec::new();
        while let Some(request) = self.host.poll_request() {
            self.last_token += 1;
            let (token, method) = (Token(self.last_token), request.method_name());
            let open = Open { id: request.id, method, wants_reply: !request.drop_reply };
            self.open.insert(token, open);
            let wire = ClientRequest(request.id.wire());
            calls.push(Call { token, request: wire, method, args: request.args });
        }
        calls
    }

    /// The service answers.
    ///
    /// # Panics
    /// If the request was answered to the end before, or was never made.
    pub(crate) fn reply(&mut self, reply: Reply) {
        let token = reply.token;
        let open = self.open.get(&token).unwrap_or_else(|| panic!("{token:?} is answered once more"));
        if open.wants_reply {
            self.replies.push_back((open.id.wire(), digest(reply.body.as_ref(), reply.has_more)));
        }
        self.memory.extend(reply.memory);
        let body = reply.body.map_or(HostReply::Rejected, HostReply::Body);
        // A client that never reads ends the connection, as in the daemon.
        self.is_down |= self.host.reply(open.id, body, reply.has_more, None).is_err();
        if !reply.has_more {
            self.open.remove(&token);
        }
    }

    /// The method that a reply will answer.
    pub(crate) fn method_of(&self, token: Token) -> Option<&'static str> {
        self.open.get(&token).map(|open| open.method)
    }

    /// Nothing is on its way, or waits to be looked at.
    pub(crate) fn is_quiet(&self) -> bool {
        let queued = self.client.poll_transmit().is_some() || self.host.poll_transmit().is_some();
        !queued && self.replies.is_empty() && self.up.is_empty() && self.down.is_empty()
    }

    /// The methods of the calls that still wait for an answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (Token, &'static str)> {
        self.open.iter().map(|(token, open)| (*token, open.method))
    }

    /// What the client is told next.
    ///
    /// # Panics
    /// If a reply is not the one that the service gave.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let event = self.client.poll_event()?;
        if let Event::Reply { request, has_more, body } = &event {
            let sent = self.replies.pop_front();
            assert_eq!(
                sent,
                Some((request.0, digest(body.as_ref(), *has_more))),
                "a reply changed on its way"
            );
        }
        Some(event)
    }

    pub(crate) fn take_memory(&mut self) -> Option<Arc<SharedMemory>> {
        self.memory.pop_front()
    }
}

fn digest(body: Option<&Bytes>, has_more: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    (body, has_more).hash(&mut hasher);
    hasher.finish()
}

/// All of the queue, or a part of it.
fn take(queue: &mut VecDeque<u8>, fate: &mut Fate) -> Vec<u8> {
    if queue.is_empty() {
        return Vec::new();
    }
    let len = if fate.one_in(3) { fate.below(queue.len() + 1) } else { queue.len() };
    if len > 0 && len < queue.len() {
        fate.saw("a frame arrives in pieces");
    }
    queue.drain(..len).collect()
}
