//! A producer's connection to the service: made, kept, lost and made again.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_ipc::log;
use ferretto_protos::DataSourceDescriptor;
use ferretto_protos::fields::{
    activate_triggers_request, notify_data_source_started_request, notify_data_source_stopped_request,
    unregister_data_source_request,
};
use ferretto_protozero::control::{ControlError, Writer};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::arbiter::Arbiter;
use crate::backoff::{Backoff, SocketWatch};
use crate::connection::{Connection, ConnectionLost, own_arbiter};
use crate::endpoint::{Attempt, Endpoint};
use crate::error::{ProducerError, StartupMemoryError};
use crate::event::{InstanceId, ProducerEvent};
use crate::instances::{DataSource, Instances};
use crate::options::ProducerOptions;
use crate::policy::ExhaustedPolicy;
use crate::startup::{StartupEnd, StartupWriters};
use crate::wake::Waker;
use crate::writer::TraceWriter;

/// A producer: registers data sources and says what the service wants of them.
///
/// Used by one thread, which alternates between [`wait`](Self::wait) and [`next_event`](Self::next_event); [`TraceWriter`]s may be used
/// by others. It never blocks but in `wait` and [`drain`](Self::drain), and connects again for as long as it lives.
#[derive(Debug)]
pub struct ProducerClient {
    options: ProducerOptions,
    endpoint: Endpoint,
    instances: Instances,
    waker: Arc<Waker>,
    backoff: Backoff,
    state: State,
    /// Memory for startup tracing that no connection has used yet.
    startup_arbiter: Option<Arc<Arbiter>>,
    /// Groups of writers that wait for a session, or have, and until when.
    startups: Vec<(StartupWriters, Instant)>,
}

#[derive(Debug)]
enum State {
    /// No service. `retry_at` is `None` when there is no way to connect again.
    Waiting {
        retry_at: Option<Instant>,
        watch: Option<SocketWatch>,
    },
    Connected(Box<Connection>),
}

impl ProducerClient {
    /// A producer that is not connected yet: the first [`wait`](Self::wait) connects.
    pub fn new(mut options: ProducerOptions) -> Result<Self, ProducerError> {
        let endpoint = Endpoint::new(std::mem::take(&mut options.connector))?;
        let waker = Waker::new().map_err(ProducerError::Wake)?;
        Ok(Self {
            options,
            endpoint,
            instances: Instances::default(),
            waker: Arc::new(waker),
            backoff: Backoff::new(),
            state: State::Waiting { retry_at: Some(Instant::now()), watch: None },
            startup_arbiter: None,
            startups: Vec::new(),
        })
    }

    /// Writers for a session that is still to come, which give up after `timeout` if no session adopts what they wrote. Before the first
    /// connection, so that the service can be offered memory that they have written to already; later only if this process
    /// [allocates](crate::SharedMemorySource::Producer) it anyway, or there is memory because a session was there.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ferretto_producer::{ProducerClient, ProducerOptions};
    /// use ferretto_protos::fields::trace_packet;
    ///
    /// let mut client = ProducerClient::new(ProducerOptions::new("org.example"))?;
    /// let startup = client.start_startup_writers(Duration::from_secs(10))?;
    /// let mut writer = startup.create_writer();
    /// writer.new_packet().varint(trace_packet::TIMESTAMP, 1);
    /// // Later, for `ProducerEvent::Start { config, .. }`: startup.adopt(config.target_buffer() as u16);
    /// # Ok::<(), ferretto_producer::ProducerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, if it is too late, or if there are too many such groups.
    pub fn start_startup_writers(&mut self, timeout: Duration) -> Result<StartupWriters, ProducerError> {
        let arbiter = match &self.state {
            State::Connected(connection) => {
                Arc::clone(connection.arbiter_to_be().ok_or(ProducerError::StartupTooLate)?)
            }
            State::Waiting { .. } => match &self.startup_arbiter {
                Some(arbiter) => Arc::clone(arbiter),
                None => {
                    let made = own_arbiter(&self.options, &self.waker);
                    let made = made
                        .map_err(|error| ProducerError::StartupMemory(StartupMemoryError(Box::new(error))))?;
                    Arc::clone(self.startup_arbiter.insert(made))
                }
            },
        };
        let writers = arbiter.add_group().ok_or(ProducerError::TooManyStartups)?;
        self.startups.push((writers.clone(), Instant::now() + timeout));
        Ok(writers)
    }

    /// What services call it.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Offers a data source to sessions, now and at every later connection. The same name again updates what is said about it.
    pub fn register_data_source(&mut self, descriptor: &DataSourceDescriptor) {
        // What was just encoded can be read.
        let _ = self.register_encoded_data_source(descriptor.encode_to_vec().into());
    }

