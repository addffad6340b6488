//! Producers: how they come and go, and what they register.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::get_async_command_response::{self as command, Cmd};
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::{
    DataSourceDescriptor, GetAsyncCommandResponse, InitializeConnectionRequest, InitializeConnectionResponse,
};
use prost::Message;

use crate::calls::ProvidedMemory;
use crate::commit::Commit;
use crate::ids::{InstanceId, ProducerConn, ProducerId, SessionId, Token};
use crate::instance_set::{Instance, InstanceKey, InstanceState};
use crate::limits;
use crate::losses::has_all_writers;
use crate::now::Now;
use crate::output::Reply;
use crate::registry::{DataSource, MemorySizes, Producer, next_free_id};
use crate::scrape::ProducerScrape;
use crate::service::Service;
use crate::user_book::Whose;
use crate::work::{Budget, Job};

impl Service {
    pub(crate) fn initialize_connection(
        &mut self,
        from: ProducerConn,
        token: Token,
        request: &InitializeConnectionRequest,
        memory: ProvidedMemory,
    ) {
        let Some(id) = self.admit(from, &truncated(request.producer_name())) else {
            return self.reply_producer(from, Reply::rejected(token));
        };
        let Some(link) = self.links.get_mut(&from) else { return };
        let peer = link.peer;
        let machine = link.machine.clone();
        link.producer = Some(id);
        let bytes = |hint: u32| usize::try_from(hint).unwrap_or(usize::MAX);
        let hints = MemorySizes {
            size: bytes(request.shared_memory_size_hint_bytes()),
            page: bytes(request.shared_memory_page_size_hint_bytes()),
        };
        let memory = memory.filter(|_| request.producer_provided_shmem() && !peer.emulated);
        let brought = memory.clone();
        let memory = memory.and_then(|memory| self.adopt_memory(peer.uid, memory, hints.page));
        if memory.is_none() && brought.is_some() {
            // It may be large.
            self.environment.dispose(Box::new(brought));
        }
        if let Some(link) = self.links.get_mut(&from) {
            link.setup_tracing_pending = memory.is_some();
        }
        let response = InitializeConnectionResponse {
            using_shmem_provided_by_producer: Some(memory.is_some()),
            direct_smb_patching_supported: Some(true),
            use_shmem_emulation: Some(peer.emulated),
        };
        let producer = Producer {
            conn: from,
            peer,
            machine,
            name: truncated(request.producer_name()).into(),
            sdk_version: truncated(request.sdk_version()),
            // What is not said means no: the service's default (upstream: `SetSMBScrapingEnabled`).
            scraping: request.smb_scraping_mode() == ProducerSmbScrapingMode::SmbScrapingEnabled,
            hints,
            memory,
            emulated_page_size: None,
            data_sources: Vec::new(),
            sources_ignored: 0,
            allowed_buffers: Default::default(),
            writers: Default::default(),
            intake: Default::default(),
            commit: None,
        };
        tracing::debug!(%id, name = %producer.name, uid = peer.uid, pid = peer.pid, "producer connected");
        self.producers.insert(id, producer);
        self.totals.producers_seen = self.totals.producers_seen.saturating_add(1);
        self.answer_producer(from, token, &response);
        self.send_setup_tracing(from);
    }

    fn admit(&mut self, from: ProducerConn, name: &str) -> Option<ProducerId> {
        let link = self.links.get(&from)?;
        if link.producer.is_some() {
            return None;
        }
        let peer = link.peer;
        // Whoever is only said to be of this user does not count.
        if self.lockdown && (peer.uid != self.options.uid || peer.emulated) {
            self.refuse_producer(peer, name, "a session with lockdown_mode keeps other users out");
            return None;
        }
        let whose = Whose::of(peer, link.machine.as_ref());
        let is_his = |producer: &&Producer| Whose::of(producer.peer, producer.machine.as_ref()) == whose;
        let of_user = self.producers.values().filter(is_his).count();
        let free = next_free_id(self.last_producer, |id| self.producers.contains_key(&ProducerId(id)));
        let (true, Some(id)) = (of_user < limits::MAX_PRODUCERS_PER_UID, free) else {
            self.refuse_producer(peer, name, "too many programs are connected");
            return None;
        };
        self.last_producer = id;
        Some(ProducerId(id))
    }

