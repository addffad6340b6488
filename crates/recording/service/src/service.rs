//! The state machine: its inputs, its outputs, and the order to call them in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;

use crate::buffers::Buffer;
use crate::calls::{ConsumerCall, ProducerCall, ProvidedMemory};
use crate::clone_steps::Asked;
use crate::commands::Backlog;
use crate::enable::GuardedStart;
use crate::environment::{Environment, ServiceOptions};
use crate::file_output::WriteMemory;
use crate::file_turns::FileTurns;
use crate::ids::{BufferId, ConsumerConn, FileHandle, ProducerConn, ProducerId, SessionId, Token};
use crate::limits;
use crate::losses::RefusedProducers;
use crate::machines::Relay;
use crate::memory::SharedMemoryByUser;
use crate::now::{Deadline, Now};
use crate::output::{Output, Reply};
use crate::pace::Pace;
use crate::patience::Patience;
use crate::registry::{Consumer, Peer, Producer, ProducerLink, SourceSerial};
use crate::scheduling::Boost;
use crate::session::{Session, State};
use crate::source_bytes::SourceBytes;
use crate::triggers::{CalledOut, TriggerHistory};
use crate::user_book::UserBook;
use crate::work_queue::WorkQueue;

/// The tracing service, without sockets, files, clocks or threads.
///
/// A driver repeats, on one thread:
///
/// 1. It reads the clocks into a [`Now`] and hands in what happened, in the order in which it happened:
///    [`handle_producer_connected`](Self::handle_producer_connected), [`handle_producer_call`](Self::handle_producer_call),
///    [`handle_producer_disconnected`](Self::handle_producer_disconnected), the same three for consumers,
///    and [`handle_timeout`](Self::handle_timeout) when [`next_timeout_ns`](Self::next_timeout_ns) is over (earlier does no harm).
/// 2. It does what [`poll_output`](Self::poll_output) says until that gives `None`.
/// 3. While [`poll_file_write`](Self::poll_file_write) gives bytes it writes them and tells
///    [`handle_file_written`](Self::handle_file_written), and goes back to 2.
/// 4. For each consumer whose connection can take more it sends what [`poll_read`](Self::poll_read) gives: read-back is made as fast as it
///    is taken, never faster. For each producer that [commits more](Self::is_committing) than fits into a step it calls
///    [`continue_commit`](Self::continue_commit), in its turn. Then it waits, at most for [`next_timeout_ns`](Self::next_timeout_ns), and if it likes leaves out producers
///    for as long as [`poll_rest_ns`](Self::poll_rest_ns) says.
///
/// No input from outside stops it: what is wrong is answered with a rejection, or dropped and counted.
pub struct Service {
    pub(crate) environment: Box<dyn Environment>,
    pub(crate) options: ServiceOptions,
    pub(crate) links: BTreeMap<ProducerConn, ProducerLink>,
    pub(crate) producers: BTreeMap<ProducerId, Producer>,
    pub(crate) relays: BTreeMap<ProducerConn, Relay>,
    pub(crate) consumers: BTreeMap<ConsumerConn, Consumer>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) buffers: BTreeMap<BufferId, Buffer>,
    /// Who may have something to be told of what they observe.
    pub(crate) have_news: BTreeSet<ConsumerConn>,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) last_producer: u16,
    pub(crate) last_buffer: u16,
    pub(crate) last_session: u64,
    /// Of the sessions with so many instances that they take turns.
    last_long_turn: SessionId,
    /// When the flush of such a session was answered last.
    pub(crate) long_flushed_ns: Option<u64>,
    /// When a clone began last, and what those cost that began then.
    pub(crate) cloned_at_once: (u64, usize),
    pub(crate) last_instance: u64,
    pub(crate) last_source: SourceSerial,
    /// Who has data sources of which name.
    pub(crate) offers: BTreeMap<Arc<str>, BTreeSet<ProducerId>>,
    /// All that is registered, in the order in which it came.
    pub(crate) sources: BTreeMap<SourceSerial, ProducerId>,
    pub(crate) work: WorkQueue,
    pub(crate) last_flush: u64,
    pub(crate) lockdown: bool,
    /// How its thread is scheduled now.
    pub(crate) boost: Option<Boost>,
    pub(crate) totals: Totals,
    pub(crate) refused_producers: RefusedProducers,
    /// When sessions with guardrails last started, by name, on the boot clock in nanoseconds.
    pub(crate) last_starts: VecDeque<GuardedStart>,
    pub(crate) trigger_history: TriggerHistory,
    /// Triggers that are being looked at, by who called them out.
    pub(crate) called_out: BTreeMap<ProducerId, CalledOut>,
    pub(crate) pace: Pace,
    /// A chunk on its way from shared memory to a buffer; kept for its capacity.
    pub(crate) chunk: Vec<u8>,
    /// Memory for the next reply to a consumer that reads, if replies before it were sent.
    pub(crate) reply: BytesMut,
    /// Memory for the next write to a file.
    pub(crate) write_memory: WriteMemory,
    pub(crate) file_turns: FileTurns,
    /// For how long users' files wait for others of theirs.
    pub(crate) patience: Patience,
    /// Nobody needs these files but clones that copy them: at most one for each session that there can be.
    pub(crate) close_when_copied: Vec<FileHandle>,
    pub(crate) source_bytes: SourceBytes,
    pub(crate) announced_writers: UserBook,
    pub(crate) shared_memory: SharedMemoryByUser,
}

