//! What follows from what producers call and what they are told.

use super::*;
use crate::producer::Habits;

impl Model {
    pub(crate) fn producer_connects(&mut self, conn: ProducerConn, peer: Peer, name: &str, habits: Habits) {
        let Habits { machine, is_hostile, scrapes, .. } = habits;
        self.people.pids.insert(peer.uid, peer.pid);
        self.people.machines.insert(peer.uid, machine);
        if is_hostile {
            self.people.hostile.insert(peer.uid);
        }
        if scrapes {
            self.people.scraped.insert(peer.uid);
        }
        let producer = Producer {
            uid: peer.uid,
            machine,
            pid: peer.pid,
            name: name.to_owned(),
            is_initialized: false,
            sources: Vec::new(),
        };
        self.producers.insert(conn, producer);
    }

    /// A call is about to be served.
    pub(crate) fn producer_calls(&mut self, conn: ProducerConn, call: &ProducerCall, fate: &mut Fate) {
        let Some(producer) = self.producers.get_mut(&conn).filter(|producer| producer.is_initialized) else {
            return;
        };
        match call {
            ProducerCall::RegisterDataSource(request) => {
                let raw = request.data_source_descriptor.clone().unwrap_or_default();
                let descriptor =
                    protos::DataSourceDescriptor::decode(raw).expect("descriptors are well-formed");
                producer.sources.push((descriptor.name().to_owned(), descriptor.will_notify_on_stop()));
            }
            ProducerCall::UnregisterDataSource(request) => {
                let name = request.data_source_name();
                if let Some(index) = producer.sources.iter().position(|(source, _)| source == name) {
                    producer.sources.remove(index);
                    if self.drop_instances(conn, Some(name)) {
                        fate.saw("unregistered while recording");
                    }
                }
            }
            ProducerCall::ActivateTriggers(request) => {
                fate.saw("trigger called out");
                for session in self.sessions.values_mut() {
                    let trigger = session.plan.as_ref().and_then(|plan| plan.trigger.as_ref());
                    let is_it =
                        trigger.is_some_and(|it| request.trigger_names.iter().any(|name| name == it.name));
                    // The service may have done with one that is over but for its file.
                    session.was_triggered |= is_it && session.state != State::Freed;
                    session.was_triggered_in_time |= is_it && session.promised.is_none();
                }
            }
            ProducerCall::NotifyDataSourceStopped(request) => {
                let id = request.data_source_id();
                if let Some(instance) = self.instances.get(&id).filter(|instance| instance.producer == conn)
                    && let Some(session) = self.sessions.get_mut(&instance.session)
                    && session.stop_waits.remove(&id)
                {
                    fate.saw("stop acknowledged");
                }
            }
            ProducerCall::CommitData(request) if request.flush_request_id() != 0 => {
                let up_to = request.flush_request_id();
                let concerned = self
                    .waiting
                    .iter_mut()
                    .filter(|waiting| waiting.request_id.is_some_and(|id| id <= up_to));
                for waiting in concerned {
                    waiting.producers.remove(&conn);
                }
            }
            _ => {}
        }
    }

    /// Whether there were any.
    fn drop_instances(&mut self, conn: ProducerConn, source: Option<&str>) -> bool {
        let sessions = &mut self.sessions;
        let before = self.instances.len();
        self.instances.retain(|id, instance| {
            let goes = instance.producer == conn && source.is_none_or(|source| instance.source == source);
            if goes && let Some(session) = sessions.get_mut(&instance.session) {
                session.stop_waits.remove(id);
            }
            !goes
        });
        self.instances.len() < before
    }

    /// So many packets of a stream are in the service's hands.
    pub(crate) fn service_has(&mut self, stream: Stream, count: u64) {
        let known = self.ledger.entry(stream).or_default();
        *known = (*known).max(count);
    }

    /// What a producer that vanishes still holds is taken in steps. A clone of a session that is over does not wait for them; one of a
    /// session that goes on scrapes by itself.
    fn scraped_at_leave(&mut self, stream: Stream, count: u64) {
        let is_over = |session: &Session| session.serial == stream.session && session.state == State::Ended;
        match self.sessions.values().any(is_over) {
            true => self.being_scraped.push((stream, count)),
            false => self.service_has(stream, count),
        }
    }

    pub(super) fn note_scraped(&mut self) {
        if !self.is_working {
            std::mem::take(&mut self.being_scraped)
                .into_iter()
                .for_each(|(stream, count)| self.service_has(stream, count));
        }
    }

    pub(crate) fn producer_has_called(&mut self) {
        self.check();
    }

    /// A producer is about to vanish; the service must find these packets in its memory.
    pub(crate) fn producer_vanishes(
        &mut self,
        conn: ProducerConn,
        scrapable: Vec<(Stream, u64)>,
        fate: &mut Fate,
    ) {
        for (stream, count) in scrapable {
            let takes_part = self.instances.contains_key(&stream.instance);
            // The scrape at the end of its session, which is done in steps, may have looked at its memory before it wrote this.
            let is_stopping = |session: &Session| session.serial == stream.session && session.is_stopping;
            let was_scraped = self.is_working && self.sessions.values().any(is_stopping);
            if takes_part && !was_scraped && count > self.ledger.get(&stream).copied().unwrap_or(0) {
                fate.saw("uncommitted chunks are scraped");
                self.scraped_at_leave(stream, count);
            }
        }
        self.drop_instances(conn, None);
        self.producers.remove(&conn);
        for waiting in &mut self.waiting {
            waiting.producers.remove(&conn);
        }
    }