    /// The same with a serialised `DataSourceDescriptor`, which may have fields that this build does not know.
    ///
    /// # Errors
    ///
    /// If these bytes are none.
    pub fn register_encoded_data_source(&mut self, descriptor: Bytes) -> Result<(), ControlError> {
        let source = DataSource::new(descriptor)?;
        let request = source.request();
        let method = if self.instances.register(source) { "RegisterDataSource" } else { "UpdateDataSource" };
        self.call(method, request);
        Ok(())
    }

    /// Takes a data source back. Instances that run stay until the service stops them.
    pub fn unregister_data_source(&mut self, name: &str) {
        if self.instances.unregister(name) {
            let mut request = Writer::new();
            request.text(unregister_data_source_request::DATA_SOURCE_NAME, name);
            self.call("UnregisterDataSource", request.into_bytes());
        }
    }

    /// Whether the service knows this producer at this moment.
    pub fn is_connected(&self) -> bool {
        matches!(&self.state, State::Connected(connection) if connection.is_ready())
    }

    /// Whether a service has taken the connection and does not know this producer yet: [`is_connected`](Self::is_connected) is about to
    /// follow, or the end of the connection.
    pub fn is_connecting(&self) -> bool {
        matches!(&self.state, State::Connected(connection) if !connection.is_ready())
    }

