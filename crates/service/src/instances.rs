//! Data source instances: where configured data sources meet registered ones.

use bytes::Bytes;
use ferretto_protos::fields::data_source_config as field;
use ferretto_protos::get_async_command_response::{self as command, Cmd};
use ferretto_protozero::Message;

use crate::config::{DataSourceSpec, SessionConfig};
use crate::ids::{BufferId, InstanceId, ProducerId, SessionId};
use crate::limits;
use crate::now::Now;
use crate::protovms::Wanted;
use crate::registry::{DataSource, Producer};
use crate::service::Service;
use crate::session::{Instance, InstanceState, State};

impl Service {
    /// Sets up everything that is registered and wanted by a new session.
    pub(crate) fn set_up_all(&mut self, session_id: SessionId) {
        let wanted = self.sessions.get(&session_id).map_or(0, |session| session.config.data_sources.len());
        for index in 0..wanted {
            for (producer, source) in self.registered_for(session_id, index) {
                self.set_up_instance(session_id, index, producer, &source);
            }
        }
    }

    fn registered_for(&self, session_id: SessionId, index: usize) -> Vec<(ProducerId, DataSource)> {
        let Some(spec) =
            self.sessions.get(&session_id).and_then(|session| session.config.data_sources.get(index))
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (id, producer) in &self.producers {
            if self.matches(spec, producer) {
                let named = producer.data_sources.iter().filter(|source| source.name == spec.name);
                found.extend(named.map(|source| (*id, source.clone())));
            }
        }
        found
    }

    fn matches(&self, spec: &DataSourceSpec, producer: &Producer) -> bool {
        let machine = producer.machine.as_ref();
        let machine_name = machine.map_or(&self.options.machine_name, |machine| &machine.name);
        spec.producers.matches(&producer.name) && spec.machines.matches(machine_name, machine.is_none())
    }

    /// A data source that comes late joins the sessions that want it.
    pub(crate) fn add_to_sessions(&mut self, id: ProducerId, source: &DataSource, now: &Now) {
        let sessions = self.sessions.values().filter(|session| session.is_joinable());
        for session_id in sessions.map(|session| session.id).collect::<Vec<_>>() {
            self.add_to_session(session_id, id, source, now);
        }
    }

    fn add_to_session(&mut self, session_id: SessionId, id: ProducerId, source: &DataSource, now: &Now) {
        let Some(producer) = self.producers.get(&id) else { return };
        let Some(session) = self.sessions.get(&session_id) else { return };
        let is_started = session.state == State::Started;
        let specs = session.config.data_sources.iter().enumerate();
        let wanted = specs.filter(|(_, spec)| spec.name == source.name && self.matches(spec, producer));
        for index in wanted.map(|(index, _)| index).collect::<Vec<_>>() {
            if let Some(instance) = self.set_up_instance(session_id, index, id, source)
                && is_started
            {
                self.start_instance(session_id, instance);
            }
        }
        if is_started {
            self.after_instance_change(session_id, now);
        }
    }

    /// Widened filters of a config let more producers in (upstream: `ChangeTraceConfig`).
    pub(crate) fn add_newly_matching(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let is_started = session.state == State::Started;
        for index in 0..session.config.data_sources.len() {
            for (producer, source) in self.registered_for(session_id, index) {
                if self.has_instance(session_id, producer, &source) {
                    continue;
                }
                let added = self.set_up_instance(session_id, index, producer, &source);
                if let (Some(instance), true) = (added, is_started) {
                    self.start_instance(session_id, instance);
                }
            }
        }
        self.after_instance_change(session_id, now);
    }

    fn has_instance(&self, session_id: SessionId, producer: ProducerId, source: &DataSource) -> bool {
        let same = |instance: &Instance| {
            instance.producer == producer
                && instance.source_name == source.name
                && instance.source_id == source.id
        };
        self.sessions.get(&session_id).is_some_and(|session| session.instances.iter().any(same))
    }

    fn set_up_instance(
        &mut self,
        session_id: SessionId,
        index: usize,
        id: ProducerId,
        source: &DataSource,
    ) -> Option<InstanceId> {
        let producer_name = self.producers.get(&id)?.name.clone();
        let session = self.sessions.get_mut(&session_id)?;
        if session.instances.len() >= limits::MAX_INSTANCES_PER_SESSION {
            tracing::warn!(session = %session_id, "too many data source instances: {} of {producer_name} is left out", source.name);
            session.losses.sources_left_out += 1;
            return None;
        }
        let spec = session.config.data_sources.get(index)?;
        let buffer = *session.buffers.get(spec.buffer)?;
        let config = instance_config(spec, &session.config, session_id, buffer);
        self.set_up_protovm(session_id, index, id, source);
        self.take_up_machine(session_id, id);
        self.ensure_memory(session_id, id);
        self.producers.get_mut(&id)?.allowed_buffers.insert(buffer);
        self.last_instance += 1;
        let instance = InstanceId(self.last_instance);
        let session = self.sessions.get_mut(&session_id)?;
        session.losses.sources.entry(source.name.clone()).or_default().insert(id);
        session.instances.push(Instance {
            id: instance,
            producer: id,
            producer_name,
            source_name: source.name.clone(),
            source_id: source.id,
            state: InstanceState::Configured,
            config: config.clone(),
            will_notify_on_start: source.will_notify_on_start,
            will_notify_on_stop: source.will_notify_on_stop,
            handles_clear: source.handles_clear,
            no_flush: source.no_flush,
        });
        let setup = command::SetupDataSource { new_instance_id: Some(instance.0), config: Some(config) };
        self.command(id, Cmd::SetupDataSource(setup));
        Some(instance)
    }

