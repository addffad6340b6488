//! The service for those who bring their own transport: another kind of socket, the IPC system of a larger program, channels.
//!
//! [`Service`] does no I/O. [`daemon`](crate::daemon) and [`in_process`](crate::in_process) drive it with sockets and files; a
//! [`Driver`] calls it in the right order with this machine's clocks and memory, and leaves it to the embedder how calls come and
//! replies go. Each call and reply is a protobuf message: [`ProducerCall::decode`] and [`ConsumerCall::decode`] take the name of a
//! method and bytes. The example `own_transport` has all of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferretto_service::{
    ConsumerCall, ConsumerConn, Environment, FileHandle, Output, Peer, ProducerCall, ProducerConn,
    ProvidedMemory, Reply, Service, Token,
};
use ferretto_shm::SharedMemory;

use crate::system::{SystemEnvironment, now, service_options};

/// The way back to a client. A closure that sends a reply is one.
pub trait Client: Send {
    /// Sends a reply. One to somebody who has gone may be dropped.
    fn send(&mut self, reply: Reply);

    /// Whether a consumer that reads buffers can take more now. If not, call [`Driver::resume`] when it can.
    fn wants_more(&self) -> bool {
        true
    }
}

impl<F: FnMut(Reply) + Send> Client for F {
    fn send(&mut self, reply: Reply) {
        self(reply);
    }
}