    /// The descriptors to poll, for callers with a poll loop of their own: whenever one is ready, or after [`next_timeout`](
    /// Self::next_timeout), call [`process`](Self::process). They change from turn to turn.
    pub fn poll_fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let (socket, watch) = match &self.state {
            State::Connected(connection) => (Some(connection.poll_fd()), None),
            State::Waiting { watch, .. } => {
                (None, watch.as_ref().map(|watch| (watch.as_fd(), PollFlags::IN)))
            }
        };
        [Some((self.waker.as_fd(), PollFlags::IN)), socket, watch].into_iter().flatten()
    }

    /// All descriptors that this client has open: what a child process after `fork()`, which has no use for them, is to close so that the
    /// service sees when the parent ends. They change from turn to turn.
    pub fn open_fds(&self) -> Vec<RawFd> {
        let mut fds = vec![self.waker.as_fd().as_raw_fd()];
        match &self.state {
            State::Connected(connection) => fds.extend_from_slice(&connection.open_fds()),
            State::Waiting { watch: Some(watch), .. } => fds.push(watch.as_fd().as_raw_fd()),
            State::Waiting { .. } => {}
        }
        fds
    }

    /// When [`process`](Self::process) is to be called though no descriptor is ready; `None` is never.
    pub fn next_timeout(&self) -> Option<Instant> {
        let own = match &self.state {
            _ if !self.instances.events.is_empty() => Some(Instant::now()),
            State::Waiting { retry_at, .. } => *retry_at,
            State::Connected(connection) => {
                connection.arbiter().and_then(|arbiter| arbiter.commit_deadline())
            }
        };
        let startup = self.startups.iter().map(|(_, deadline)| *deadline).min();
        own.into_iter().chain(startup).min()
    }

    /// Waits until something happens here or to one of the `extra` descriptors (readable), or the time is over; then does what there
    /// is to do. Says which of `extra` are ready. Take all events afterwards.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        extra: &[BorrowedFd<'_>],
    ) -> Result<Vec<bool>, ProducerError> {
        let own = self.next_timeout().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = match (timeout, own) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
        let mut fds = Vec::new();
        for fd in extra {
            fds.push(PollFd::from_borrowed_fd(*fd, PollFlags::IN));
        }
        for (fd, flags) in self.poll_fds() {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            // A signal is a reason for the caller to look around.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ProducerError::Poll(error.into())),
        }
        let ready = fds.iter().take(extra.len()).map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        self.process();
        Ok(ready)
    }

    /// Does what there is to do without waiting.
    pub fn process(&mut self) {
        self.waker.clear();
        if let State::Waiting { retry_at, watch } = &mut self.state {
            let appeared = watch.as_mut().is_some_and(SocketWatch::take_changes);
            let is_due = retry_at.is_some_and(|at| at <= Instant::now());
            if appeared {
                self.backoff.reset();
            }
            if appeared || is_due {
                self.connect();
            }
        }
        if let Err(reason) = self.drive() {
            self.disconnect(&reason);
        }
        let now = Instant::now();
        self.end_startups(StartupEnd::TimedOut, &|_, deadline| deadline <= now);
        if self.startups.is_empty() {
            // The connection keeps what it has offered.
            self.startup_arbiter = None;
        }
    }

    /// What happened next.
    pub fn next_event(&mut self) -> Option<ProducerEvent> {
        self.instances.events.pop_front()
    }

    /// Says that an instance writes.
    pub fn notify_started(&mut self, instance: InstanceId) {
        if self.instances.started(instance) {
            let mut request = Writer::new();
            request.integer(notify_data_source_started_request::DATA_SOURCE_ID, instance);
            self.call("NotifyDataSourceStarted", request.into_bytes());
        }
    }

    /// Says that an instance has written everything. What its writers have flushed is committed before.
    pub fn notify_stopped(&mut self, instance: InstanceId) {
        let acknowledge = self.instances.stopped(instance);
        self.commit();
        if acknowledge {
            let mut request = Writer::new();
            request.integer(notify_data_source_stopped_request::DATA_SOURCE_ID, instance);
            self.call("NotifyDataSourceStopped", request.into_bytes());
        }
    }

    /// Says that this flush, and all earlier ones, are done. What the writers have flushed is committed before.
    pub fn notify_flush_complete(&mut self, request_id: u64) {
        if let State::Connected(connection) = &self.state {
            connection.acknowledge_flush(request_id);
            let _ = connection.link().lock().flush();
        }
    }

    /// Tells the service that something happened for which sessions may wait. `false` if there is no service to tell.
    pub fn activate_triggers(&mut self, names: &[&str]) -> bool {
        let mut request = Writer::new();
        for name in names {
            request.text(activate_triggers_request::TRIGGER_NAMES, name);
        }
        self.call("ActivateTriggers", request.into_bytes())
    }

    /// Commits everything and asks for a [`ProducerEvent::Synced`] once that and all earlier calls have been served. `false` if there is
    /// no service.
    pub fn sync(&mut self) -> bool {
        self.commit();
        let Some(connection) = self.ready_connection() else {
            return false;
        };
        let asked = connection.sync();
        // An error ends the connection in the next turn.
        let _ = connection.link().lock().flush();
        asked
    }

    /// Commits everything and waits, at most for `timeout`, until the service has it: for the end of a process. Events that arrive
    /// meanwhile stay queued. `false` if the service did not answer.
    pub fn drain(&mut self, timeout: Duration) -> bool {
        if !self.sync() {
            return false;
        }
        let deadline = Instant::now() + timeout;
        let mut others = std::mem::take(&mut self.instances.events);
        let mut synced = false;
        while !synced && self.is_connected() && Instant::now() < deadline {
            if self.wait(Some(deadline.saturating_duration_since(Instant::now())), &[]).is_err() {
                break;
            }
            while let Some(event) = self.instances.events.pop_front() {
                match event {
                    ProducerEvent::Synced => synced = true,
                    event => others.push_back(event),
                }
            }
        }
        self.instances.events = others;
        synced
    }

    /// Commits everything, what is still being written too where the service cannot look for it itself, and waits, at most until then,
    /// until the connection has taken it: it reaches the service however this process ends. `false` if there is none, or it is stuck.
    pub fn hand_over(&mut self, deadline: Instant) -> bool {
        let Some(connection) = self.ready_connection() else {
            return false;
        };
        connection.hand_over(deadline)
    }

    /// A writer of a new sequence into this buffer of the service ([`DataSourceConfig::target_buffer`](
    /// ferretto_protos::DataSourceConfig)). Without a connection, or without a free writer id, it writes into the void.
    pub fn create_writer(&self, target_buffer: u16, policy: ExhaustedPolicy) -> TraceWriter {
        match self.arbiter() {
            Some(arbiter) => arbiter.create_writer(target_buffer, policy),
            None => TraceWriter::null(),
        }
    }

    /// Hands out writers on any thread, for as long as this connection lives. There is one once an instance was set up.
    pub fn arbiter(&self) -> Option<Arc<Arbiter>> {
        match &self.state {
            State::Connected(connection) => connection.arbiter().cloned(),
            State::Waiting { .. } => None,
        }
    }

    /// Wakes this client's [`wait`](Self::wait) from any thread.
    pub fn waker(&self) -> ProducerWaker {
        ProducerWaker { waker: Arc::clone(&self.waker) }
    }

    /// Sends all finished chunks now.
    pub fn commit(&mut self) {
        if let Some(arbiter) = self.arbiter() {
            arbiter.commit();
        }
    }

    fn ready_connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Connected(connection) if connection.is_ready() => Some(connection),
            _ => None,
        }
    }

    /// Makes a call that needs no answer; `false` if there is nobody to call.
    #[inline(never)]
    fn call(&mut self, method: &str, args: Vec<u8>) -> bool {
        let Some(connection) = self.ready_connection() else {
            return false;
        };
        let mut link = connection.link().lock();
        link.call(method, args);
        // An error ends the connection in the next turn.
        link.flush().is_ok()
    }

    /// Tries to connect once.
    #[inline(never)]
    fn connect(&mut self) {
        let attempt = self.endpoint.connect();
        let startup = self.startup_arbiter.clone();
        self.state = match attempt {
            Attempt::Connected(stream) => {
                match Connection::new(stream, &self.options, startup, &self.waker) {
                    Ok(connection) => State::Connected(Box::new(connection)),
                    Err(error) => {
                        log::warn(format_args!("cannot use the connection to the tracing service: {error}"));
                        self.waiting(None)
                    }
                }
            }
            Attempt::Failed(watch) => self.waiting(watch),
            Attempt::Busy => {
                self.backoff.note_busy();
                self.waiting(None)
            }
            Attempt::Nowhere => State::Waiting { retry_at: None, watch: None },
        };
    }

    #[inline(never)]
    fn waiting(&mut self, watch: Option<SocketWatch>) -> State {
        State::Waiting { retry_at: Some(Instant::now() + self.backoff.next_delay()), watch }
    }

    #[inline(never)]
    fn disconnect(&mut self, reason: &ConnectionLost) {
        let State::Connected(connection) = &self.state else {
            return;
        };
        log::debug(format_args!("disconnected from the tracing service: {reason}"));
        let is_ready = connection.is_ready();
        if let Some(arbiter) = connection.arbiter().cloned() {
            self.end_startups(StartupEnd::Disconnected, &|writers, _| {
                Arc::ptr_eq(&writers.arbiter, &arbiter)
            });
            self.startup_arbiter.take_if(|startup| Arc::ptr_eq(startup, &arbiter));
            arbiter.shut_down();
        }
        if is_ready {
            self.instances.disconnect(format!("{reason}"));
            self.backoff.reset();
        }
        self.state = match self.endpoint.watch() {
            Some(watch) => self.waiting(watch),
            None => State::Waiting { retry_at: None, watch: None },
        };
    }

    /// Gives the groups up to which this applies and which no session has adopted, and forgets the others of these.
    #[inline(never)]
    fn end_startups(&mut self, reason: StartupEnd, applies: &dyn Fn(&StartupWriters, Instant) -> bool) {
        let events = &mut self.instances.events;
        self.startups.retain(|(writers, deadline)| {
            if !applies(writers, *deadline) {
                return true;
            }
            if let Some(lost_chunks) = writers.arbiter.abort_group(writers.id, reason) {
                events.push_back(ProducerEvent::StartupEnded { id: writers.id, reason, lost_chunks });
            }
            false
        });
    }

    /// Receives, serves, commits, sends.
    fn drive(&mut self) -> Result<(), ConnectionLost> {
        let State::Connected(connection) = &mut self.state else {
            return Ok(());
        };
        // What was queued before goes out first: a new connection has its bind there.
        connection.link().lock().flush()?;
        connection.receive(&self.options, &mut self.instances)?;
        if connection.take_refusal() {
            self.startup_arbiter = None;
            self.end_startups(StartupEnd::MemoryRefused, &|writers, _| !writers.arbiter.is_attached());
        }
        let State::Connected(connection) = &mut self.state else {
            return Ok(());
        };
        if let Some(arbiter) = connection.arbiter() {
            arbiter.commit_if_due(Instant::now());
        }
        connection.link().lock().flush()?;
        if connection.link().is_overrun() { Err(ConnectionLost::Overrun) } else { Ok(()) }
    }
}

