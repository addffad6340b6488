//! Data source instances: where configured data sources meet registered ones.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::fields::data_source_config as field;
use ferretto_protos::get_async_command_response::{self as command, Cmd};
use ferretto_protozero::Message;

use crate::config::{DataSourceSpec, SessionConfig};
use crate::ids::{BufferId, InstanceId, ProducerId, SessionId};
use crate::instance_set::{Instance, InstanceKey, InstanceState};
use crate::limits;
use crate::now::Now;
use crate::protovms::{NoVm, ProtoVms, Taken, Wanted};
use crate::registry::{DataSource, Producer, SourceSerial};
use crate::service::Service;
use crate::session::{Session, State};
use crate::strangers::without_stall;
use crate::user_book::Whose;
use crate::work::{Budget, Job};

/// Setting up what a session wants of what is registered, and how far that is: by the config's data sources, and for each by producer
/// and data source.
#[derive(Debug)]
pub(crate) struct SetUp {
    pub(crate) session: SessionId,
    /// The config's data source that is looked at.
    index: usize,
    /// All up to this one have been looked at for it.
    after: (ProducerId, SourceSerial),
    /// What came later has joined by itself.
    before: SourceSerial,
    /// Some are there already, from before a filter was widened.
    skips_known: bool,
    /// The session had started before: each is started as it is set up. Otherwise all are set up before the first is started.
    is_started: bool,
}

/// What was registered since a session began: it joins, in the order in which it came.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) session: SessionId,
    /// The registered data source that is looked at.
    source: SourceSerial,
    /// How many of the config's data sources of its name have been looked at for it.
    looked_at: usize,
}

/// What it costs to look at a data source, to tell a producer something and to copy so many bytes, in [`Budget`]'s units.
const INSTANCE_COST: usize = 2;
const BYTES_PER_COST: usize = 2048;
/// Bytes of a ProtoVM's program that are parsed for one unit, if all its instructions are as short as can be.
const PARSED_BYTES_PER_COST: usize = 64;

/// After the last data source of a producer.
const LAST_SERIAL: SourceSerial = SourceSerial(u64::MAX);

impl Service {
    /// Sets up everything that is registered and wanted by a new session.
    pub(crate) fn set_up_all(&mut self, session: SessionId, now: &Now) {
        self.begin_set_up(session, false, now);
    }

    /// Widened filters of a config let more producers in (upstream: `ChangeTraceConfig`).
    pub(crate) fn add_newly_matching(&mut self, session: SessionId, now: &Now) {
        self.begin_set_up(session, true, now);
    }