/// A service with clients of the embedder's own. Nothing here blocks.
///
/// After each of its methods ask [`timeout`](Self::timeout) how long to wait for the next call at most.
pub struct Driver {
    service: Service,
    producers: BTreeMap<ProducerConn, Box<dyn Client>>,
    consumers: BTreeMap<ConsumerConn, Box<dyn Client>>,
    last_client: u64,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Default for Driver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver {
    /// A service that knows nobody yet. It writes no files: configs that want that are refused.
    pub fn new() -> Self {
        let environment = WithoutFiles(SystemEnvironment::default());
        Self {
            service: Service::new(service_options(), Box::new(environment)),
            producers: BTreeMap::new(),
            consumers: BTreeMap::new(),
            last_client: 0,
        }
    }

    /// A producer is there. `peer` is whom the transport vouches for: packets bear it, and no producer can choose it.
    pub fn connect_producer(&mut self, peer: Peer, client: impl Client + 'static) -> ProducerConn {
        self.last_client += 1;
        let conn = ProducerConn(self.last_client);
        self.producers.insert(conn, Box::new(client));
        self.service.handle_producer_connected(conn, peer);
        conn
    }

    /// A consumer is there. Whoever it is sees everything: let in only whom you trust with that.
    pub fn connect_consumer(&mut self, peer: Peer, client: impl Client + 'static) -> ConsumerConn {
        self.last_client += 1;
        let conn = ConsumerConn(self.last_client);
        self.consumers.insert(conn, Box::new(client));
        self.service.handle_consumer_connected(conn, peer);
        conn
    }

    /// A producer calls. Its replies bear the token, which it has chosen; `memory` is what it brings with `InitializeConnection`.
    pub fn producer_call(
        &mut self,
        from: ProducerConn,
        token: Token,
        call: ProducerCall,
        memory: ProvidedMemory,
    ) {
        self.service.handle_producer_call(from, token, call, memory, &now());
        while self.service.is_committing(from) {
            self.service.continue_commit(from, &now());
        }
        self.settle();
    }

    /// A consumer calls. Its replies bear the token, which it has chosen.
    pub fn consumer_call(&mut self, from: ConsumerConn, token: Token, call: ConsumerCall) {
        // There is nobody else whom this could keep waiting but those whom the embedder let in. An answer that it does not take it gives up.
        while self.service.is_busy(from)
            && self.consumers.get(&from).is_some_and(|client| client.wants_more())
        {
            self.service.handle_timeout(&now());
            self.settle();
        }
        self.service.handle_consumer_call(from, token, call, None, &now());
        self.settle();
    }

    /// A producer is gone. What it has committed stays.
    pub fn disconnect_producer(&mut self, conn: ProducerConn) {
        self.service.handle_producer_disconnected(conn, &now());
        self.producers.remove(&conn);
        self.settle();
    }

    /// A consumer is gone, and its session with it.
    pub fn disconnect_consumer(&mut self, conn: ConsumerConn) {
        self.service.handle_consumer_disconnected(conn, &now());
        self.consumers.remove(&conn);
        self.settle();
    }

    /// How long to wait for a call at most, before [`handle_timeout`](Self::handle_timeout) has something to do; without end
    /// ([`Duration::MAX`]) if nothing waits for time.
    pub fn timeout(&self) -> Duration {
        self.service.next_timeout_ns(&now()).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Some time is over. Earlier does no harm.
    pub fn handle_timeout(&mut self) {
        self.service.handle_timeout(&now());
        self.settle();
    }

    /// Goes on with consumers that did not [want more](Client::wants_more).
    pub fn resume(&mut self) {
        self.settle();
    }

    /// Sends what the service says, and to consumers that read as much as they take.
    fn settle(&mut self) {
        loop {
            self.send_outputs();
            let mut is_done = true;
            for (conn, client) in &mut self.consumers {
                if client.wants_more() {
                    let replies = self.service.poll_read(*conn, &now());
                    is_done &= replies.is_empty();
                    replies.into_iter().for_each(|reply| client.send(reply));
                }
            }
            if is_done {
                return;
            }
        }
    }

    fn send_outputs(&mut self) {
        while let Some(output) = self.service.poll_output() {
            let (client, reply) = match output {
                Output::ToProducer(conn, reply) => (self.producers.get_mut(&conn), reply),
                Output::ToConsumer(conn, reply) => (self.consumers.get_mut(&conn), reply),
                // It was given none.
                Output::CloseFile(_) => continue,
            };
            if let Some(client) = client {
                client.send(reply);
            }
        }
    }
}

/// Memory, random numbers and time of this machine. How the embedder's threads are scheduled is none of a config's business.
struct WithoutFiles(SystemEnvironment);

impl Environment for WithoutFiles {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        self.0.allocate_memory(len)
    }

    fn random_u64(&mut self) -> u64 {
        self.0.random_u64()
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        Err(format!("{path}: this service writes no files; read the buffers instead"))
    }

    fn stopwatch_ns(&mut self) -> u64 {
        self.0.stopwatch_ns()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use ferretto_protos::text::parse_trace_config;
    use ferretto_protos::{EnableTracingRequest, EnableTracingResponse};

    use super::*;

    const PEER: Peer = Peer { uid: 1000, pid: 1, emulated: false };
    const SESSION: Token = Token(1);
    const TRACE: Token = Token(2);

    /// Keeps what it is sent.
    #[derive(Clone, Default)]
    struct Keeper {
        is_busy: Arc<AtomicBool>,
        replies: Arc<Mutex<Vec<Reply>>>,
    }

    impl Client for Keeper {
        fn send(&mut self, reply: Reply) {
            self.replies.lock().unwrap().push(reply);
        }

        fn wants_more(&self) -> bool {
            !self.is_busy.load(Ordering::Relaxed)
        }
    }

    impl Keeper {
        /// What came in answer to a call.
        fn take(&self, token: Token) -> Vec<Reply> {
            let mut replies = self.replies.lock().unwrap();
            let (taken, left) = replies.drain(..).partition(|reply| reply.token == token);
            *replies = left;
            taken
        }
    }

    fn enable(config: &str) -> ConsumerCall {
        let trace_config = Some(parse_trace_config(config).unwrap().into());
        ConsumerCall::EnableTracing(EnableTracingRequest { trace_config, ..Default::default() })
    }

    #[test]
    fn a_consumer_is_given_to_read_when_it_wants_more() {
        let (mut driver, keeper) = (Driver::new(), Keeper::default());
        let consumer = driver.connect_consumer(PEER, keeper.clone());
        driver.consumer_call(consumer, SESSION, enable("buffers { size_kb: 64 }"));
        driver.consumer_call(consumer, Token(0), ConsumerCall::DisableTracing(Default::default()));
        assert_eq!(keeper.take(SESSION).len(), 1);

        keeper.is_busy.store(true, Ordering::Relaxed);
        driver.consumer_call(consumer, TRACE, ConsumerCall::ReadBuffers(Default::default()));
        assert!(keeper.take(TRACE).is_empty());

        keeper.is_busy.store(false, Ordering::Relaxed);
        driver.resume();
        let read = keeper.take(TRACE);
        assert!(read.last().is_some_and(|last| !last.has_more), "{read:?}");
    }

    #[test]
    fn a_config_that_wants_a_file_is_refused() {
        let (mut driver, keeper) = (Driver::new(), Keeper::default());
        let consumer = driver.connect_consumer(PEER, keeper.clone());
        let config = r#"buffers { size_kb: 64 } write_into_file: true output_path: "/a/file""#;
        driver.consumer_call(consumer, SESSION, enable(config));
        let answer: EnableTracingResponse = keeper.take(SESSION).pop().unwrap().message().unwrap();
        assert!(answer.error().contains("/a/file"), "{answer:?}");
    }

    #[test]
    fn time_passes_for_sessions() {
        let (mut driver, keeper) = (Driver::new(), Keeper::default());
        assert_eq!(driver.timeout(), Duration::MAX);
        let consumer = driver.connect_consumer(PEER, keeper.clone());
        driver.consumer_call(consumer, SESSION, enable("buffers { size_kb: 64 } duration_ms: 1"));
        while keeper.take(SESSION).is_empty() {
            assert!(driver.timeout() <= Duration::from_secs(10));
            std::thread::sleep(driver.timeout());
            driver.handle_timeout();
        }
        driver.disconnect_consumer(consumer);
        assert_eq!(driver.timeout(), Duration::MAX);
    }
}