/// Counters since the service began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) producers_seen: u32,
    pub(crate) chunks_discarded: u64,
    pub(crate) patches_discarded: u64,
    pub(crate) producers_refused: u64,
    /// Data sources that were not registered.
    pub(crate) sources_ignored: u64,
    pub(crate) producers_out_of_writers: u64,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("producers", &self.producers.len())
            .field("consumers", &self.consumers.len())
            .field("sessions", &self.sessions.len())
            .field("buffers", &self.buffers.len())
            .finish_non_exhaustive()
    }
}

impl Service {
    /// A service that knows nobody yet.
    pub fn new(options: ServiceOptions, environment: Box<dyn Environment>) -> Self {
        Self {
            environment,
            options,
            links: BTreeMap::new(),
            producers: BTreeMap::new(),
            relays: BTreeMap::new(),
            consumers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            buffers: BTreeMap::new(),
            have_news: BTreeSet::new(),
            outputs: VecDeque::new(),
            last_producer: 0,
            last_buffer: 0,
            last_session: 0,
            last_long_turn: SessionId(0),
            long_flushed_ns: None,
            cloned_at_once: (0, 0),
            last_instance: 0,
            last_source: SourceSerial(0),
            offers: BTreeMap::new(),
            sources: BTreeMap::new(),
            work: WorkQueue::default(),
            last_flush: 0,
            lockdown: false,
            boost: None,
            totals: Totals::default(),
            refused_producers: RefusedProducers::default(),
            last_starts: VecDeque::new(),
            trigger_history: TriggerHistory::default(),
            called_out: BTreeMap::new(),
            pace: Pace::default(),
            chunk: Vec::new(),
            reply: BytesMut::new(),
            write_memory: WriteMemory::default(),
            file_turns: FileTurns::default(),
            patience: Patience::default(),
            close_when_copied: Vec::new(),
            source_bytes: SourceBytes::default(),
            announced_writers: UserBook::new(limits::MAX_ANNOUNCED_WRITERS_PER_UID),
            shared_memory: SharedMemoryByUser::default(),
        }
    }

    /// A connection was made on the producer side.
    pub fn handle_producer_connected(&mut self, conn: ProducerConn, peer: Peer) {
        let link = ProducerLink {
            peer,
            machine: None,
            producer: None,
            commands: None,
            backlog: Backlog::default(),
            misses_commands: false,
            setup_tracing_pending: false,
        };
        self.links.insert(conn, link);
    }