    /// Runs the data source's program on what the buffer overwrites, if the session wants that.
    fn set_up_protovm(&mut self, session_id: SessionId, index: usize, id: ProducerId, source: &DataSource) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let Some(spec) = session.config.data_sources.get(index) else { return };
        let Some(buffer_id) = session.buffers.get(spec.buffer) else { return };
        let (program, memory_limit_kb) = match (&source.program, spec.protovm_memory_kb) {
            (Some(program), Some(memory_limit_kb)) => (program, memory_limit_kb),
            (None, Some(_)) => {
                tracing::warn!(producer = %id, data_source = source.name, "protovm_config has no effect: the producer brings no program");
                let buffer = self.buffers.get_mut(buffer_id);
                return buffer.into_iter().for_each(|buffer| buffer.vms.note_left_out());
            }
            (_, None) => return,
        };
        let wanted = Wanted { source_name: &source.name, program, memory_limit_kb };
        let producer = ferretto_trace_buffer::ProducerId(id.0);
        if self.buffers.get_mut(buffer_id).is_some_and(|buffer| buffer.vms.join(&wanted, producer)) {
            return;
        }
        let vms = session.buffers.iter().filter_map(|id| self.buffers.get(id)).map(|buffer| &buffer.vms);
        let (count, memory_kb) =
            vms.fold((0, 0), |(count, kb), vms| (count + vms.len(), kb + vms.memory_limit_kb()));
        if count >= limits::MAX_PROTOVMS_PER_SESSION
            || memory_kb + u64::from(memory_limit_kb) > limits::MAX_PROTOVM_MEMORY_KB.into()
        {
            tracing::warn!(producer = %id, data_source = source.name, "too many ProtoVMs, or too large: this one is left out");
            let buffer = self.buffers.get_mut(buffer_id);
            return buffer.into_iter().for_each(|buffer| buffer.vms.note_left_out());
        }
        let Some(buffer) = self.buffers.get_mut(buffer_id) else { return };
        if let Err(error) = buffer.vms.add(&wanted, producer) {
            tracing::warn!(producer = %id, data_source = source.name, "a ProtoVM is left out: {error}");
            buffer.vms.note_left_out();
        }
    }

    /// Starts an instance that is set up.
    pub(crate) fn start_instance(&mut self, session_id: SessionId, instance: InstanceId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(found) = session.instances.iter_mut().find(|found| found.id == instance) else { return };
        found.state = match found.will_notify_on_start {
            true => InstanceState::Starting,
            false => InstanceState::Started,
        };
        let producer = found.producer;
        let is_started = found.state == InstanceState::Started;
        let names = (found.producer_name.clone(), found.source_name.clone());
        let start = command::StartDataSource {
            new_instance_id: Some(instance.0),
            config: Some(found.config.clone()),
        };
        self.command(producer, Cmd::StartDataSource(start));
        if is_started {
            self.observe_instance(session_id, &names.0, &names.1, InstanceState::Started);
        }
    }
}

/// The consumer's bytes, then what the service sets: of a field that occurs twice the last one counts.
fn instance_config(
    spec: &DataSourceSpec,
    config: &SessionConfig,
    session: SessionId,
    buffer: BufferId,
) -> Bytes {
    let mut raw = spec.raw.to_vec();
    let mut message = Message::new(&mut raw);
    message.varint(field::TARGET_BUFFER, buffer.0.into());
    message.varint(field::TRACE_DURATION_MS, config.duration_ms.into());
    message.varint(field::TRACING_SESSION_ID, session.0);
    message.bool(field::ENABLE_EXTRA_GUARDRAILS, config.claims.guardrails);
    message.varint(field::STOP_TIMEOUT_MS, config.stop_timeout_ms.into());
    // Unspecified: only Android knows trusted initiators.
    message.varint(field::SESSION_INITIATOR, 0);
    if config.duration_with_suspend {
        message.bool(field::PREFER_SUSPEND_CLOCK_FOR_DURATION, true);
    }
    if spec.claims_tracing_v2 {
        // The second transport was not negotiated; data of a producer that believed otherwise would be lost.
        message.bool(field::SUPPORTS_TRACING_V2, false);
    }
    drop(message);
    raw.into()
}