    fn begin_set_up(&mut self, session: SessionId, skips_known: bool, now: &Now) {
        let after = (ProducerId(0), SourceSerial(0));
        let Some(found) = self.sessions.get_mut(&session) else { return };
        found.is_setting_up = true;
        let is_started = found.state == State::Started;
        let set_up = SetUp { session, index: 0, after, before: self.last_source, skips_known, is_started };
        self.begin(Job::SetUp(set_up), now);
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_set_up(
        &mut self,
        mut set_up: SetUp,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<SetUp> {
        let session_id = set_up.session;
        while let Some(session) = self.sessions.get(&session_id).filter(|session| session.is_joinable()) {
            let Some(spec) = session.config.data_sources.get(set_up.index) else {
                self.finish_set_up(&set_up, now);
                return None;
            };
            if budget.is_spent() {
                return Some(set_up);
            }
            match self.next_offer(spec, set_up.after, budget) {
                Ok(Some((id, source))) => {
                    set_up.after = (id, source.serial);
                    self.take_offer(&set_up, id, &source, budget);
                }
                Ok(None) => {
                    set_up.index += 1;
                    set_up.after = (ProducerId(0), SourceSerial(0));
                }
                Err(looked_at) => set_up.after = looked_at,
            }
        }
        None
    }

    /// The next data source of a name after this one, from a producer that matches. The error says how far it looked before its budget was
    /// spent.
    fn next_offer(
        &self,
        spec: &DataSourceSpec,
        after: (ProducerId, SourceSerial),
        budget: &mut Budget,
    ) -> Result<Option<(ProducerId, DataSource)>, (ProducerId, SourceSerial)> {
        let Some(offering) = self.offers.get(&*spec.name) else { return Ok(None) };
        for id in offering.range(after.0..) {
            let serial = if *id == after.0 { after.1 } else { SourceSerial(0) };
            if serial == LAST_SERIAL {
                continue;
            }
            let Some(producer) = self.producers.get(id) else { continue };
            let goes_on = budget.spend(spec.producers.cost(&producer.name));
            if self.matches(spec, producer)
                && let Some(source) = producer.next_source(&spec.name, serial)
            {
                return Ok(Some((*id, source.clone())));
            }
            if !goes_on {
                return Err((*id, LAST_SERIAL));
            }
        }
        Ok(None)
    }

    fn take_offer(&mut self, set_up: &SetUp, id: ProducerId, source: &DataSource, budget: &mut Budget) {
        let SetUp { session: session_id, index, skips_known, .. } = *set_up;
        if source.serial > set_up.before || skips_known && self.has_instance(session_id, source) {
            budget.spend(INSTANCE_COST);
            return;
        }
        if let Some(key) = self.set_up_instance(session_id, index, id, source, budget)
            && set_up.is_started
        {
            self.start_instance(session_id, key);
        }
    }

    fn finish_set_up(&mut self, set_up: &SetUp, now: &Now) {
        let Some(session) = self.sessions.get_mut(&set_up.session) else { return };
        session.is_setting_up = false;
        if session.state == State::Started && !set_up.is_started {
            return self.begin(Job::Start { session: set_up.session, after: None }, now);
        }
        self.after_instance_change(set_up.session, now);
    }

    fn matches(&self, spec: &DataSourceSpec, producer: &Producer) -> bool {
        let machine = producer.machine.as_ref();
        let machine_name = machine.map_or(&self.options.machine_name, |machine| &machine.name);
        spec.producers.matches(&producer.name) && spec.machines.matches(machine_name, machine.is_none())
    }

    /// A data source that comes late joins the sessions that want it.
    pub(crate) fn add_to_sessions(&mut self, source: &DataSource, now: &Now) {
        let wants = |session: &&Session| session.is_joinable() && session.wanted.contains_key(&source.name);
        let sessions: Vec<SessionId> =
            self.sessions.values().filter(wants).map(|session| session.id).collect();
        // All of them in one step, if that is enough.
        let mut budget = self.budget();
        for session_id in sessions {
            let Some(session) = self.sessions.get_mut(&session_id) else { continue };
            // What is being joined already gets to this one too.
            if std::mem::replace(&mut session.is_being_joined, true) {
                continue;
            }
            let join = Join { session: session_id, source: source.serial, looked_at: 0 };
            if let Some(join) = self.step_of_join(join, &mut budget, now) {
                let job = Job::Join(join);
                self.work.push(self.user_of_job(&job), job);
            }
        }
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_join(&mut self, mut join: Join, budget: &mut Budget, now: &Now) -> Option<Join> {
        while self.sessions.get(&join.session).is_some_and(Session::is_joinable) {
            if !self.join_with(&mut join, budget) {
                return Some(join);
            }
            let later = (Bound::Excluded(join.source), Bound::Unbounded);
            let Some((next, _)) = self.sources.range(later).next() else {
                self.finish_join(join.session, now);
                return None;
            };
            (join.source, join.looked_at) = (*next, 0);
            if !budget.spend(1) {
                return Some(join);
            }
        }
        None
    }

    /// Goes on with one registered data source, unless it is gone. Says whether that is done.
    fn join_with(&mut self, join: &mut Join, budget: &mut Budget) -> bool {
        let Some(id) = self.sources.get(&join.source).copied() else { return true };
        let Some(producer) = self.producers.get(&id) else { return true };
        let Some(source) = producer.source(join.source).cloned() else { return true };
        loop {
            let Some(session) = self.sessions.get(&join.session) else { return true };
            let Some(producer) = self.producers.get(&id) else { return true };
            let indexes = session.wanted.get(&source.name).map_or(&[][..], Vec::as_slice);
            let Some(index) = indexes.get(join.looked_at).copied() else { return true };
            let Some(spec) = session.config.data_sources.get(index) else { return true };
            if budget.is_spent() {
                return false;
            }
            join.looked_at += 1;
            budget.spend(spec.producers.cost(&producer.name));
            let is_started = session.state == State::Started;
            if self.matches(spec, producer)
                && let Some(key) = self.set_up_instance(join.session, index, id, &source, budget)
                && is_started
            {
                self.start_instance(join.session, key);
            }
        }
    }

    fn finish_join(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.is_being_joined = false;
        if session.state == State::Started {
            self.after_instance_change(session_id, now);
        }
    }

    fn has_instance(&self, session_id: SessionId, source: &DataSource) -> bool {
        self.sessions.get(&session_id).is_some_and(|session| session.instances.count_of(source.serial) > 0)
    }

    fn has_room_for_instance(&self, session: &Session, producer: &Producer) -> bool {
        let of_owner = || self.sessions.values().filter(|other| other.owner_uid == session.owner_uid);
        if session.instances.len() >= limits::MAX_INSTANCES_PER_SESSION
            || of_owner().map(|other| other.instances.len()).sum::<usize>() >= limits::MAX_INSTANCES_PER_UID
        {
            return false;
        }
        let is_his_own = !producer.peer.emulated && producer.peer.is_user(session.owner_uid);
        if is_his_own || !producer.peer.emulated && self.is_privileged(producer.peer.uid) {
            return true;
        }
        // Names are free: whoever registers many must not keep others' programs out.
        let whose = Whose::of(producer.peer, producer.machine.as_ref());
        let of_his_in_all = of_owner().map(|other| other.instances.count_of_user(whose)).sum::<usize>();
        session.instances.count_of_user(whose) < limits::MAX_INSTANCES_OF_ONES_IN_A_SESSION
            && of_his_in_all < limits::MAX_INSTANCES_OF_ONES_PER_UID
    }

    fn set_up_instance(
        &mut self,
        session_id: SessionId,
        index: usize,
        id: ProducerId,
        source: &DataSource,
        budget: &mut Budget,
    ) -> Option<InstanceKey> {
        budget.spend(INSTANCE_COST);
        let producer = self.producers.get(&id)?;
        let (producer_name, whose) =
            (producer.name.clone(), Whose::of(producer.peer, producer.machine.as_ref()));
        let (is_strangers, has_room) = {
            let (session, producer) = (self.sessions.get(&session_id)?, self.producers.get(&id)?);
            let has_places = self.leaves_places(session, producer, source.serial);
            (self.is_stranger(session, producer), has_places && self.has_room_for_instance(session, producer))
        };
        let session = self.sessions.get_mut(&session_id)?;
        if !has_room {
            if session.losses.sources_left_out == 0 {
                tracing::warn!(session = %session_id, "too many data source instances: {} of {producer_name} is left out, and what comes after it", source.name);
            }
            session.losses.sources_left_out += 1;
            return None;
        }
        let buffer = *session.buffers.get(session.config.data_sources.get(index)?.buffer)?;
        let config = session.instance_configs.get(index)?.get(is_strangers).clone();
        budget.spend(config.len() / BYTES_PER_COST);
        self.set_up_protovm(session_id, index, id, source, budget);
        self.take_up_machine(session_id, id);
        self.ensure_memory(session_id, id);
        self.producers.get_mut(&id)?.allowed_buffers.insert(session_id, buffer);
        self.last_instance += 1;
        let instance = InstanceId(self.last_instance);
        let session = self.sessions.get_mut(&session_id)?;
        session.losses.note_source(&source.name, id);
        session.instances.insert(Instance {
            id: instance,
            producer: id,
            whose,
            producer_name,
            source_name: source.name.clone(),
            source: source.serial,
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
        Some((id, instance))
    }

    /// Runs the data source's program on what the buffer overwrites, if the session wants that.
    fn set_up_protovm(
        &mut self,
        session_id: SessionId,
        index: usize,
        id: ProducerId,
        source: &DataSource,
        budget: &mut Budget,
    ) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let Some(spec) = session.config.data_sources.get(index) else { return };
        let Some(buffer_id) = session.buffers.get(spec.buffer).copied() else { return };
        let Some(memory_limit_kb) = spec.protovm_memory_kb else { return };
        let Some(program) = &source.program else {
            return self.leave_protovm_out(buffer_id, id, source, NoVm::NoProgram);
        };
        let wanted = Wanted { source_name: &source.name, program, memory_limit_kb };
        let producer = ferretto_trace_buffer::ProducerId(id.0);
        budget.spend(program.len() / BYTES_PER_COST);
        if self.buffers.get_mut(&buffer_id).is_some_and(|buffer| buffer.vms.join(&wanted, producer)) {
            return;
        }
        if let Err(why) = self.make_protovm(session_id, buffer_id, &wanted, producer, budget) {
            self.leave_protovm_out(buffer_id, id, source, why);
        }
    }

    fn make_protovm(
        &mut self,
        session_id: SessionId,
        buffer_id: BufferId,
        wanted: &Wanted<'_>,
        producer: ferretto_trace_buffer::ProducerId,
        budget: &mut Budget,
    ) -> Result<(), NoVm> {
        let Some(session) = self.sessions.get(&session_id) else { return Ok(()) };
        let vms = session.buffers.iter().filter_map(|id| self.buffers.get(id)).map(|buffer| &buffer.vms);
        let account = vms.clone().find(|vms| !vms.is_empty()).map(ProtoVms::account);
        let taken = vms.map(ProtoVms::taken).fold(Taken::default(), Taken::and);
        // One that was too large before is not parsed anew for each that wants it.
        taken.has_room_for(wanted, wanted.program.known_memory_bytes().unwrap_or(0))?;
        budget.spend(wanted.program.bytes_to_parse() / PARSED_BYTES_PER_COST);
        let program = wanted.program.parse()?;
        taken.has_room_for(wanted, wanted.program.known_memory_bytes().unwrap_or(0))?;
        if let Some(buffer) = self.buffers.get_mut(&buffer_id) {
            buffer.vms.add(wanted, program, producer, account);
        }
        Ok(())
    }

    /// Says so once for a buffer: there may be thousands.
    fn leave_protovm_out(&mut self, buffer: BufferId, id: ProducerId, source: &DataSource, why: NoVm) {
        if self.buffers.get_mut(&buffer).is_some_and(|buffer| buffer.vms.note_left_out()) {
            tracing::warn!(producer = %id, data_source = %source.name, %buffer, "protovm_config has no effect: {why}; others of this buffer are not named");
        }
    }

    /// Starts all instances that are set up, from the one after this on; the last one that was looked at is given back if there is more to do.
    pub(crate) fn start_instances(
        &mut self,
        session_id: SessionId,
        mut after: Option<InstanceKey>,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<InstanceKey> {
        while let Some(session) = self.sessions.get(&session_id).filter(|found| found.state == State::Started)
        {
            let Some(next) = session.instances.next(after) else {
                self.after_instance_change(session_id, now);
                return None;
            };
            if budget.is_spent() {
                return after;
            }
            let (key, state, cost) =
                (next.key(), next.state, INSTANCE_COST + next.config.len() / BYTES_PER_COST);
            after = Some(key);
            if state == InstanceState::Configured {
                self.start_instance(session_id, key);
                budget.spend(cost);
            }
        }
        None
    }

    /// Starts an instance that is set up.
    fn start_instance(&mut self, session_id: SessionId, key: InstanceKey) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(found) = session.instances.get(key) else { return };
        let (producer_name, source_name) = (found.producer_name.clone(), found.source_name.clone());
        let config = Some(found.config.clone());
        let state = match found.will_notify_on_start {
            true => InstanceState::Starting,
            false => InstanceState::Started,
        };
        session.instances.set_state(key, state);
        let start = command::StartDataSource { new_instance_id: Some(key.1.0), config };
        self.command(key.0, Cmd::StartDataSource(start));
        if state == InstanceState::Started {
            self.observe_instance(session_id, &producer_name, &source_name, state);
        }
    }
}

/// Where the config's data sources of each name stand in it.
pub(crate) fn indexes_by_name(session: &Session) -> HashMap<Arc<str>, Vec<usize>> {
    let mut indexes: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
    for (index, spec) in session.config.data_sources.iter().enumerate() {
        indexes.entry(spec.name.clone()).or_default().push(index);
    }
    indexes
}

/// What the instances of a data source get. All share it.
#[derive(Debug)]
pub(crate) struct InstanceConfig {
    config: Bytes,
    /// If it is another one.
    for_strangers: Option<Bytes>,
}

impl InstanceConfig {
    fn get(&self, is_strangers: bool) -> &Bytes {
        self.for_strangers.as_ref().filter(|_| is_strangers).unwrap_or(&self.config)
    }
}

/// The configs that instances get, by the config's data sources.
pub(crate) fn instance_configs(session: &Session) -> Vec<InstanceConfig> {
    let config_of = |spec: &DataSourceSpec| {
        let buffer = session.buffers.get(spec.buffer).copied().unwrap_or(BufferId(0));
        let config = instance_config(spec, &session.config, session.id, buffer);
        InstanceConfig { for_strangers: without_stall(spec, &config), config }
    };
    session.config.data_sources.iter().map(config_of).collect()
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