    /// A second stream replaces the first (upstream: `GetAsyncCommand`).
    pub(crate) fn open_command_stream(&mut self, from: ProducerConn, token: Token) {
        let Some(link) = self.links.get_mut(&from) else { return };
        if link.producer.is_none() {
            return self.reply_producer(from, Reply::rejected(token));
        }
        if let Some(old) = link.commands.replace(token) {
            self.reply_producer(from, Reply::rejected(old));
        }
        self.send_setup_tracing(from);
    }

    /// Sends SetupTracing if it is due and the stream is there. Memory that the producer brought is only confirmed.
    pub(crate) fn send_setup_tracing(&mut self, conn: ProducerConn) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let (true, Some(token), Some(id)) = (link.setup_tracing_pending, link.commands, link.producer) else {
            return;
        };
        link.setup_tracing_pending = false;
        let Some(producer) = self.producers.get(&id) else { return };
        let own = producer.memory.as_ref().filter(|memory| !memory.is_provided);
        let page_size = own.map(|own| own.page_size).or(producer.emulated_page_size);
        let setup = command::SetupTracing {
            shared_buffer_page_size_kb: page_size.map(|size| u32::try_from(size / 1024).unwrap_or_default()),
            ..Default::default()
        };
        let message = GetAsyncCommandResponse { cmd: Some(Cmd::SetupTracing(setup)) };
        let reply = Reply { memory: own.map(|own| own.memory.clone()), ..Reply::more(token, &message) };
        self.reply_producer(conn, reply);
    }

    pub(crate) fn register_data_source(&mut self, id: ProducerId, raw: Bytes, now: &Now) {
        let Ok(descriptor) = DataSourceDescriptor::decode(raw.clone()) else { return };
        let name_bytes = descriptor.name().len();
        if !(1..=limits::MAX_SOURCE_NAME_BYTES).contains(&name_bytes)
            || raw.len() > limits::MAX_DESCRIPTOR_BYTES
        {
            tracing::warn!(producer = %id, name_bytes, bytes = raw.len(), "a data source without name, with a huge one or with a huge descriptor is ignored");
            return self.ignore_source(id);
        }
        let Some(producer) = self.producers.get(&id) else { return };
        if producer.data_sources.len() >= limits::MAX_DATA_SOURCES_PER_PRODUCER
            || !self.add_source_bytes(id, raw.len())
        {
            tracing::warn!(producer = %id, "too many data sources: {} is ignored", descriptor.name());
            return self.ignore_source(id);
        }
        self.last_source.0 += 1;
        let source = DataSource::new(self.last_source, &descriptor, &raw);
        if let Some(producer) = self.producers.get_mut(&id) {
            producer.data_sources.push(source.clone());
        }
        self.offers.entry(source.name.clone()).or_default().insert(id);
        self.sources.insert(source.serial, id);
        self.add_to_sessions(&source, now);
    }

    fn ignore_source(&mut self, id: ProducerId) {
        let Some(producer) = self.producers.get_mut(&id) else { return };
        producer.sources_ignored = producer.sources_ignored.saturating_add(1);
        self.totals.sources_ignored = self.totals.sources_ignored.saturating_add(1);
    }

    /// Replaces the descriptor of the same name and id (upstream: `UpdateDataSource`).
    pub(crate) fn update_data_source(&mut self, id: ProducerId, raw: Bytes) {
        let Ok(descriptor) = DataSourceDescriptor::decode(raw.clone()) else { return };
        let Some(producer) = self.producers.get(&id) else { return };
        let same = |source: &DataSource| *source.name == *descriptor.name() && source.id == descriptor.id();
        let Some(index) = producer.data_sources.iter().position(same) else { return };
        let before = producer.data_sources.get(index).map_or(0, |source| source.raw.len());
        self.remove_source_bytes(id, before);
        let fits = raw.len() <= limits::MAX_DESCRIPTOR_BYTES && self.add_source_bytes(id, raw.len());
        if !fits {
            // There was room for what it replaces.
            self.add_source_bytes(id, before);
            return;
        }
        if let Some(producer) = self.producers.get_mut(&id)
            && let Some(source) = producer.data_sources.get_mut(index)
        {
            *source = DataSource::new(source.serial, &descriptor, &raw);
        }
    }

    pub(crate) fn unregister_data_source(&mut self, id: ProducerId, name: &str, now: &Now) {
        let Some(producer) = self.producers.get_mut(&id) else { return };
        // One of them, as upstream does: a name may be registered several times.
        let Some(index) = producer.data_sources.iter().position(|source| *source.name == *name) else {
            return;
        };
        let source = producer.data_sources.remove(index);
        let is_last = !producer.offers(name);
        self.sources.remove(&source.serial);
        self.remove_source_bytes(id, source.raw.len());
        if is_last {
            self.withdraw(id, name);
        }
        let leaving = Leaving { of: Some((source.name, source.id)), ..self.leaving(id) };
        self.begin(Job::Leave(leaving), now);
    }

    /// A producer has no data source of that name any more.
    fn withdraw(&mut self, id: ProducerId, name: &str) {
        let Some(offering) = self.offers.get_mut(name) else { return };
        offering.remove(&id);
        if offering.is_empty() {
            self.offers.remove(name);
        }
    }

    pub(crate) fn register_trace_writer(&mut self, id: ProducerId, writer: u32, buffer: u32) {
        let (Ok(writer), Ok(buffer)) = (u16::try_from(writer), u16::try_from(buffer)) else { return };
        if writer == 0 || writer > limits::MAX_WRITER_ID {
            return;
        }
        let whose = self.whose(id);
        if let Some(producer) = self.producers.get_mut(&id) {
            let is_new = !producer.writers.contains_key(&writer);
            if is_new && !self.announced_writers.add(whose, 1) {
                return;
            }
            producer.writers.insert(writer, crate::BufferId(buffer));
            if is_new && has_all_writers(producer) {
                self.totals.producers_out_of_writers = self.totals.producers_out_of_writers.saturating_add(1);
            }
        }
    }

    pub(crate) fn unregister_trace_writer(&mut self, id: ProducerId, writer: u32) {
        let whose = self.whose(id);
        if let (Some(producer), Ok(writer)) = (self.producers.get_mut(&id), u16::try_from(writer))
            && producer.writers.remove(&writer).is_some()
        {
            self.announced_writers.remove(whose, 1);
        }
    }

    /// Scrapes what is left, then takes the producer out of all sessions.
    pub(crate) fn remove_producer(&mut self, id: ProducerId, now: &Now) {
        let Some(producer) = self.producers.get_mut(&id) else { return };
        let (sources, commit) = (std::mem::take(&mut producer.data_sources), producer.commit.take());
        // Sessions that begin meanwhile do without it.
        for source in &sources {
            self.withdraw(id, &source.name);
            self.sources.remove(&source.serial);
        }
        self.remove_all_source_bytes(id);
        let rest = Some(Rest { commit, scrape: ProducerScrape::of(id, None) });
        let leaving = Leaving { rest, ..self.leaving(id) };
        self.begin(Job::Leave(leaving), now);
    }

    fn leaving(&self, producer: ProducerId) -> Leaving {
        Leaving {
            producer,
            of: None,
            rest: None,
            up_to: InstanceId(self.last_instance),
            sessions: self.sessions.keys().copied().collect(),
            last: None,
            has_dropped: false,
        }
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_leaving(
        &mut self,
        mut leaving: Leaving,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<Leaving> {
        let id = leaving.producer;
        if let Some(rest) = &mut leaving.rest {
            if !self.take_rest(id, rest, budget, now) {
                return Some(leaving);
            }
            leaving.rest = None;
            leaving.sessions.iter().for_each(|session| self.note_unseen_end(*session, id));
        }
        while let Some(session) = leaving.sessions.front().copied() {
            if !self.drop_instances(session, &mut leaving, budget) {
                return Some(leaving);
            }
            if std::mem::take(&mut leaving.has_dropped) {
                self.after_instance_change(session, now);
            }
            if leaving.of.is_none() {
                self.forget_in_flushes(session, id, now);
            }
            leaving.last = None;
            leaving.sessions.pop_front();
        }
        if leaving.of.is_none() {
            let whose = self.whose(id);
            if let Some(producer) = self.producers.remove(&id) {
                self.announced_writers.remove(whose, producer.writers.len());
                if let Some(memory) = &producer.memory {
                    self.shared_memory.remove(memory.payer, memory.memory.len());
                }
                self.sessions.values_mut().for_each(|session| session.sequences.note_gone(id));
                // To give back a producer's memory takes as long as the producer made it large.
                self.environment.dispose(Box::new(producer));
            }
            tracing::debug!(%id, "producer disconnected");
        }
        None
    }

    /// What a producer that is gone has asked for last, and what it still holds. Says whether that was all.
    fn take_rest(&mut self, id: ProducerId, rest: &mut Rest, budget: &mut Budget, now: &Now) -> bool {
        if let Some(commit) = &mut rest.commit {
            if !self.step_of_commit(id, commit, budget, now) {
                return false;
            }
            rest.commit = None;
        }
        self.go_on_scraping(&mut rest.scrape, budget)
    }

    /// Removes instances from a session that goes on without them. Says whether that was all.
    fn drop_instances(&mut self, session_id: SessionId, leaving: &mut Leaving, budget: &mut Budget) -> bool {
        let Leaving { producer: id, of, up_to, last, has_dropped, .. } = leaving;
        while let Some(session) = self.sessions.get_mut(&session_id) {
            let after = last.unwrap_or((*id, InstanceId(0)));
            let next = session.instances.next(Some(after)).map(Instance::key);
            let Some(key) = next.filter(|key| key.0 == *id && key.1 <= *up_to) else { break };
            if budget.is_spent() {
                return false;
            }
            budget.spend(1);
            *last = Some(key);
            let is_of =
                |instance: &Instance| of.as_ref().is_none_or(|(name, source)| instance.is_of(name, *source));
            if !session.instances.get(key).is_some_and(is_of) {
                continue;
            }
            let Some(instance) = session.instances.remove(key) else { continue };
            *has_dropped = true;
            let is_unregistered = of.is_some();
            self.note_dropped(session_id, &instance, is_unregistered);
        }
        true
    }

    fn note_dropped(&mut self, session_id: SessionId, instance: &Instance, is_unregistered: bool) {
        // Of the data sources of a session that is over nobody hears any more.
        let is_over = self.sessions.get(&session_id).is_none_or(|session| !session.is_active());
        if is_over || instance.state == InstanceState::Stopped {
            return;
        }
        let Instance { producer_name, source_name, .. } = instance;
        self.observe_instance(session_id, producer_name, source_name, InstanceState::Stopped);
        // One that is stopping was told so.
        if is_unregistered && instance.state != InstanceState::Stopping {
            let stop = command::StopDataSource { instance_id: Some(instance.id.0) };
            self.command(instance.producer, Cmd::StopDataSource(stop));
        }
    }
}

/// A producer that leaves all sessions, or a data source of it; and how far that is. Until it is at its end a producer that is gone is
/// known: flushes wait for what is taken of its memory.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) producer: ProducerId,
    /// A data source, by name and the descriptor's id; all if there is none.
    of: Option<(Arc<str>, u64)>,
    /// What is to be taken before.
    rest: Option<Rest>,
    /// Of instances up to this one: others are of a data source that has come since.
    up_to: InstanceId,
    /// The first is under way.
    sessions: VecDeque<SessionId>,
    /// The last instance that was looked at in it.
    last: Option<InstanceKey>,
    has_dropped: bool,
}

/// What a producer leaves behind.
#[derive(Debug)]
struct Rest {
    commit: Option<Commit>,
    scrape: ProducerScrape,
}

/// As much of a name as is kept.
pub(crate) fn truncated(text: &str) -> String {
    let mut end = text.len().min(limits::MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