    /// A producer calls a method. `memory` is what came with a call that [takes some](ProducerCall::takes_memory).
    pub fn handle_producer_call(
        &mut self,
        from: ProducerConn,
        token: Token,
        call: ProducerCall,
        memory: ProvidedMemory,
        now: &Now,
    ) {
        tracing::trace!(%from, method = call.method(), "producer call");
        self.note_call(&call);
        if let ProducerCall::InitializeConnection(request) = &call {
            return self.initialize_connection(from, token, request, memory);
        }
        if let ProducerCall::GetAsyncCommand(_) = &call {
            return self.open_command_stream(from, token);
        }
        // Before InitializeConnection nothing else is served (upstream: producer_ipc_service.cc).
        let Some(producer) = self.links.get(&from).and_then(|link| link.producer) else {
            return self.reply_producer(from, Reply::rejected(token));
        };
        // Of a driver that does not wait for it.
        while self.is_committing(from) {
            self.continue_commit(from, now);
        }
        match call {
            ProducerCall::InitializeConnection(_) | ProducerCall::GetAsyncCommand(_) => {}
            ProducerCall::RegisterDataSource(request) => {
                self.register_data_source(producer, request.data_source_descriptor.unwrap_or_default(), now);
                self.answer_producer(from, token, &ferretto_protos::RegisterDataSourceResponse::default());
            }
            ProducerCall::UpdateDataSource(request) => {
                self.update_data_source(producer, request.data_source_descriptor.unwrap_or_default());
                self.answer_producer(from, token, &ferretto_protos::UpdateDataSourceResponse::default());
            }
            ProducerCall::UnregisterDataSource(request) => {
                self.unregister_data_source(producer, request.data_source_name(), now);
                self.answer_producer(from, token, &ferretto_protos::UnregisterDataSourceResponse::default());
            }
            ProducerCall::CommitData(request) => {
                self.commit_data(from, producer, token, request, now);
            }
            ProducerCall::RegisterTraceWriter(request) => {
                self.register_trace_writer(producer, request.trace_writer_id(), request.target_buffer());
                self.answer_producer(from, token, &ferretto_protos::RegisterTraceWriterResponse::default());
            }
            ProducerCall::UnregisterTraceWriter(request) => {
                self.unregister_trace_writer(producer, request.trace_writer_id());
                self.answer_producer(from, token, &ferretto_protos::UnregisterTraceWriterResponse::default());
            }
            ProducerCall::NotifyDataSourceStarted(request) => {
                self.data_source_started(producer, crate::InstanceId(request.data_source_id()), now);
                self.answer_producer(
                    from,
                    token,
                    &ferretto_protos::NotifyDataSourceStartedResponse::default(),
                );
            }
            ProducerCall::NotifyDataSourceStopped(request) => {
                self.data_source_stopped(producer, crate::InstanceId(request.data_source_id()), now);
                self.answer_producer(
                    from,
                    token,
                    &ferretto_protos::NotifyDataSourceStoppedResponse::default(),
                );
            }
            ProducerCall::ActivateTriggers(request) => {
                self.activate_triggers(producer, &request.trigger_names, now);
                self.answer_producer(from, token, &ferretto_protos::ActivateTriggersResponse::default());
            }
            ProducerCall::Sync(_) => {
                self.answer_producer(from, token, &ferretto_protos::SyncResponse::default())
            }
        }
        self.flush_observed_events();
    }

    /// A producer is gone. What it has committed stays; what its memory still holds is scraped.
    pub fn handle_producer_disconnected(&mut self, conn: ProducerConn, now: &Now) {
        let Some(link) = self.links.remove(&conn) else { return };
        if link.backlog.is_large() {
            self.environment.dispose(Box::new(link.backlog));
        }
        self.relays.remove(&conn);
        if let Some(producer) = link.producer {
            self.remove_producer(producer, now);
        }
        self.flush_observed_events();
    }

    /// A connection was made on the consumer side.
    pub fn handle_consumer_connected(&mut self, conn: ConsumerConn, peer: Peer) {
        self.consumers.insert(conn, Consumer::new(peer));
    }

    /// A consumer calls a method. `file` is what came with a call that [takes one](ConsumerCall::takes_file): the service says
    /// [`Output::CloseFile`] when it needs it no longer, in any case.
    pub fn handle_consumer_call(
        &mut self,
        from: ConsumerConn,
        token: Token,
        call: ConsumerCall,
        file: Option<FileHandle>,
        now: &Now,
    ) {
        tracing::trace!(%from, method = call.method(), "consumer call");
        if !self.consumers.contains_key(&from) {
            self.close_files(file);
            return;
        }
        match call {
            ConsumerCall::EnableTracing(request) => {
                self.handle_enable_tracing(from, token, request, file, now)
            }
            ConsumerCall::DisableTracing(_) => {
                if let Some(session) = self.session_of(from) {
                    self.disable_tracing(session, false, now);
                }
                self.answer_consumer(from, token, &ferretto_protos::DisableTracingResponse::default());
            }
            ConsumerCall::ReadBuffers(_) => self.start_reading(from, token),
            ConsumerCall::FreeBuffers(_) => {
                self.free_session_of(from, now);
                self.answer_consumer(from, token, &ferretto_protos::FreeBuffersResponse::default());
            }
            ConsumerCall::Flush(request) => self.handle_flush(from, token, &request, now),
            ConsumerCall::StartTracing(_) => {
                if let Some(session) = self.session_of(from) {
                    self.start_tracing(session, now);
                }
                self.answer_consumer(from, token, &ferretto_protos::StartTracingResponse::default());
            }
            ConsumerCall::ChangeTraceConfig(request) => {
                self.change_trace_config(from, request.trace_config.unwrap_or_default(), now);
                self.answer_consumer(from, token, &ferretto_protos::ChangeTraceConfigResponse::default());
            }
            ConsumerCall::Detach(request) => self.detach(from, token, request.key()),
            ConsumerCall::Attach(request) => self.attach(from, token, request.key()),
            ConsumerCall::GetTraceStats(_) => self.handle_get_trace_stats(from, token),
            ConsumerCall::ObserveEvents(request) => self.observe_events(from, token, &request, now),
            ConsumerCall::QueryServiceState(request) => {
                self.query_service_state(from, token, request.sessions_only())
            }
            ConsumerCall::QueryCapabilities(_) => self.query_capabilities(from, token),
            ConsumerCall::SaveTraceForBugreport(_) => self.refuse_save_for_bugreport(from, token),
            ConsumerCall::CloneSession(request) => {
                self.clone_session(Asked { from, token, request: Box::new(request), file }, now);
            }
        }
        self.flush_observed_events();
    }

