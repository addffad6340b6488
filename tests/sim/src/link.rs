//! One connection between a client and the service: two queues of bytes, delivered in pieces, late, or never.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ferretto_ipc::client::{ClientConnection, Event};
use ferretto_ipc::host::{HostConnection, Reply as HostReply, RequestId};
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_service::{Reply, Token};
use ferretto_shm::SharedMemory;

use crate::rng::Rng;

static PRODUCER_SERVICES: [ServiceDef; 1] = [PRODUCER_PORT];
static CONSUMER_SERVICES: [ServiceDef; 1] = [CONSUMER_PORT];

/// A call that arrived at the service.
pub(crate) struct Call {
    pub(crate) token: Token,
    pub(crate) method: &'static str,
    pub(crate) args: bytes::Bytes,
}

/// Both ends of a connection and what is on its way.
pub(crate) struct Link {
    pub(crate) client: ClientConnection,
    host: HostConnection,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    requests: HashMap<u64, (RequestId, &'static str)>,
    last_token: u64,
    /// Memory that the service has sent along, in order. Descriptors are not simulated: the client takes it with the reply.
    memory: VecDeque<Arc<SharedMemory>>,
    /// The host has hung up, or the client has: nothing is delivered any more.
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
            requests: HashMap::new(),
            last_token: 0,
            memory: VecDeque::new(),
            is_down: false,
        }
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
    pub(crate) fn deliver(&mut self, rng: &mut Rng) -> Vec<Call> {
        self.pump();
        if self.is_down {
            return Vec::new();
        }
        let down = take(&mut self.down, rng);
        // A service that talks nonsense would be a bug: clients of ours must understand all of it.
        self.client.handle_bytes(&down).expect("the service sends frames");
        let up = take(&mut self.up, rng);
        self.is_down = self.host.handle_bytes(&up).is_err();
        let mut calls = Vec::new();
        while let Some(request) = self.host.poll_request() {
            self.last_token += 1;
            let method = request.method_name();
            self.requests.insert(self.last_token, (request.id, method));
            calls.push(Call { token: Token(self.last_token), method, args: request.args });
        }
        calls
    }

    /// The service answers.
    pub(crate) fn reply(&mut self, reply: Reply) {
        let Some(&(request, _)) = self.requests.get(&reply.token.0) else { return };
        if !reply.has_more {
            self.requests.remove(&reply.token.0);
        }
        self.memory.extend(reply.memory);
        let body = reply.body.map_or(HostReply::Rejected, HostReply::Body);
        // A reply that does not fit into a frame, or a client that never reads, ends the connection, as in the daemon.
        self.is_down |= self.host.reply(request, body, reply.has_more, None).is_err();
    }

    /// The method that a reply will answer.
    pub(crate) fn method_of(&self, token: Token) -> Option<&'static str> {
        self.requests.get(&token.0).map(|(_, method)| *method)
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.client.poll_event()
    }

    pub(crate) fn take_memory(&mut self) -> Option<Arc<SharedMemory>> {
        self.memory.pop_front()
    }
}

/// All of the queue, or a part of it.
fn take(queue: &mut VecDeque<u8>, rng: &mut Rng) -> Vec<u8> {
    if queue.is_empty() {
        return Vec::new();
    }
    let len = if rng.one_in(3) { rng.below(queue.len() + 1) } else { queue.len() };
    queue.drain(..len).collect()
}