    pub(crate) fn producer_has_vanished(&mut self) {
        self.check();
    }

    /// The service answers a producer.
    pub(crate) fn producer_is_told(
        &mut self,
        conn: ProducerConn,
        method: &'static str,
        reply: &Reply,
        fate: &mut Fate,
    ) {
        let Some(producer) = self.producers.get_mut(&conn) else { return };
        match (method, &reply.body) {
            ("InitializeConnection", Some(_)) => {
                assert!(!producer.is_initialized, "a producer is admitted twice");
                assert!(!self.lockdown, "a producer is admitted under lock-down");
                producer.is_initialized = true;
            }
            ("GetAsyncCommand", Some(body)) => {
                let response = protos::GetAsyncCommandResponse::decode(body.clone()).expect("a command");
                self.producer_is_commanded(conn, response.cmd.expect("a command"), fate);
            }
            (_, Some(_)) => {
                assert!(producer.is_initialized, "{method} is served before InitializeConnection")
            }
            ("InitializeConnection", None) if self.lockdown && !producer.is_initialized => {
                fate.saw("a producer kept out by lock-down");
            }
            ("InitializeConnection" | "GetAsyncCommand", None) => {}
            (_, None) => {
                assert!(!producer.is_initialized, "{method} of a producer is rejected");
                fate.saw("calls before InitializeConnection");
            }
        }
    }

    fn producer_is_commanded(&mut self, conn: ProducerConn, command: Cmd, fate: &mut Fate) {
        match command {
            Cmd::SetupDataSource(setup) => self.instance_is_set_up(conn, &setup, fate),
            Cmd::StopDataSource(stop) => self.instance_stops(conn, stop.instance_id()),
            Cmd::Flush(flush) => self.producer_flushes(conn, flush.request_id(), fate),
            Cmd::SetupTracing(_) | Cmd::StartDataSource(_) | Cmd::ClearIncrementalState(_) => {}
        }
    }

    fn instance_is_set_up(
        &mut self,
        conn: ProducerConn,
        setup: &protos::get_async_command_response::SetupDataSource,
        fate: &mut Fate,
    ) {
        let Some(producer) = self.producers.get(&conn) else { return };
        let serial = session_of(setup.config.as_ref());
        let raw = setup.config.clone().unwrap_or_default();
        let name = protos::DataSourceConfig::decode(raw).expect("a config").name().to_owned();
        let source = producer.sources.iter().find(|(source, _)| *source == name);
        let (_, notifies_stop) = source.expect("only what is registered is set up");
        if serial != 0 {
            let session = self.sessions.get(&serial).expect("data sources are set up for sessions");
            let plan = session.plan.as_ref().expect("a planned session");
            assert!(plan.sources.iter().any(|(wanted, _)| *wanted == name), "nobody wants {name}");
            let is_let_in = session.filter.is_empty() || session.filter.contains(&producer.name);
            assert!(is_let_in, "{} is filtered out", producer.name);
            assert!(plan.wants_machine(producer.machine), "the machine {} is filtered out", producer.machine);
            assert!(matches!(session.state, State::Configured | State::Running), "set up after the end");
            if self.attempt.is_none() {
                fate.saw("a producer comes late");
            }
            self.people.granted.insert((producer.uid, serial));
        }
        let instance =
            Instance { producer: conn, session: serial, source: name, notifies_stop: *notifies_stop };
        let before = self.instances.insert(setup.new_instance_id(), instance);
        assert!(before.is_none(), "an instance id is given twice");
    }

    fn instance_stops(&mut self, conn: ProducerConn, id: u64) {
        // Of data sources that were unregistered nobody waits for the stop.
        let Some(instance) = self.instances.get(&id) else { return };
        assert_eq!(instance.producer, conn, "a producer stops another's data source");
        let (key, notifies_stop) = (instance.session, instance.notifies_stop);
        self.promise(Some(key));
        if let Some(session) = self.sessions.get_mut(&key)
            && notifies_stop
        {
            session.stop_waits.insert(id);
        }
    }

    /// A flush that belongs to no call of a consumer is the service's own.
    fn producer_flushes(&mut self, conn: ProducerConn, request_id: u64, fate: &mut Fate) {
        let mut is_asked_for = false;
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.is_put_off) {
            waiting.request_id = Some(request_id);
            is_asked_for |= waiting.producers.insert(conn);
        }
        let is_new = |waiting: &&mut Waiting| waiting.request_id.is_none_or(|id| id == request_id);
        if let Some(waiting) = self.waiting.last_mut().filter(is_new) {
            waiting.request_id = Some(request_id);
            is_asked_for |= waiting.producers.insert(conn);
        }
        if !is_asked_for {
            fate.saw("periodic flush");
        }
    }
}