/// Ends the waiting of a [`ProducerClient`] from any thread.
#[derive(Debug, Clone)]
pub struct ProducerWaker {
    waker: Arc<Waker>,
}

impl ProducerWaker {
    /// Makes the current or the next [`wait`](ProducerClient::wait) return at once.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

impl Drop for ProducerClient {
    fn drop(&mut self) {
        for (writers, _) in &self.startups {
            writers.abort();
        }
        if let Some(arbiter) = self.arbiter() {
            arbiter.commit();
            arbiter.shut_down();
        }
        // Writers of other threads may hold the socket for as long as they live.
        if let State::Connected(connection) = &self.state {
            connection.link().lock().link().stream().shutdown();
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_ipc::address::Address;

    use super::*;
    use crate::options::Connector;

    #[test]
    fn without_a_service_memory_for_startup_tracing_is_given_back() {
        let mut options = ProducerOptions::new("test");
        options.connector = Connector::Address(Address::Abstract(b"ferretto-nobody-is-here".to_vec()));
        let mut client = ProducerClient::new(options).unwrap();
        let startup = client.start_startup_writers(Duration::from_millis(50)).unwrap();
        let arbiter = Arc::downgrade(&startup.arbiter);
        let mut writer = startup.create_writer();
        let deadline = Instant::now() + Duration::from_secs(30);
        while startup.is_waiting() && Instant::now() < deadline {
            writer.new_packet().bytes(1, &[0; 2000]);
            client.wait(None, &[]).unwrap();
        }
        assert!(matches!(client.next_event(), Some(ProducerEvent::StartupEnded { .. })));
        assert!(client.startup_arbiter.is_none() && client.startups.is_empty());
        drop((startup, writer));
        assert!(arbiter.upgrade().is_none());
    }
}