    /// A consumer is gone: its session ends and is erased, unless it was detached.
    pub fn handle_consumer_disconnected(&mut self, conn: ConsumerConn, now: &Now) {
        self.free_session_of(conn, now);
        self.consumers.remove(&conn);
        self.forget_clones_for(conn);
        self.stop_cloning_for(conn, now);
        self.abandon_copies_for(conn, now);
        self.flush_observed_events();
    }

    /// Some time is over. Does what has become due.
    pub fn handle_timeout(&mut self, now: &Now) {
        self.do_some_work(now);
        for session in self.sessions_in_turn(now) {
            self.expire_flushes(session, now);
            self.expire_stop(session, now);
            self.expire_timers(session, now);
        }
        self.flush_observed_events();
    }

    /// All but those for whom something is due and who have so many instances that it takes milliseconds: of these one, and the others in
    /// the next turns.
    fn sessions_in_turn(&mut self, now: &Now) -> Vec<SessionId> {
        let takes_long = |session: &Session| {
            session.instances.len() > limits::MANY_INSTANCES
                && session_deadlines(session).any(|deadline| now.is_over(deadline))
        };
        let (long, mut in_turn): (Vec<_>, Vec<_>) =
            self.sessions.values().partition(|session| takes_long(session));
        let after_last = long.iter().find(|session| session.id > self.last_long_turn);
        if let Some(next) = after_last.or(long.first()) {
            self.last_long_turn = next.id;
            in_turn.push(next);
        }
        in_turn.iter().map(|session| session.id).collect()
    }

    /// Nanoseconds until [`handle_timeout`](Self::handle_timeout) has something to do; `None` if nothing waits for time.
    pub fn next_timeout_ns(&self, now: &Now) -> Option<u64> {
        if self.has_work() {
            return Some(0);
        }
        let deadlines = self.sessions.values().flat_map(session_deadlines);
        let deadlines = deadlines.map(|deadline| now.ns_until(deadline));
        deadlines.chain(self.patience.ends_in_ns(now.clocks.monotonic)).min()
    }

    /// The next time on the boot clock at which [`handle_timeout`](Self::handle_timeout) has something to do, even if the machine sleeps
    /// until shortly before: what waits for [`next_timeout_ns`](Self::next_timeout_ns) by another clock would come late.
    pub fn next_boottime_deadline_ns(&self) -> Option<u64> {
        let deadlines = self.sessions.values().flat_map(session_deadlines);
        let with_suspend = deadlines.filter_map(|deadline| match deadline {
            Deadline::WithSuspend(at) => Some(at),
            Deadline::Running(_) => None,
        });
        with_suspend.min()
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() && self.outputs.capacity() > 1024 {
            self.outputs = VecDeque::new();
        }
        output
    }

    /// How many sessions there are: a driver that only serves while somebody traces may stop at 0.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn session_of(&self, consumer: ConsumerConn) -> Option<SessionId> {
        self.consumers.get(&consumer).and_then(|consumer| consumer.session)
    }

    pub(crate) fn reply_producer(&mut self, to: ProducerConn, reply: Reply) {
        self.outputs.push_back(Output::ToProducer(to, reply));
    }

    pub(crate) fn answer_producer(&mut self, to: ProducerConn, token: Token, message: &impl prost::Message) {
        self.reply_producer(to, Reply::last(token, message));
    }

    pub(crate) fn reply_consumer(&mut self, to: ConsumerConn, reply: Reply) {
        self.outputs.push_back(Output::ToConsumer(to, reply));
    }

    pub(crate) fn answer_consumer(&mut self, to: ConsumerConn, token: Token, message: &impl prost::Message) {
        self.reply_consumer(to, Reply::last(token, message));
    }

    pub(crate) fn close_files(&mut self, files: impl IntoIterator<Item = FileHandle>) {
        for file in files {
            match self.is_copied(file) {
                true => self.close_when_copied.push(file),
                false => self.outputs.push_back(Output::CloseFile(file)),
            }
        }
    }
}

fn session_deadlines(session: &Session) -> impl Iterator<Item = Deadline> {
    let stop = match session.state {
        State::Stopping { deadline } => Some(deadline),
        _ => None,
    };
    let flushes = session.flushes.values().map(|flush| flush.deadline);
    let file = session.file.as_ref().and_then(|file| file.next_write);
    session.timers.all().chain(stop).chain(flushes).chain(file).chain(session.triggers.deadlines())
}
