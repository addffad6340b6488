//! Producers: how they come and go, and what they register.

use bytes::Bytes;
use ferretto_protos::get_async_command_response::{self as command, Cmd};
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::{
    DataSourceDescriptor, GetAsyncCommandResponse, InitializeConnectionRequest, InitializeConnectionResponse,
};
use prost::Message;

use crate::calls::ProvidedMemory;
use crate::ids::{ProducerConn, ProducerId, SessionId, Token};
use crate::instance_set::{Instance, InstanceKey, InstanceState};
use crate::limits;
use crate::losses::has_all_writers;
use crate::memory::adopt;
use crate::now::Now;
use crate::output::Reply;
use crate::registry::{DataSource, MemorySizes, Producer, next_free_id};
use crate::service::Service;

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
        let memory = memory.and_then(|memory| adopt(memory, hints.page));
        if memory.is_none() && brought.is_some() {
            // It may be large.
            self.environment.dispose(Box::new(brought));
        }
        link.setup_tracing_pending = memory.is_some();
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
        let of_uid = self.producers.values().filter(|producer| producer.peer.uid == peer.uid).count();
        let free = next_free_id(self.last_producer, |id| self.producers.contains_key(&ProducerId(id)));
        let (true, Some(id)) = (of_uid < limits::MAX_PRODUCERS_PER_UID, free) else {
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

    /// Sends a command. Without a stream it is lost: the producer did not want it (upstream logs an error).
    pub(crate) fn command(&mut self, producer: ProducerId, cmd: Cmd) {
        let Some(conn) = self.producers.get(&producer).map(|producer| producer.conn) else { return };
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let Some(token) = link.commands {
            let reply = Reply::more(token, &GetAsyncCommandResponse { cmd: Some(cmd) });
            self.reply_producer(conn, reply);
        } else if !std::mem::replace(&mut link.misses_commands, true) {
            // Once: there may be thousands.
            tracing::warn!(%producer, "a producer without GetAsyncCommand misses commands");
        }
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
        // A copy: the bytes given are part of a whole received frame.
        self.last_source.0 += 1;
        let source = DataSource::new(self.last_source, &descriptor, Bytes::copy_from_slice(&raw));
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
            *source = DataSource::new(source.serial, &descriptor, Bytes::copy_from_slice(&raw));
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
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.drop_instances(session, id, Some((name, source.id)), now);
        }
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
        let user = self.user_of(id);
        if let Some(producer) = self.producers.get_mut(&id) {
            let is_new = !producer.writers.contains_key(&writer);
            if is_new && !self.announced_writers.add(user) {
                return;
            }
            producer.writers.insert(writer, crate::BufferId(buffer));
            if is_new && has_all_writers(producer) {
                self.totals.producers_out_of_writers = self.totals.producers_out_of_writers.saturating_add(1);
            }
        }
    }

    pub(crate) fn unregister_trace_writer(&mut self, id: ProducerId, writer: u32) {
        let user = self.user_of(id);
        if let (Some(producer), Ok(writer)) = (self.producers.get_mut(&id), u16::try_from(writer))
            && producer.writers.remove(&writer).is_some()
        {
            self.announced_writers.remove(user, 1);
        }
    }

    /// Scrapes what is left, then takes the producer out of all sessions.
    pub(crate) fn remove_producer(&mut self, id: ProducerId, now: &Now) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in &sessions {
            self.scrape_producer(*session, id);
            self.note_unseen_end(*session, id);
        }
        for session in sessions {
            self.drop_instances(session, id, None, now);
            self.forget_in_flushes(session, id, now);
        }
        self.remove_all_source_bytes(id);
        let user = self.user_of(id);
        if let Some(producer) = self.producers.remove(&id) {
            for source in &producer.data_sources {
                self.withdraw(id, &source.name);
                self.sources.remove(&source.serial);
            }
            self.announced_writers.remove(user, producer.writers.len());
            // To give back a producer's memory takes as long as the producer made it large.
            self.environment.dispose(Box::new((producer.memory, producer.writers)));
        }
        tracing::debug!(%id, "producer disconnected");
    }

    /// Removes instances of a producer (of one data source or all) from a session that went on without them.
    fn drop_instances(&mut self, session_id: SessionId, id: ProducerId, of: Option<(&str, u64)>, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let concerned = |instance: &&Instance| of.is_none_or(|(name, source)| instance.is_of(name, source));
        let keys: Vec<InstanceKey> =
            session.instances.of_producer(id).filter(concerned).map(Instance::key).collect();
        if keys.is_empty() {
            return;
        }
        let dropped: Vec<Instance> =
            keys.into_iter().filter_map(|key| session.instances.remove(key)).collect();
        for instance in dropped.iter().filter(|instance| instance.state != InstanceState::Stopped) {
            self.observe_instance(
                session_id,
                &instance.producer_name,
                &instance.source_name,
                InstanceState::Stopped,
            );
            // One that is stopping was told so.
            if of.is_some() && instance.state != InstanceState::Stopping {
                let stop = command::StopDataSource { instance_id: Some(instance.id.0) };
                self.command(id, Cmd::StopDataSource(stop));
            }
        }
        self.after_instance_change(session_id, now);
    }
}

/// As much of a name as is kept.
pub(crate) fn truncated(text: &str) -> String {
    let mut end = text.len().min(limits::MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
